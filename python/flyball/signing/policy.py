"""`TrustPolicy`: which keys may do what and until when, what is revoked, and which versions are too old.

The document that root keys sign. Every edit gives a new one with the next serial; nothing is changed in place. Must not know
signatures: `flyball.signing.trust` judges by it.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from flyball.documents.names import NAME_PATTERN
from flyball.errors import UsageError
from flyball.signing import keys
from flyball.signing.keys import PublicKey
from flyball.signing.reasons import Reason, refused
from flyball.signing.strict import constant, is_digest, is_hex, seconds, written

KEYS_MAX = 1_000
REVOKED_MAX = 10_000
MINIMUMS_MAX = 10_000
NUMBER_MAX = 2_147_483_647
APPROVALS_MAX = 15  # an envelope has 16 signatures at most, and one of them is the author's
# People and teams: compared without regard to case, so ASCII, where every language folds alike.
PERSON_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9 ._@+-]{0,127}$"

_POLICY = "the trust policy"
_Model = TypeVar("_Model", bound=BaseModel)

Role = Literal["signer", "approver", "publisher"]
Tier = Literal["low", "standard", "high"]


def _time(text: str) -> str:
    seconds(text)
    return text


def _hint(text: str) -> str:
    if not is_hex(text):
        raise ValueError("a hint has 64 small hexadecimal digits")
    return text


def _digest(text: str) -> str:
    if not is_digest(text):
        raise ValueError("a digest is sha256: and 64 small hexadecimal digits")
    return text


Time = Annotated[str, AfterValidator(_time)]
Hint = Annotated[str, AfterValidator(_hint)]
Digest = Annotated[str, AfterValidator(_digest)]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Number = Annotated[int, Field(ge=1, le=NUMBER_MAX)]
Count = Annotated[int, Field(ge=0, le=APPROVALS_MAX)]


class Signed(BaseModel):
    """What all parts of our own signed documents have: exact types, no key that is not known, no change."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class TrustedKey(Signed):
    """A key, whose it is, what it may do, and when."""

    hint: Hint
    pem: Annotated[str, Field(max_length=1024)]
    name: Annotated[str, Field(pattern=PERSON_PATTERN)]
    roles: Annotated[list[Role], Field(min_length=1, max_length=3)]
    since: Time = Field(alias="from")
    until: Time | None

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> Self:
        if self.until is not None and seconds(self.until) <= seconds(self.since):
            raise ValueError("until must be after from")
        if len(set(self.roles)) != len(self.roles):
            raise ValueError("a role stands twice")
        return self

    @cached_property
    def public(self) -> keys.PublicKey:
        """The key itself."""
        return keys.load_public(self.pem)

    @property
    def person(self) -> str:
        """The name as it is compared: a second key does not make a second person."""
        return self.name.lower()


class Revocation(Signed):
    """A key or a package that nothing may rest on any more. `at` and `why` are for people: it holds always."""

    key: Hint | None = None
    package: Digest | None = None
    at: Time
    why: Annotated[str, Field(max_length=1024)]

    @model_validator(mode="after")
    def _one_of_the_two(self) -> Self:
        if self.model_fields_set >= {"key", "package"} or (self.key is None) == (self.package is None):
            raise ValueError("a revocation names a key or a package")
        return self


class Approvals(Signed):
    """How many people must approve a release of each tier."""

    low: Count
    standard: Count
    high: Count


FIRST_APPROVALS = Approvals(low=0, standard=1, high=2)
"""What holds until somebody says otherwise."""


class TrustPolicy(Signed):
    """What the root keys say is to be trusted."""

    format: Literal[1]
    serial: Number
    issued: Time
    expires: Time | None
    keys: Annotated[list[TrustedKey], Field(max_length=KEYS_MAX)]
    revoked: Annotated[list[Revocation], Field(max_length=REVOKED_MAX)]
    minimum: Annotated[dict[Name, Number], Field(max_length=MINIMUMS_MAX)]
    approvals: Approvals

    @model_validator(mode="after")
    def _names_are_small(self) -> Self:
        if any(name != name.lower() for name in self.minimum):  # a release's name is compared without regard to case
            raise ValueError("the names below minimum are written small")
        return self

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

    @classmethod
    def read(cls, document: dict[str, Any]) -> Self:
        """The policy in a JSON object, checked whole: its keys are keys, and their hints are theirs."""
        constant(document, "format", 1, _POLICY)
        for name, most in (("keys", KEYS_MAX), ("revoked", REVOKED_MAX), ("minimum", MINIMUMS_MAX)):
            if isinstance(document.get(name), list | dict) and len(document[name]) > most:
                raise refused(Reason.TOO_LARGE, f"{_POLICY} has more than {most:,} {name}")
        policy = validated(cls, document, _POLICY)
        hints = Counter(key.hint for key in policy.keys)
        twice = [hint for hint, times in hints.items() if times > 1]
        if twice:
            raise refused(Reason.DUPLICATE_NAME, f"{_POLICY} has the key {twice[0]} twice")
        for key in policy.keys:
            if keys.hint(key.public) != key.hint:
                raise refused(Reason.MALFORMED, f"{_POLICY}: the hint of {key.name} is not its key's")
        return policy

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
            return type(self).model_validate(document)
        except ValidationError as error:
            raise UsageError(f"that is no trust policy: {words(error)}", next_step="flyball trust show") from error


def validated(model: type[_Model], document: object, what: str) -> _Model:
    """The model in a JSON value, or a refusal with the first fault."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise refused(Reason.MALFORMED, f"{what}: {words(error)}") from error


def words(error: ValidationError) -> str:
    """The first fault of a document, for people."""
    first = error.errors(include_url=False)[0]
    said = first["msg"].removeprefix("Value error, ")
    return ": ".join([*filter(None, [".".join(map(str, first["loc"]))]), said[:1].lower() + said[1:]])
