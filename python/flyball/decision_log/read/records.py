"""Records of the log with their types, and a decision's whole history: itself, and what was told of it later.

Must not know how they are shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flyball.errors import JournalRefusedError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flyball.native.journal import JournalLog


class _Part(BaseModel):
    # A log may be written by a newer flyball than reads it; what it says beyond this is kept, not refused.
    model_config = ConfigDict(frozen=True, extra="allow")


class Feature(_Part):
    """A value as it was used, where it came from, and how old it was then."""

    value: Any
    origin: str
    age_ms: float | None = None


class Reason(_Part):
    """Why a decision went as it did; the contribution is of the model's margin."""

    code: str
    field: str | None = None
    contribution: float | None = None


class ModelUsed(_Part):
    """A model that took part."""

    model: str
    version: str
    digest: str


class Run(_Part):
    """The run of a model that a row was part of."""

    model: str
    rows: int
    position: int


class RemedyUsed(_Part):
    """What was done instead, and for what."""

    cause: str
    stage: str
    used: str


class Record(_Part):
    """What every record has: its kind, the decision that it is about, its time, and its place in the log."""

    kind: str
    id: str
    seq: int
    segment: int
    frame: int
    leaf: str
    prev: str
    at: int
    time: str


class _Asked(Record):
    """The head of decisions and failures: what was asked, of what, by whom."""

    mono: int | None = None
    decision: str
    document: str | None = None
    policy: str | None = None
    schema_digest: str | None = Field(None, alias="schema")
    runtime: str | None = None
    models: list[ModelUsed] = []
    protocol: str | None = None
    caller: str | None = None
    key: str | None = None
    trace: str | None = None
    row: str | None = None
    features: dict[str, Feature] = {}
    input: dict[str, Any] | None = None
    input_blob: tuple[str, int] | None = None
    personal: Literal["sealed", "erased"] | None = None
    personal_fields: list[str] = []
    personal_features: list[str] = []
    personal_values: list[str] = []
    subject: str | None = None


class Decided(_Asked):
    """A row that was decided."""

    kind: Literal["decision"] = "decision"
    variant: str | None = None
    route: str
    batch: list[Run] = []
    scores: dict[str, float] = {}
    outputs: dict[str, Any] = {}
    score: float | None = None
    outcome: str
    band: str | None = None
    rules: list[Any] = []
    reasons: list[Reason] = []
    remedy: RemedyUsed | None = None
    timings: dict[str, int | None] = {}
    sampled: bool = True
    masked: list[str] = []


class Failed(_Asked):
    """A row that was admitted and came to no decision."""

    kind: Literal["failed"] = "failed"
    fault: list[str] | dict[str, str]


class Shadowed(Record):
    """What a shadow made of a decision."""

    kind: Literal["shadow"] = "shadow"
    of: str
    variant: str | None = None
    score: float | None = None
    outcome: str | None = None
    agrees: bool | None = None


class Outcome(Record):
    """What turned out to be true, told later, maybe more than once."""

    kind: Literal["outcome"] = "outcome"
    decision: str
    truth: Any
    when: int | None = None
    source: str | None = None
    caller: str | None = None


class Override(Record):
    """What a person decided instead."""

    kind: Literal["override"] = "override"
    decision: str
    outcome: str
    by: str
    why: str
    caller: str | None = None


class Erasure(Record):
    """A subject's key was deleted. The reason is None where it was not opened."""

    kind: Literal["erased"] = "erased"
    by: str
    why: str | None = None
    caller: str | None = None
    subject: str | None = None


class Tensors(Record):
    """Tensors that were sent past a decision to its model, where that is exposed."""

    kind: Literal["tensors"] = "tensors"
    decision: str
    models: list[ModelUsed] = []
    protocol: str | None = None
    caller: str | None = None
    trace: str | None = None
    rows: int = 0


_TYPES: dict[str, type[Record]] = {
    "decision": Decided,
    "failed": Failed,
    "shadow": Shadowed,
    "outcome": Outcome,
    "override": Override,
    "erased": Erasure,
    "tensors": Tensors,
}


def typed(document: dict[str, Any]) -> Record:
    """A record by its kind. Kinds without a type of their own are plain records, with what they say as attributes."""
    try:
        return _TYPES.get(str(document.get("kind")), Record).model_validate(document)
    except ValidationError as error:
        raise JournalRefusedError(
            f"record {document.get('seq')} is not as this flyball knows it: {error.errors()[0]['msg']}",
            next_step=f"look at it as it is:  flyball decisions query --json --where 'seq = {document.get('seq')}'",
        ) from error


def records(log: JournalLog, from_seq: int = 0, **filters: Any) -> Iterator[Record]:
    """Typed records from a sequence number on; filters as `JournalLog.records` has them."""
    return map(typed, log.records(from_seq, **filters))


@dataclass(frozen=True, slots=True)
class History:
    """A decision, or a failure, and what was told of it later, each oldest first."""

    decision: Decided | Failed
    documents: list[dict[str, Any]]
    outcomes: list[Outcome] = field(default_factory=list)
    overrides: list[Override] = field(default_factory=list)
    shadows: list[Shadowed] = field(default_factory=list)
    undelivered: bool = False


def find(log: JournalLog, decision_id: str) -> History:
    """The history of a decision; refused where the log has no such decision."""
    try:
        wanted = str(UUID(decision_id))
    except ValueError as error:
        raise NotFoundError(
            f"{decision_id!r} is no decision id", code="record_not_found", next_step="ids are in:  flyball decisions query"
        ) from error
    documents = log.find(wanted)
    found = [typed(document) for document in documents]
    decided = [record for record in found if isinstance(record, Decided | Failed)]
    if found and all(isinstance(record, Erasure) for record in found):
        raise NotFoundError(
            f"{wanted} is an erasure, not a decision",
            code="record_not_found",
            next_step=f"""read it:  flyball decisions query "select * from events where id = '{wanted}'" --reveal""",  # noqa: S608  # a UUID
        )
    if not decided:
        raise NotFoundError(
            f"the journal in {log.folder} has no decision {wanted}",
            code="record_not_found",
            next_step="those it has:  flyball decisions query",
        )
    # Rights are given by decision: what was told of another one says nothing of this.
    decision = decided[0].decision
    return History(
        decided[0],
        documents,
        outcomes=[record for record in found if isinstance(record, Outcome) and record.decision == decision],
        overrides=[record for record in found if isinstance(record, Override) and record.decision == decision],
        shadows=[record for record in found if isinstance(record, Shadowed)],
        undelivered=any(record.kind == "undelivered" for record in found),
    )


def erasure(log: JournalLog, record: Decided | Failed) -> Erasure | None:
    """The erasure that removed what is personal in a record; none: it was not erased, or the log has it no more."""
    if record.personal != "erased" or record.subject is None:
        return None
    found = log.erasure(record.subject, record.seq)
    return None if found is None else Erasure.model_validate(found)
