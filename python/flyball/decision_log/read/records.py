"""Typed records of the log, and a decision's history: its record and later annotations.

Must not know how they are shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flyball.decision_log.read.ids import full_id, query_step
from flyball.errors import JournalRefusedError, NotFoundError

if TYPE_CHECKING:
    from flyball.native.journal import JournalLog


class _Part(BaseModel):
    # A newer flyball may have written the log; unknown fields are kept, not refused.
    model_config = ConfigDict(frozen=True, extra="allow")


class Feature(_Part):
    """A feature value as used, its origin, and its age then."""

    value: Any
    origin: str
    age_ms: float | None = None


class Reason(_Part):
    """A reason of a decision; the contribution is to the model's margin."""

    code: str
    field: str | None = None
    contribution: float | None = None


class ModelUsed(_Part):
    """A model used by a decision."""

    model: str
    version: str
    digest: str


class Run(_Part):
    """A model run that included the row."""

    model: str
    rows: int
    position: int


class RemedyUsed(_Part):
    """The remedy applied, and its cause."""

    cause: str
    stage: str
    used: str


class Record(_Part):
    """Fields of every record: its kind, decision id, time, and position in the log."""

    kind: str
    id: str
    seq: int
    segment: int
    frame: int
    leaf: str
    prev: str
    at: int
    time: str


class _Requested(Record):
    """Fields common to decisions and failures: the request, the deployment, the caller."""

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


class Decided(_Requested):
    """A decided row."""

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


class Failed(_Requested):
    """A row that was admitted but not decided."""

    kind: Literal["failed"] = "failed"
    fault: list[str] | dict[str, str]


class Shadowed(Record):
    """A shadow's result for a decision."""

    kind: Literal["shadow"] = "shadow"
    of: str
    variant: str | None = None
    score: float | None = None
    outcome: str | None = None
    agrees: bool | None = None


class Outcome(Record):
    """A true outcome, reported later, possibly more than once."""

    kind: Literal["outcome"] = "outcome"
    decision: str
    truth: Any
    when: int | None = None
    source: str | None = None
    caller: str | None = None


class Override(Record):
    """A person's override of a decision."""

    kind: Literal["override"] = "override"
    decision: str
    outcome: str
    by: str
    why: str
    caller: str | None = None


class Erasure(Record):
    """An erasure of a subject. The reason is None unless decrypted."""

    kind: Literal["erased"] = "erased"
    by: str
    why: str | None = None
    caller: str | None = None
    subject: str | None = None


_TYPES: dict[str, type[Record]] = {
    "decision": Decided,
    "failed": Failed,
    "shadow": Shadowed,
    "outcome": Outcome,
    "override": Override,
    "erased": Erasure,
}


def typed(document: dict[str, Any]) -> Record:
    """Parse a record by its kind. Kinds without a class are plain records, with extra attributes."""
    try:
        return _TYPES.get(str(document.get("kind")), Record).model_validate(document)
    except ValidationError as error:
        raise JournalRefusedError(
            f"record {document.get('seq')} has an unknown form: {error.errors()[0]['msg']}",
            next_step=f"show it as JSON:  flyball decisions query --json --where 'seq = {document.get('seq')}'",
        ) from error


@dataclass(frozen=True, slots=True)
class History:
    """A decision or failure with its annotations, each oldest first."""

    decision: Decided | Failed
    documents: list[dict[str, Any]]
    outcomes: list[Outcome] = field(default_factory=list)
    overrides: list[Override] = field(default_factory=list)
    shadows: list[Shadowed] = field(default_factory=list)
    undelivered: bool = False


def find(log: JournalLog, decision_id: str) -> History:
    """The history of a decision, by its id or the beginning of it; raises `NotFoundError` if the log does not have it."""
    wanted = full_id(log, decision_id)
    documents = log.find(wanted)
    found = [typed(document) for document in documents]
    decided = [record for record in found if isinstance(record, Decided | Failed)]
    if found and all(isinstance(record, Erasure) for record in found):
        raise NotFoundError(
            f"{wanted} is an erasure, not a decision",
            code="record_not_found",
            next_step=f"""show it:  flyball decisions query "select * from events where id = '{wanted}'" --reveal""",  # noqa: S608  # a UUID
        )
    if not decided:
        raise NotFoundError(
            f"the journal in {log.folder} has no decision {wanted}",
            code="record_not_found",
            next_step=query_step(log),
        )
    # Rights are per decision: annotations under another decision's name do not count.
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
    """The erasure of a record's personal data; None if not erased, or if its record was removed."""
    if record.personal != "erased" or record.subject is None:
        return None
    found = log.erasure(record.subject, record.seq)
    return None if found is None else Erasure.model_validate(found)
