"""DSSE envelopes: a payload, its type, and signatures over both.

The signature covers the pre-authentication encoding, so that a payload cannot pass as another type. Envelopes are made here
and verified by `crates/signing`. Must not know what a payload means or whom to trust.
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
    """One signature, and the hint of its key."""

    keyid: str
    sig: bytes


@dataclass(frozen=True)
class Envelope:
    """A payload with unverified signatures."""

    payload_type: str
    payload: bytes
    signatures: tuple[Signature, ...]

    def with_signature(self, signature: Signature) -> Envelope:
        """The envelope with one more signature."""
        return replace(self, signatures=(*self.signatures, signature))

    def document(self) -> dict[str, Any]:
        """The envelope as a JSON object."""
        listed = [{"sig": encode_base64(one.sig), "keyid": one.keyid} for one in self.signatures]
        return {"payload": encode_base64(self.payload), "payloadType": self.payload_type, "signatures": listed}

    def text(self) -> bytes:
        """The envelope as a file's content."""
        return json.dumps(self.document(), indent=2).encode("ascii") + b"\n"


def pae(payload_type: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding; its lengths keep type and payload apart."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def sign(payload_type: str, payload: bytes, key: keys.PrivateKey) -> Envelope:
    """An envelope signed by one key."""
    return Envelope(payload_type, payload, (signature_of(payload_type, payload, key),))


def signature_of(payload_type: str, payload: bytes, key: keys.PrivateKey) -> Signature:
    """One key's signature over a payload."""
    return Signature(keys.hint(key.public_key()), keys.sign(key, pae(payload_type, payload)))


def read_envelope(kind: EnvelopeKind, data: bytes) -> Envelope:
    """Parse an envelope; its signatures are not verified."""
    with boundary():
        payload = native.signed_payload(kind, data)
    document = json.loads(data)
    listed = tuple(Signature(one["keyid"], base64.b64decode(one["sig"])) for one in document["signatures"])
    return Envelope(document["payloadType"], payload, listed)
