"""`Trust`: a verified trust policy in force, which verifies signatures.

`crates/signing` verifies, here and in servers alike. Refusals are `SignatureError`s with a reason.
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
    """A valid key: hint, owner and roles."""

    hint: str
    name: str
    roles: list[str]


@dataclass(frozen=True)
class Package:
    """A version, its folder, and its unverified bundle."""

    ref: str
    folder: Path
    bundle: bytes | None


@dataclass(frozen=True)
class Deployed:
    """A deployment to verify: models by version, decision, policy and schema, all as digests."""

    name: str
    environment: str
    models: Mapping[str, str]
    decision: str | None = None
    policy: str | None = None
    schema: str | None = None


class Trust:
    """A policy in force. Every call takes the time: keys and the policy may expire meanwhile."""

    def __init__(self, data: bytes | None, roots: Sequence[keys.PublicKey], now: int, lowest_serial: int = 0) -> None:
        """Verify a policy's envelope: signed by a root key, with a serial not below `lowest_serial`."""
        with boundary():
            self._trust = native.Trust(data, _pems(roots), now, lowest_serial)
        self.policy = TrustPolicy.model_validate_json(dsse.read_envelope("policy", data or b"").payload)

    def key(self, hint: str, now: int) -> Signer:
        """The key with this hint; raises if it is unknown, revoked or not valid at this time."""
        with boundary():
            return Signer(**json.loads(self._trust.key(hint, now)))

    def signers(self, kind: dsse.EnvelopeKind, envelope: bytes, now: int) -> list[Signer]:
        """The signing keys in order; one invalid signature refuses the whole envelope."""
        with boundary():
            return [Signer(**one) for one in json.loads(self._trust.signers(kind, envelope, now))]

    def package(self, bundle: bytes | None, now: int, folder: Path | None = None) -> str:
        """Verify a package's bundle, and its folder if given; returns the root."""
        with boundary():
            return self._trust.package(bundle, now, None if folder is None else str(folder))

    def release(self, envelope: bytes | None, now: int, environment: str) -> Release:
        """Verify a release: signed, approved, and valid now in this environment."""
        with boundary():
            found = json.loads(self._trust.release(envelope, now, environment))
        return Release(read_release(envelope or b""), **found)

    def check_index(self, index: bytes, signature: bytes | None, now: int) -> None:
        """Require a publisher's signature over these index bytes."""
        with boundary():
            self._trust.index(index, signature, now)

    def admit(self, deployed: Deployed, release: bytes | None, packages: Sequence[Package], now: int) -> Release:
        """Verify a deployment in the order of a server's checks; returns its release."""
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
    """Parse a policy, in force or not; without roots its signatures are not verified."""
    with boundary():
        return TrustPolicy.model_validate_json(native.trust_policy(data, None if roots is None else _pems(roots)))


def sign_policy(policy: TrustPolicy, roots: Iterable[keys.PrivateKey]) -> bytes:
    """Sign a policy; readers accept it if they know one of the roots."""
    payload = json.dumps(policy.document(), indent=2).encode("ascii")
    signatures = tuple(dsse.signature_of(PAYLOAD_TYPE, payload, root) for root in roots)
    return dsse.Envelope(PAYLOAD_TYPE, payload, signatures).text()


def _pems(roots: Sequence[keys.PublicKey]) -> str:
    return "".join(keys.public_pem(root) for root in roots)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
