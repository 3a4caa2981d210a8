"""DSSE envelopes: a payload, its type, and signatures over both.

The signature covers the pre-authentication encoding, so a payload can never be taken for one of another type. Must not know
what a payload says or whom to trust.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from flyball.signing import keys
from flyball.signing.reasons import Reason, refused
from flyball.signing.strict import constant, decode_base64, encode_base64, field, is_hex, read_object

SIGNATURES_MAX = 16


@dataclass(frozen=True)
class Signature:
    """One signature and the hint of the key that made it."""

    keyid: str
    sig: bytes


@dataclass(frozen=True)
class Envelope:
    """A payload with its signatures, none of which is judged yet."""

    payload_type: str
    payload: bytes
    signatures: tuple[Signature, ...]

    def signed_bytes(self) -> bytes:
        """What the signatures are over."""
        return pae(self.payload_type, self.payload)

    def with_signature(self, signature: Signature) -> Envelope:
        """The same payload with one signature more."""
        return replace(self, signatures=(*self.signatures, signature))

    def document(self) -> dict[str, Any]:
        """The JSON object of this envelope."""
        listed = [{"sig": encode_base64(one.sig), "keyid": one.keyid} for one in self.signatures]
        return {"payload": encode_base64(self.payload), "payloadType": self.payload_type, "signatures": listed}

    def text(self) -> bytes:
        """The envelope as a file has it."""
        return json.dumps(self.document(), indent=2).encode("ascii") + b"\n"


def pae(payload_type: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: both lengths stand in it, so that nothing can move between the two."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def sign(payload_type: str, payload: bytes, key: keys.PrivateKey) -> Envelope:
    """An envelope with the signature of one key."""
    return Envelope(payload_type, payload, (signature_of(payload_type, payload, key),))


def signature_of(payload_type: str, payload: bytes, key: keys.PrivateKey) -> Signature:
    """One key's signature over a payload."""
    return Signature(keys.hint(key.public_key()), keys.sign(key, pae(payload_type, payload)))


def read_envelope(data: bytes, payload_type: str, what: str, bytes_max: int) -> Envelope:
    """The envelope in these bytes, of this payload type; each signature names its key."""
    document = read_object(data, what, bytes_max)
    envelope = parse_envelope(document, payload_type, what)
    for signature in envelope.signatures:
        if not is_hex(signature.keyid):
            raise refused(Reason.MALFORMED, f"a signature of {what} does not name its key by its hint")
    return envelope


def parse_envelope(document: dict[str, Any], payload_type: str, what: str) -> Envelope:
    """The envelope in a JSON object. Keys that DSSE does not have are passed over; `keyid` may be absent in it."""
    constant(document, "payloadType", payload_type, what)
    payload = decode_base64(field(document, "payload", str, what), f"the payload of {what}")
    listed = field(document, "signatures", list, what)
    if not listed:
        raise refused(Reason.UNSIGNED, f"{what} has no signature")
    if len(listed) > SIGNATURES_MAX:
        raise refused(Reason.TOO_LARGE, f"{what} has {len(listed)} signatures, and {SIGNATURES_MAX} are allowed")
    return Envelope(payload_type, payload, tuple(_signature(one, what) for one in listed))


def _signature(document: object, what: str) -> Signature:
    name = f"a signature of {what}"
    if not isinstance(document, dict):
        raise refused(Reason.MALFORMED, f"{name} is not an object")
    keyid = document.get("keyid")
    if keyid is None:
        keyid = ""
    if not isinstance(keyid, str):
        raise refused(Reason.MALFORMED, f"{name} has a keyid that is not a text")
    return Signature(keyid, decode_base64(field(document, "sig", str, name), name))
