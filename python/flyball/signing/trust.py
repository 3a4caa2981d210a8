"""`Trust`: a trust policy that root keys signed and that is in force, and what it says of signatures.

`crates/signing` verifies, here and in servers alike; what it refuses is a `SignatureError` with its reason.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flyball.native.boundary import boundary, native
from flyball.signing import dsse, keys
from flyball.signing.policy import TrustPolicy
from flyball.signing.release import Release, read_release

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

PAYLOAD_TYPE = "application/vnd.flyball.trust.v1+json"


@dataclass(frozen=True)
class Signer:
    """A key that counts: its hint, whose it is, and what it may do."""

    hint: str
    name: str
    roles: list[str]


@dataclass(frozen=True)
class Package:
    """A version, its folder, and the bundle that is said to sign it."""

    ref: str
    folder: Path
    bundle: bytes | None


@dataclass(frozen=True)
class Deployed:
    """What is to be served under which name: its models by version, its decision, policy and schema, all by digests."""

    name: str
    environment: str
    models: Mapping[str, str]
    decision: str | None = None
    policy: str | None = None
    schema: str | None = None


class Trust:
    """A policy in force. Every question is put with its time: keys and the policy itself may end meanwhile."""

    def __init__(self, data: bytes | None, roots: Sequence[keys.PublicKey], now: int, lowest_serial: int = 0) -> None:
        """The policy in an envelope, where a root key signed it and no newer one was taken before."""
        with boundary():
            self._trust = native.Trust(data, _pems(roots), now, lowest_serial)
        self.policy = TrustPolicy.model_validate_json(dsse.read_envelope("policy", data or b"").payload)

    def key(self, hint: str, now: int) -> Signer:
        """The key with this hint, where it is known, not revoked, and valid at this time."""
        with boundary():
            return Signer(**json.loads(self._trust.key(hint, now)))

    def signers(self, kind: dsse.EnvelopeKind, envelope: bytes, now: int) -> list[Signer]:
        """The keys that signed, in order. One signature that does not hold refuses the whole, even where others do."""
        with boundary():
            return [Signer(**one) for one in json.loads(self._trust.signers(kind, envelope, now))]

    def package(self, bundle: bytes | None, now: int, folder: Path | None = None) -> str:
        """The root of a package whose bundle a trusted signer made, for exactly this folder where one is given."""
        with boundary():
            return self._trust.package(bundle, now, None if folder is None else str(folder))

    def release(self, envelope: bytes | None, now: int, environment: str) -> Release:
        """The release, where it is signed and approved as the policy asks and holds now in this environment."""
        with boundary():
            found = json.loads(self._trust.release(envelope, now, environment))
        return Release(read_release(envelope or b""), **found)

    def check_index(self, index: bytes, signature: bytes | None, now: int) -> None:
        """Refuse where these are not the bytes of the index that a publisher signed."""
        with boundary():
            self._trust.index(index, signature, now)

    def admit(self, deployed: Deployed, release: bytes | None, packages: Sequence[Package], now: int) -> Release:
        """The release that lets this be served, or the first reason against it, in the order in which servers ask."""
        asked = {
            **vars(deployed),
            "models": dict(deployed.models),
            "release": _text(release),
            "packages": [{"name": one.ref, "folder": str(one.folder), "bundle": _text(one.bundle)} for one in packages],
        }
        with boundary():
            found = json.loads(self._trust.admit(json.dumps(asked).encode(), now))
        return Release(read_release(release or b""), **found)


def open_policy(data: bytes, roots: Sequence[keys.PublicKey] | None) -> TrustPolicy:
    """The policy that a root key signed, in force or not; without roots its signatures are not verified."""
    with boundary():
        return TrustPolicy.model_validate_json(native.trust_policy(data, None if roots is None else _pems(roots)))


def sign_policy(policy: TrustPolicy, roots: Iterable[keys.PrivateKey]) -> bytes:
    """The signed envelope of a policy, which a reader takes where it knows one of the roots."""
    payload = json.dumps(policy.document(), indent=2).encode("ascii")
    signatures = tuple(dsse.signature_of(PAYLOAD_TYPE, payload, root) for root in roots)
    return dsse.Envelope(PAYLOAD_TYPE, payload, signatures).text()


def _pems(roots: Sequence[keys.PublicKey]) -> str:
    return "".join(keys.public_pem(root) for root in roots)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
