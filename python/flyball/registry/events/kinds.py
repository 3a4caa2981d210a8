"""The closed list of event kinds, with the body of each, validated before an event is stored.

Events are read forever, so a body may gain optional keys but never lose one. Must not know how events are stored.
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
    """Whether a text has only printable characters and line feeds, which every database can store."""
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
    """The fields of one event kind."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, populate_by_name=True, defer_build=True)


class Reference(Body):
    """A version of another package that a decision uses, and the model's name in the decision."""

    model: _Short
    name: Name
    version: _Number
    root: _Digest


class Candidate(Body):
    """The traffic of a candidate: its share of the requests, or a copy of each."""

    share: Annotated[float, Field(ge=0, le=1), Allowed("a number, 0 to 1")]
    shadow: bool = False


class Registered(Body):
    """A new version. `root` is its package's id; `manifest` and `meta` are digests in the artifact store."""

    version: _Number
    root: _Digest
    manifest: _Digest
    meta: _Digest
    tier: Tier
    author: _Short
    kind: Literal["model", "decision"]
    references: Annotated[list[Reference], Field(max_length=16, description="a list of up to 16 references")] = []


class Signed(Body):
    """Signatures over the package and its release statement, by the key with this hint and name.

    `not_after` repeats the release's end, so that readers need not fetch the release.
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
    """Who submitted the signature, if not the key's owner: an API key or an operating system user."""


class Approved(Body):
    """One approver's signature over the release statement."""

    version: _Number
    environments: _Names
    key: _Hex
    signature: _Text
    approver: _Short
    submitted_by: _Short | None = None


class Rejected(Body):
    """A rejection by an approver."""

    version: _Number
    why: _Text


class Promoted(Body):
    """A version was placed in an environment, as champion or as candidate."""

    version: _Number
    environment: Name
    previous: _Number | None
    evidence: Annotated[list[dict[str, Any]], Field(max_length=64, description="a list of up to 64 gate results")] = []
    candidate: Candidate | None = None
    break_glass: bool = False


class PassedOver(Body):
    """A version that a rollback skipped, and why servers would have refused it."""

    version: _Number
    why: _Text


class RolledBack(Body):
    """A rollback from one version to another, or to nothing (null); it also removes the candidate."""

    environment: Name
    version: _Number | None
    from_: Annotated[_Number | None, Field(alias="from")]
    passed_over: Annotated[list[PassedOver], Field(max_length=32, description="a list of up to 32 versions")] = []


class Aliased(Body):
    """An alias was moved to a version, or removed (null)."""

    alias: Name
    version: _Number | None
    previous: _Number | None


class Revoked(Body):
    """A version that must never serve again."""

    version: _Number
    root: _Digest


class Retired(Body):
    """A version that is no longer needed."""

    version: _Number


class Imported(Body):
    """The origin of an imported version."""

    version: _Number
    from_: Annotated[_Text, Field(alias="from")]


class Refused(Body):
    """A refused act: its stable code and message.

    `left_out`: the number of further refusals of one caller that were counted instead of recorded.
    """

    act: _Short
    code: _Short
    words: _Text
    left_out: Annotated[int, Field(ge=1), Allowed("a whole number, 1 or more")] | None = None


class KeyAdded(Body):
    """A new API key with its roles; only its SHA-256 is stored."""

    name: Name
    roles: Annotated[list[Role], Field(min_length=1, max_length=4, description="a list of 1 to 4 roles")]
    sha256: _Hex


class KeyRemoved(Body):
    """A removed API key."""

    name: Name


class Published(Body):
    """A snapshot of an environment was applied to the data plane; `digest` is its index's."""

    environment: Name
    generation: _Count
    digest: _Digest


class Serving(Body):
    """What a server serves, and since when by its reports."""

    version: _Number | None
    digest: _Digest
    since: _Time


class Acknowledged(Body):
    """A server's changed report about one name; repeated equal reports make no events.

    `version` and `digest` are what it should serve, `serving` is what it does serve. `silent_since`: it sent no reports from
    then until now, so its previous report counts only up to then. `unsaid` counts changes above the hourly limit.
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
    """A forgotten server: its reports count up to its last one, `silent_since`."""

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
    """Validate a body by its kind; raises with all faults."""
    model = BODIES.get(kind)
    if model is None:
        raise RegistryRefusedError(f"there is no event of kind {kind!r}", next_step=f"kinds are {', '.join(BODIES)}")
    try:
        return model.model_validate(body)
    except ValidationError as error:
        faults = faults_of(error, model)
        raise RegistryRefusedError(f"the body of this {kind} event has {len(faults)} faults", faults=faults) from error
