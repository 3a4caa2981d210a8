"""Decisions and their parts as plain types, from JSON and gRPC. Must not know transports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flyball.client.address import is_visible_ascii
from flyball.client.answer_display import decided_html, decided_text, row_text, rows_html
from flyball.errors import FlyballError, InvalidInputError, ServerFaultError, from_problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROWS_MAX = 1024
"""Maximum rows per request."""

KEY_CHARACTERS_MAX = 256
"""Maximum length of an idempotency key."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason of a decision: from the model if it has a field, else from a rule."""

    code: str
    text: str | None = None
    field: str | None = None
    contribution: float | None = None


@dataclass(frozen=True, slots=True)
class UsedModel:
    """A model version used by a decision."""

    model: str
    version: str
    digest: str


@dataclass(frozen=True, slots=True)
class UsedRemedy:
    """A fault, its stage, and the remedy applied."""

    cause: str
    stage: str
    used: str


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision. `repeated` if it was made for an earlier request with the same idempotency key."""

    id: str
    decision: str
    outcome: str
    band: str | None = None
    score: float | None = None
    scores: Mapping[str, float | None] = field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()
    models: tuple[UsedModel, ...] = ()
    document: str = ""
    policy: str = ""
    schema: str = ""
    route: str | None = None
    remedy: UsedRemedy | None = None
    repeated: bool = False
    timings_us: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Decided {self.decision}: {decided_text(self)}>"

    def _repr_html_(self) -> str:
        return decided_html(self)


@dataclass(frozen=True, slots=True)
class DecidedRow:
    """The result of one row: its decision, or its fault."""

    id: str | None
    decided: Decided | None
    fault: FlyballError | None

    def __repr__(self) -> str:
        return f"<DecidedRow {self.id}: {row_text(self)}>"

    def _repr_html_(self) -> str:
        return rows_html([self])


class DecidedRows(list[DecidedRow]):
    """The results of rows, in their order; a list that notebooks show as a table."""

    def _repr_html_(self) -> str:
        return rows_html(self)


@dataclass(frozen=True, slots=True)
class DecideCall:
    """A request for decisions: one row, or several with their ids."""

    decision: str
    rows: Sequence[Mapping[str, object]]
    ids: Sequence[str] | None = None
    single: bool = True
    idempotency_key: str | None = None
    explain: bool = False
    timings: bool = False
    forced_routes: Sequence[Mapping[str, object] | None] | None = None
    """Offline only: the route of each row, {"variant": NAME} or {"rules": true}; None for any."""

    def __post_init__(self) -> None:
        key = self.idempotency_key
        if key is not None and not (1 <= len(key) <= KEY_CHARACTERS_MAX and is_visible_ascii(key)):
            raise InvalidInputError(
                f"idempotency_key: {key!r} is not allowed; allowed: 1 to {KEY_CHARACTERS_MAX} visible ASCII characters"
            )

    def document(self) -> dict[str, Any]:
        """The request's JSON body."""
        options = {key: True for key in ("explain", "timings") if getattr(self, key)}
        if self.single:
            return {"input": dict(self.rows[0]), **options}
        named = zip(self.row_ids(), self.rows, self.forced_routes or [None] * len(self.rows), strict=True)
        rows = [{"id": name, "input": dict(row), **({"as": dict(route)} if route else {})} for name, row, route in named]
        return {"rows": rows, **options}

    def row_ids(self) -> Sequence[str]:
        """The caller's ids of the rows, else their numbers."""
        return self.ids or [str(index) for index in range(len(self.rows))]


def decided_from(document: Mapping[str, Any], shared: Mapping[str, Any] | None = None) -> Decided:
    """Parse one decision; `shared` has the fields common to all rows of a response."""
    whole = {**(shared or {}), **document}
    try:
        remedy = whole.get("remedy")
        return Decided(
            id=whole["id"],
            decision=whole["decision"],
            outcome=whole["outcome"],
            band=whole.get("band"),
            score=whole.get("score"),
            scores=dict(whole.get("scores") or {}),
            reasons=tuple(_reason(item) for item in whole.get("reasons") or ()),
            models=tuple(UsedModel(item["model"], item["version"], item["digest"]) for item in whole.get("models") or ()),
            document=whole.get("document", ""),
            policy=whole.get("policy", ""),
            schema=whole.get("schema", ""),
            route=whole.get("route"),
            remedy=UsedRemedy(remedy["cause"], remedy["stage"], remedy["used"]) if remedy else None,
            repeated=bool(whole.get("repeated")),
            timings_us=dict(whole.get("timings_us") or {}),
        )
    except (KeyError, TypeError) as error:
        raise ServerFaultError(f"the response is not a decision: {error!r}", code="bad_answer") from error


def rows_from(document: Mapping[str, Any]) -> list[DecidedRow]:
    """Parse the rows of a response, in the order sent."""
    shared = {key: value for key, value in document.items() if key != "rows"}
    rows = []
    for item in document.get("rows") or ():
        name, fault = item.get("id"), item.get("fault")
        if fault is not None:
            rows.append(DecidedRow(name, None, from_problem(int(fault.get("status", 500)), fault)))
        else:
            rows.append(DecidedRow(name, decided_from({**item, "id": _decision_id(item)}, shared), None))
    return rows


def _decision_id(item: Mapping[str, Any]) -> str:
    """A row has two ids: the caller's own, and the decision's."""
    return str(item.get("decision_id") or item.get("id") or "")


def _reason(item: Mapping[str, Any]) -> Reason:
    return Reason(item["code"], item.get("text"), item.get("field"), item.get("contribution"))
