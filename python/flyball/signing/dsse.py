"""DSSE envelopes: a payload, its type, and signatures over both.

The signature covers the pre-authentication encoding, so a payload can never be taken for one of another type. They are made
here, and read by `crates/signing`. Must not know what a payload says or whom to trust.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, replace
from typing import Any, Literal

from flyball.native.boundary import boundary, native
from flyball.signing import keys
from flyball.signing.strict import encode_base64

SIGNATURES_MAX = 16

EnvelopeKind = Literal["policy", "release", "index", "transfer"]


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


def read_envelope(kind: EnvelopeKind, data: bytes) -> Envelope:
    """The envelope in these bytes, which is well formed; its signatures are not verified."""
    with boundary():
        payload = native.signed_payload(kind, data)
    document = json.loads(data)
    listed = tuple(Signature(one["keyid"], base64.b64decode(one["sig"])) for one in document["signatures"])
    return Envelope(document["payloadType"], payload, listed)
