"""Whether a converted model answers as the original did: through the server that will serve it, row by row.

Figures are `flyball.models.equivalence`'s; here is what a conversion adds: rows as callers send them, and which
differences are float32's alone. Must not know which package trained the model.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.client import Client, DecidedRow
from flyball.decision.bulk_calls import DEADLINE_MS, QUEUE_WAIT_MS, in_order, retry_when_busy
from flyball.decision.compile.bundle import bundle_of
from flyball.decision.local import LocalServer
from flyball.errors import ServerFaultError
from flyball.models.equivalence.comparison import Comparison, allowed, compare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from flyball.decision.decision import Decision
    from flyball.models.convert.comparison_rows import Examined

BOUND = 1e-5
"""How far an answer may lie from the original's; where it is no probability, that of its size on top (`allowed`)."""
_GIVEN, _ROUNDED = "given", "rounded"
_ROUNDED_SHARE_MAX = 0.001
_CHUNK_ROWS = 256
_WORST = 10


@dataclass(frozen=True, slots=True)
class Rounded:
    """Rows that differ only because a column lies closer to a threshold than a float32 can tell."""

    rows: int = 0
    ordinary: int = 0
    """Those of them that were not made to lie at a threshold: given and random ones."""
    max_abs: float = 0.0
    """How far they lie from what the original answers to the columns as they are."""


@dataclass(frozen=True, slots=True)
class Judged:
    """How far the served answers lie from the original's."""

    comparison: Comparison
    """Where few ordinary rows are rounded, these are of a kind of their own, and compared as the served model gets them."""
    rounded: Rounded
    worst: list[dict[str, Any]]
    """Rows beyond the bound as callers send them, with both answers, or why there is none."""

    @property
    def equal(self) -> bool:
        """Whether the conversion may be kept; its certificate says the same."""
        return self.comparison.equal

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        figures = self.comparison.model_dump(mode="json", exclude={"worst"})
        return {**figures, "equal": self.equal, "rounded": asdict(self.rounded), "worst": self.worst}


def bounds_of(bound: float | None, *, probability: bool) -> tuple[float, float]:
    """How far an answer may lie from the original's, and by what share of its size further; a bound that is named is all."""
    if bound is not None:
        return bound, 0.0
    return BOUND, 0.0 if probability else BOUND


def judge(
    examined: Examined,
    found: NDArray[np.float64],
    faults: dict[int, str],
    *,
    bound: float | None = None,
    thresholds: Sequence[float] = (),
) -> Judged:
    """`found` are the served answers, NaN where `faults` has the reason why there is none."""
    absolute, relative = bounds_of(bound, probability=examined.parts.probability)
    expected, kinds = examined.expected, np.array(examined.kinds)
    far = ~_near(expected, found, absolute, relative)
    rounded = far & _near(examined.expected_of_float32, found, absolute, relative)
    # Rows at thresholds are made to lie there; how often such rows come, those given tell.
    ordinary = kinds != "edge"
    few = int((rounded & ordinary).sum()) <= _ROUNDED_SHARE_MAX * int(ordinary.sum())
    comparison = compare(
        expected, found, bound=absolute, relative=relative, kinds=kinds, thresholds=thresholds, flips_of=_GIVEN
    )
    if few and rounded.any():
        # That they are compared otherwise is seen from their kind; decisions that flip are counted as they are.
        as_rounded = np.where(rounded, examined.expected_of_float32, expected)
        apart = compare(as_rounded, found, bound=absolute, relative=relative, kinds=np.where(rounded, _ROUNDED, kinds))
        comparison = apart.model_copy(update={"flips": comparison.flips})
    figures = Rounded(
        int(rounded.sum()),
        int((rounded & ordinary).sum()),
        float(np.nan_to_num(np.abs(found[rounded] - expected[rounded])).max(initial=0.0)),
    )
    shown = [one.row for one in comparison.worst] if comparison.all.beyond else list(np.flatnonzero(rounded & ordinary))
    worst = [_told(examined, found, faults, int(place)) for place in shown[:_WORST] if far[place]]
    return Judged(comparison, figures, worst)


def _near(expected: NDArray[np.float64], found: NDArray[np.float64], bound: float, relative: float) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        near: NDArray[np.bool_] = np.abs(found - expected) <= allowed(expected, bound, relative)
    return near


def _told(examined: Examined, found: NDArray[np.float64], faults: dict[int, str], place: int) -> dict[str, Any]:
    row = request_rows(examined, [place])[0]
    told = {"kind": examined.kinds[place], "expected": float(examined.expected[place])}
    answer = {"fault": faults[place]} if place in faults else {"found": float(found[place])}
    return {**told, **answer, "row": row}


def request_rows(examined: Examined, places: Any) -> list[dict[str, Any]]:
    """Rows as a caller sends them: by field, what is missing left out."""
    fields = examined.parts.fields
    made: list[dict[str, Any]] = []
    for place in places:
        row: dict[str, Any] = {}
        for name, column in fields.items():
            value = _value(examined.rows.columns[column][place], examined.rows.holds[column])
            if value is not None:
                row[name] = value
        made.append(row)
    return made


def _value(cell: Any, holds: str) -> Any:
    if cell is None or isinstance(cell, str):
        return cell
    if np.isnan(cell):
        return None
    return bool(cell) if holds == "bool" else int(cell) if holds == "int" else float(cell)


def served(decision: Decision, examined: Examined) -> tuple[NDArray[np.float64], dict[int, str]]:
    """The score of each row by the very server that will serve it, in this process; and why some have none."""
    bundle = bundle_of([decision.check().compiled], queue_wait_ms_max=QUEUE_WAIT_MS)
    server = LocalServer(bundle, offline=True, deadline_ms=DEADLINE_MS)
    found = np.full(examined.rows.rows, np.nan)
    faults: dict[int, str] = {}
    chunks = [range(begin, min(begin + _CHUNK_ROWS, len(found))) for begin in range(0, len(found), _CHUNK_ROWS)]
    try:
        ask = _Asking(server.client, decision.name, examined)
        for chunk, rows in in_order(chunks, ask):
            for place, row in zip(chunk, rows, strict=True):
                if row.decided is not None and row.decided.score is not None:
                    found[place] = row.decided.score
                else:
                    faults[place] = str(row.fault).replace("\n", ";") if row.fault else "no score"
    finally:
        server.close()
    return found, faults


@dataclass(frozen=True, slots=True)
class _Asking:
    client: Client
    decision: str
    examined: Examined

    def __call__(self, places: range) -> list[DecidedRow]:
        rows = request_rows(self.examined, places)
        try:
            return retry_when_busy(lambda: self.client.decide_rows(self.decision, rows))
        except ServerFaultError as error:
            # A model that answers NaN, say: the fault is each row's, and is shown as that.
            return [DecidedRow(None, None, error) for _ in rows]
