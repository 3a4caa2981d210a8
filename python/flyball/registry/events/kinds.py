"""The kinds of events and what stands in the body of each: one closed list, checked before anything is kept.

Events are read for ever, so a body may gain optional keys and never lose one. Must not know how events are stored.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from flyball.documents.faults import Allowed, faults_of
from flyball.documents.field_types import Name
from flyball.errors import RegistryRefusedError

Tier = Literal["low", "standard", "high"]
Role = Literal["reader", "deployer", "approver", "auditor"]


def printable(text: str) -> bool:
    """Whether every database can keep it and one line's end is all that could make it look like something else."""
    return all(letter.isprintable() or letter == "\n" for letter in text)


def _without_controls(text: str) -> str:
    if not printable(text):
        raise ValueError("control characters")
    return text


_Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$"), Allowed("sha256: and 64 lower-case hex digits")]
_Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$"), Allowed("64 lower-case hex digits")]
_Number = Annotated[int, Field(ge=1, le=2**31 - 1), Allowed("a version's number, 1 or more")]
_Text = Annotated[
    str, Field(max_length=4096), AfterValidator(_without_controls), Allowed("a text of up to 4096 printable characters")
]
_Short = Annotated[
    str,
    Field(min_length=1, max_length=256),
    AfterValidator(_without_controls),
    Allowed("a text of 1 to 256 printable characters"),
]
_Count = Annotated[int, Field(ge=0), Allowed("a whole number, 0 or more")]
_Time = Annotated[int, Field(ge=0), Allowed("microseconds since 1970")]
_Names = Annotated[list[Name], Field(min_length=1, max_length=16, description="a list of 1 to 16 names")]


class Body(BaseModel):
    """What an event says beside its kind."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, populate_by_name=True, defer_build=True)


class Reference(Body):
    """Another package that a decision uses: the model's name in the decision, and which version stands behind it."""

    model: _Short
    name: Name
    version: _Number
    root: _Digest


class Candidate(Body):
    """How a candidate stands beside what is placed: its share of the requests, or in their shadow."""

    share: Annotated[float, Field(ge=0, le=1), Allowed("a number, 0 to 1")]
    shadow: bool = False


class Registered(Body):
    """A version came to be. `root` is its package's id; `manifest` and `meta` are digests in the artifact store."""

    version: _Number
    root: _Digest
    manifest: _Digest
    meta: _Digest
    tier: Tier
    author: _Short
    kind: Literal["model", "decision"]
    references: Annotated[list[Reference], Field(max_length=16, description="a list of up to 16 references")] = []


class Signed(Body):
    """A signature over the package and a release statement, by the key whose hint and name stand here.

    `not_after`: the release's end, beside the release itself, so that nobody has to read that to know.
    """

    version: _Number
    bundle: _Digest
    release: _Digest
    key: _Hex
    name: _Short
    not_after: (
        Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$"), Allowed("a time, 2026-11-16T04:00:00Z")]
        | None
    ) = None
    submitted_by: _Short | None = None
    """Who handed the signature over, where that was not the key's owner: an API key or a user of the machine."""


class Approved(Body):
    """One approver's signature over the release statement."""

    version: _Number
    environments: _Names
    key: _Hex
    signature: _Text
    approver: _Short
    submitted_by: _Short | None = None


class Rejected(Body):
    """An approver's no."""

    version: _Number
    why: _Text


class Promoted(Body):
    """A version was placed in an environment, or stands beside what is placed there as a candidate."""

    version: _Number
    environment: Name
    previous: _Number | None
    evidence: Annotated[list[dict[str, Any]], Field(max_length=64, description="a list of up to 64 gate results")] = []
    candidate: Candidate | None = None
    break_glass: bool = False


class PassedOver(Body):
    """A version that a rollback did not go back to, and why servers would have refused it."""

    version: _Number
    why: _Text


class RolledBack(Body):
    """What is placed in an environment from now on, null for nothing; `from` is what was there. A candidate is gone."""

    environment: Name
    version: _Number | None
    from_: Annotated[_Number | None, Field(alias="from")]
    passed_over: Annotated[list[PassedOver], Field(max_length=32, description="a list of up to 32 versions")] = []


class Aliased(Body):
    """An alias points to a version, or to none any more."""

    alias: Name
    version: _Number | None
    previous: _Number | None


class Revoked(Body):
    """A version that must not be served again."""

    version: _Number
    root: _Digest


class Retired(Body):
    """A version that nobody needs any longer."""

    version: _Number


class Imported(Body):
    """Where a version came from."""

    version: _Number
    from_: Annotated[_Text, Field(alias="from")]


class Refused(Body):
    """An act that was asked for and not done: the stable code, and the words that were told.

    With `left_out`: so many acts of one caller, which were not written down one by one.
    """

    act: _Short
    code: _Short
    words: _Text
    left_out: Annotated[int, Field(ge=1), Allowed("a whole number, 1 or more")] | None = None


class KeyAdded(Body):
    """An API key and its roles; only its SHA-256 is kept."""

    name: Name
    roles: Annotated[list[Role], Field(min_length=1, max_length=4, description="a list of 1 to 4 roles")]
    sha256: _Hex


class KeyRemoved(Body):
    """An API key that is no longer taken."""

    name: Name


class Published(Body):
    """A snapshot of an environment was given to the data plane; `digest` is that of its index."""

    environment: Name
    generation: _Count
    digest: _Digest


class Serving(Body):
    """What a server answers with, and since when, as far as the registry heard of it."""

    version: _Number | None
    digest: _Digest
    since: _Time


class Acknowledged(Body):
    """What one server made of what is placed under a name: written when that changes, not each time that it is asked.

    `version` and `digest` are what it should serve, `serving` is what it does serve. `silent_since`: nobody heard of it from
    then on until now, so what it said before counts up to then only. `unsaid` counts changes that were too many to write.
    """

    name: Name
    node: _Short
    environment: Name
    generation: _Count
    version: _Number | None
    digest: _Digest | None
    state: Literal["applied", "refused", "removed"]
    reason: _Text
    serving: Serving | None
    silent_since: _Time | None = None
    unsaid: _Count = 0


class Forgotten(Body):
    """A server that is gone: what it said counts up to when it was last heard of."""

    node: _Short
    environment: Name
    silent_since: _Time


BODIES: dict[str, type[Body]] = {
    "registered": Registered,
    "signed": Signed,
    "approved": Approved,
    "rejected": Rejected,
    "promoted": Promoted,
    "rolled_back": RolledBack,
    "aliased": Aliased,
    "revoked": Revoked,
    "retired": Retired,
    "imported": Imported,
    "refused": Refused,
    "key_added": KeyAdded,
    "key_removed": KeyRemoved,
    "published": Published,
    "acknowledged": Acknowledged,
    "forgotten": Forgotten,
}


def read_body(kind: str, body: object) -> Body:
    """The body as its kind declares it; raises with all faults."""
    model = BODIES.get(kind)
    if model is None:
        raise RegistryRefusedError(f"there is no event of kind {kind!r}", next_step=f"kinds are {', '.join(BODIES)}")
    try:
        return model.model_validate(body)
    except ValidationError as error:
        faults = faults_of(error, model)
        raise RegistryRefusedError(f"the body of this {kind} event has {len(faults)} faults", faults=faults) from error
