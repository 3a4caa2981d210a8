"""`Trust`: a trust policy that root keys signed and that is in force, and the keys that it lets through.

`crates/signing` judges in the same order, so that both refuse for the same reason. Must not know what packages and releases
are made of.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from flyball.signing import dsse, keys
from flyball.signing.policy import TrustedKey, TrustPolicy
from flyball.signing.reasons import Reason, refused
from flyball.signing.strict import read_object, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TRUST_BYTES_MAX = 4 * 1024 * 1024
PAYLOAD_TYPE = "application/vnd.flyball.trust.v1+json"
_POLICY = "the trust policy"


class Trust:
    """A policy in force: which key may speak, and which package is out."""

    def __init__(self, policy: TrustPolicy) -> None:
        self.policy = policy
        self._keys = {key.hint: key for key in policy.keys}
        self._revoked_keys = {one.key: one for one in policy.revoked if one.key}
        self._revoked_packages = {one.package: one for one in policy.revoked if one.package}

    def key(self, hint: str, now: int) -> TrustedKey:
        """The key with this hint, where it is known, not revoked, and valid at this time."""
        key = self._keys.get(hint)
        if key is None:
            step = "flyball trust add PUBLIC-KEY --name NAME --role ROLE"
            raise refused(Reason.UNKNOWN_KEY, f"the trust policy does not know the key {hint[:12]}…", step)
        revoked = self._revoked_keys.get(hint)
        if revoked is not None:
            raise refused(Reason.KEY_REVOKED, f"the key of {key.name} was revoked on {revoked.at}: {revoked.why}")
        if now < seconds(key.since):
            raise refused(Reason.KEY_NOT_YET_VALID, f"the key of {key.name} is valid from {key.since}")
        if key.until is not None and now >= seconds(key.until):
            raise refused(Reason.KEY_EXPIRED, f"the key of {key.name} expired on {key.until}", "sign again with a valid key")
        return key

    def signers(self, envelope: dsse.Envelope, now: int, what: str) -> list[TrustedKey]:
        """The keys that signed, in order. One signature that does not hold refuses the whole, even where others do."""
        found = []
        for signature in envelope.signatures:
            key = self.key(signature.keyid, now)
            if not keys.verified(key.public, signature.sig, envelope.signed_bytes()):
                raise refused(Reason.BAD_SIGNATURE, f"the signature of {key.name} is not over {what} as it is")
            found.append(key)
        return found

    def check_package(self, root: str) -> None:
        """Refuse a package that was revoked."""
        revoked = self._revoked_packages.get(root)
        if revoked is not None:
            raise refused(Reason.PACKAGE_REVOKED, f"the package {root[:19]}… was revoked on {revoked.at}: {revoked.why}")


def read_policy(data: bytes | None, roots: Sequence[keys.PublicKey], now: int, lowest_serial: int = 0) -> Trust:
    """The policy in an envelope, where a root key signed it, it is in force, and no newer one was taken before."""
    if data is None:
        raise refused(Reason.UNSIGNED, "there is no trust policy", "flyball trust init")
    policy = open_policy(data, roots)
    if policy.serial < lowest_serial:
        words = f"the trust policy has the serial {policy.serial}, and {lowest_serial} was taken before"
        raise refused(Reason.TRUST_DOWNGRADE, words, "give the newest policy")
    if policy.expires is not None and now >= seconds(policy.expires):
        raise refused(Reason.TRUST_EXPIRED, f"the trust policy expired on {policy.expires}", "flyball trust renew")
    return Trust(policy)


def open_policy(data: bytes, roots: Sequence[keys.PublicKey]) -> TrustPolicy:
    """The policy that a root key signed, in force or not: for those who make the next one of it."""
    envelope = dsse.read_envelope(data, PAYLOAD_TYPE, _POLICY, TRUST_BYTES_MAX)
    _check_roots(envelope, roots)
    return TrustPolicy.read(read_object(envelope.payload, _POLICY, TRUST_BYTES_MAX))


def sign_policy(policy: TrustPolicy, roots: Iterable[keys.PrivateKey]) -> bytes:
    """The signed envelope of a policy, which a reader takes where it knows one of the roots."""
    payload = json.dumps(policy.document(), indent=2).encode("ascii")
    signatures = tuple(dsse.signature_of(PAYLOAD_TYPE, payload, root) for root in roots)
    return dsse.Envelope(PAYLOAD_TYPE, payload, signatures).text()


def _check_roots(envelope: dsse.Envelope, roots: Sequence[keys.PublicKey]) -> None:
    """One root that is known is enough, so that roots can be changed: the next one signs beside the old one first."""
    known = {keys.hint(root): root for root in roots}
    mine = [signature for signature in envelope.signatures if signature.keyid in known]
    if not mine:
        step = "give the root key that signed it"
        raise refused(Reason.UNKNOWN_KEY, "the trust policy is signed by no root key that is known here", step)
    for signature in mine:
        if not keys.verified(known[signature.keyid], signature.sig, envelope.signed_bytes()):
            raise refused(Reason.BAD_SIGNATURE, "the trust policy was changed after a root key signed it")
