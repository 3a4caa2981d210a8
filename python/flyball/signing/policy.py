"""`TrustPolicy`: keys with their roles and validity, revocations, and minimum versions.

Root keys sign this document. Every edit returns a new policy with the next serial. `crates/signing` validates policies. Must
not know signatures.
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
    """Base of all parts of signed documents: strict types, no unknown keys, immutable."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class TrustedKey(Signed):
    """A key with its owner, roles and validity."""

    hint: str
    pem: str
    name: str
    roles: list[Role]
    since: str = Field(alias="from")
    until: str | None


class Revocation(Signed):
    """A revoked key or package. `at` and `why` are informative: it applies to all times."""

    key: str | None = None
    package: str | None = None
    at: str
    why: str


class Approvals(Signed):
    """The number of required approvals per tier."""

    low: int
    standard: int
    high: int


FIRST_APPROVALS = Approvals(low=0, standard=1, high=2)
"""The defaults of a new policy."""


class TrustPolicy(Signed):
    """The content of a trust policy."""

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
        """An empty policy without keys."""
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
        """The policy as a JSON object."""
        shown = self.model_dump(by_alias=True)
        shown["revoked"] = [{key: value for key, value in one.items() if value is not None} for one in shown["revoked"]]
        return shown

    def with_key(self, key: PublicKey, name: str, roles: list[Role], *, since: int, until: int | None, now: int) -> Self:
        """The next policy with this key added or replaced."""
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
        """The next policy with a key (by hint) or a package (by root, `sha256:…`) revoked."""
        kind = "package" if is_digest(what) else "key"
        if kind == "key" and not is_hex(what):
            raise UsageError(f"{what!r} is neither a key's hint nor a package's root", next_step="flyball trust show")
        if any(what in (one.key, one.package) for one in self.revoked):
            raise UsageError(f"{what} is revoked already", next_step="flyball trust show")
        return self._next(now, revoked=[*self.document()["revoked"], {kind: what, "at": written(now), "why": why}])

    def with_minimum(self, name: str, version: int, now: int) -> Self:
        """The next policy with a minimum version for a name."""
        return self._next(now, minimum={**self.minimum, name.lower(): version})

    def with_approvals(self, tier: Tier, people: int, now: int) -> Self:
        """The next policy with this number of approvals for a tier."""
        return self._next(now, approvals={**self.approvals.model_dump(), tier: people})

    def renewed(self, now: int, expires: int | None) -> Self:
        """The next policy with another expiry."""
        return self._next(now, expires=None if expires is None else written(expires))

    def _next(self, now: int, **changes: Any) -> Self:
        document = {**self.document(), "serial": self.serial + 1, "issued": written(now), **changes}
        try:
            with boundary():
                native.check_trust_policy(json.dumps(document).encode())
        except SignatureError as error:
            raise UsageError(f"invalid trust policy: {error.words}", next_step="flyball trust show") from error
        return type(self).model_validate(document)
