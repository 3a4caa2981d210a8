"""`TrustPolicy`: which keys may do what and until when, what is revoked, and which versions are too old.

The document that root keys sign. Every edit gives a new one with the next serial; nothing is changed in place. What a policy
may say is checked by `crates/signing`. Must not know signatures.
"""

from __future__ import annotations

import json
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from flyball.errors import SignatureError, UsageError
from flyball.native.boundary import boundary, native
from flyball.signing import keys
from flyball.signing.keys import PublicKey
from flyball.signing.strict import is_digest, is_hex, written

Role = Literal["signer", "approver", "publisher"]
Tier = Literal["low", "standard", "high"]


class Signed(BaseModel):
    """What all parts of our own signed documents have: exact types, no key that is not known, no change."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class TrustedKey(Signed):
    """A key, whose it is, what it may do, and when."""

    hint: str
    pem: str
    name: str
    roles: list[Role]
    since: str = Field(alias="from")
    until: str | None


class Revocation(Signed):
    """A key or a package that nothing may rest on any more. `at` and `why` are for people: it holds always."""

    key: str | None = None
    package: str | None = None
    at: str
    why: str


class Approvals(Signed):
    """How many people must approve a release of each tier."""

    low: int
    standard: int
    high: int


FIRST_APPROVALS = Approvals(low=0, standard=1, high=2)
"""What holds until somebody says otherwise."""


class TrustPolicy(Signed):
    """What the root keys say is to be trusted."""

    format: Literal[1]
    serial: int
    issued: str
    expires: str | None
    keys: list[TrustedKey]
    revoked: list[Revocation]
    minimum: dict[str, int]
    approvals: Approvals

    @classmethod
    def first(cls, now: int, expires: int | None = None) -> Self:
        """An empty policy: nobody is trusted with anything yet."""
        until = None if expires is None else written(expires)
        return cls(
            format=1,
            serial=1,
            issued=written(now),
            expires=until,
            keys=[],
            revoked=[],
            minimum={},
            approvals=FIRST_APPROVALS,
        )

    def document(self) -> dict[str, Any]:
        """The JSON object of this policy."""
        shown = self.model_dump(by_alias=True)
        shown["revoked"] = [{key: value for key, value in one.items() if value is not None} for one in shown["revoked"]]
        return shown

    def with_key(self, key: PublicKey, name: str, roles: list[Role], *, since: int, until: int | None, now: int) -> Self:
        """The next policy, in which this key may do this; a key that was there is replaced."""
        entry = {
            "hint": keys.hint(key),
            "pem": keys.public_pem(key),
            "name": name,
            "roles": roles,
            "from": written(since),
            "until": None if until is None else written(until),
        }
        others = [known for known in self.document()["keys"] if known["hint"] != entry["hint"]]
        return self._next(now, keys=[*others, entry])

    def revoking(self, what: str, why: str, now: int) -> Self:
        """The next policy, in which a key (its hint) or a package (its root, `sha256:…`) is revoked."""
        kind = "package" if is_digest(what) else "key"
        if kind == "key" and not is_hex(what):
            raise UsageError(f"{what!r} is neither a key's hint nor a package's root", next_step="flyball trust show")
        if any(what in (one.key, one.package) for one in self.revoked):
            raise UsageError(f"{what} is revoked already", next_step="flyball trust show")
        return self._next(now, revoked=[*self.document()["revoked"], {kind: what, "at": written(now), "why": why}])

    def with_minimum(self, name: str, version: int, now: int) -> Self:
        """The next policy, in which versions of a name below this one are refused."""
        return self._next(now, minimum={**self.minimum, name.lower(): version})

    def with_approvals(self, tier: Tier, people: int, now: int) -> Self:
        """The next policy, in which so many people must approve a release of a tier."""
        return self._next(now, approvals={**self.approvals.model_dump(), tier: people})

    def renewed(self, now: int, expires: int | None) -> Self:
        """The next policy, which is the same and ends at another time."""
        return self._next(now, expires=None if expires is None else written(expires))

    def _next(self, now: int, **changes: Any) -> Self:
        document = {**self.document(), "serial": self.serial + 1, "issued": written(now), **changes}
        try:
            with boundary():
                native.check_trust_policy(json.dumps(document).encode())
        except SignatureError as error:
            raise UsageError(f"that is no trust policy: {error.words}", next_step="flyball trust show") from error
        return type(self).model_validate(document)
