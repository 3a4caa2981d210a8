"""Compares a converted model with the original, row by row, through the server that will serve it.

`flyball.models.equivalence` computes the figures; this module adds rows as callers send them, and finds differences caused
by float32 alone. Must not know which package trained the model.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.client import Client, DecidedRow
from flyball.decision.bulk_calls import bulk_server, in_order, retry_when_busy
from flyball.errors import ServerFaultError
from flyball.models.equivalence.comparison import Comparison, allowed, compare
from flyball.rows.html_table import html_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from flyball.decision.decision import Decision
    from flyball.models.convert.comparison_rows import Reference

BOUND = 1e-5
"""Largest allowed difference; for scores other than probabilities also a share of the answer's size (`allowed`)."""
_GIVEN, _ROUNDED = "given", "rounded"
_ROUNDED_SHARE_MAX = 0.001
_CHUNK_ROWS = 256
_WORST = 10


@dataclass(frozen=True, slots=True)
class Rounded:
    """Rows that differ only because a value is closer to a threshold than float32 can resolve."""

    rows: int = 0
    ordinary: int = 0
    """Of these, the rows not generated at a threshold: given and random ones."""
    max_abs: float = 0.0
    """Largest distance from the original's answer to the unrounded columns."""


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """How far the served answers are from the original's."""

    comparison: Comparison
    """If few ordinary rows are rounded, they form their own kind and are compared as the served model sees them."""
    rounded: Rounded
    worst: list[dict[str, Any]]
    """Rows beyond the bound as callers send them, with both answers or the fault."""

    def __repr__(self) -> str:
        return f"<ComparisonResult {self.text()}>"

    def _repr_html_(self) -> str:
        head = ("rows", "compared", "beyond the bound", "largest difference", "mean difference")
        kinds = {**self.comparison.by_kind, "all": self.comparison.all}
        lines = [
            (kind, f"{one.rows:,}", f"{one.beyond:,}", f"{one.max_abs:.2g}", f"{one.mean_abs:.2g}")
            for kind, one in kinds.items()
        ]
        return html_table(head, lines)

    def text(self) -> str:
        """One line: how many rows, and how far they are off."""
        found = self.comparison.all
        verdict = f"{found.rows:,} rows equal" if self.equal else f"{found.beyond:,} of {found.rows:,} rows differ"
        return f"{verdict}, off by at most {found.max_abs:.2g}, allowed {self.comparison.allowed}"

    @property
    def equal(self) -> bool:
        """Whether the conversion is accepted; the certificate says the same."""
        return self.comparison.equal

    def document(self) -> dict[str, Any]:
        """The JSON document."""
        figures = self.comparison.model_dump(mode="json", exclude={"worst"})
        return {**figures, "equal": self.equal, "rounded": asdict(self.rounded), "worst": self.worst}


def bounds_of(bound: float | None, *, probability: bool) -> tuple[float, float]:
    """Absolute and relative tolerance; an explicit bound replaces both."""
    if bound is not None:
        return bound, 0.0
    return BOUND, 0.0 if probability else BOUND


def evaluate(
    reference: Reference,
    found: NDArray[np.float64],
    faults: dict[int, str],
    *,
    bound: float | None = None,
    thresholds: Sequence[float] = (),
) -> ComparisonResult:
    """Evaluate the served answers `found`, which are NaN for rows listed in `faults`."""
    absolute, relative = bounds_of(bound, probability=reference.parts.probability)
    expected, kinds = reference.expected, np.array(reference.kinds)
    far = ~_near(expected, found, absolute, relative)
    rounded = far & _near(reference.expected_of_float32, found, absolute, relative)
    # Threshold rows are generated to lie there; only the given rows show how often such rows occur.
    ordinary = kinds != "edge"
    few = int((rounded & ordinary).sum()) <= _ROUNDED_SHARE_MAX * int(ordinary.sum())
    comparison = compare(
        expected, found, bound=absolute, relative=relative, kinds=kinds, thresholds=thresholds, flips_of=_GIVEN
    )
    if few and rounded.any():
        # Rounded rows get their own kind, so that the report shows them; flips count against unrounded answers.
        as_rounded = np.where(rounded, reference.expected_of_float32, expected)
        apart = compare(as_rounded, found, bound=absolute, relative=relative, kinds=np.where(rounded, _ROUNDED, kinds))
        comparison = apart.model_copy(update={"flips": comparison.flips})
    figures = Rounded(
        int(rounded.sum()),
        int((rounded & ordinary).sum()),
        float(np.nan_to_num(np.abs(found[rounded] - expected[rounded])).max(initial=0.0)),
    )
    shown = [one.row for one in comparison.worst] if comparison.all.beyond else list(np.flatnonzero(rounded & ordinary))
    worst = [_worst_row(reference, found, faults, int(index)) for index in shown[:_WORST] if far[index]]
    return ComparisonResult(comparison, figures, worst)


def _near(expected: NDArray[np.float64], found: NDArray[np.float64], bound: float, relative: float) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        near: NDArray[np.bool_] = np.abs(found - expected) <= allowed(expected, bound, relative)
    return near


def _worst_row(reference: Reference, found: NDArray[np.float64], faults: dict[int, str], index: int) -> dict[str, Any]:
    row = request_rows(reference, [index])[0]
    figures = {"kind": reference.kinds[index], "expected": float(reference.expected[index])}
    answer = {"fault": faults[index]} if index in faults else {"found": float(found[index])}
    return {**figures, **answer, "row": row}


def request_rows(reference: Reference, indices: Any) -> list[dict[str, Any]]:
    """Rows as a caller sends them: by field, without missing values."""
    table, fields = reference.rows, reference.parts.fields
    cells = [(name, table.columns[column], table.holds[column]) for name, column in fields.items()]
    rows = ({name: _value(column[index], holds) for name, column, holds in cells} for index in indices)
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def _value(cell: Any, holds: str) -> Any:
    if cell is None or isinstance(cell, str):
        return cell
    if np.isnan(cell):
        return None
    return bool(cell) if holds == "bool" else int(cell) if holds == "int" else float(cell)


def served(decision: Decision, reference: Reference) -> tuple[NDArray[np.float64], dict[int, str]]:
    """Each row's score from an in-process server, and the faults of rows without a score."""
    found = np.full(reference.rows.rows, np.nan)
    faults: dict[int, str] = {}
    chunks = [range(begin, min(begin + _CHUNK_ROWS, len(found))) for begin in range(0, len(found), _CHUNK_ROWS)]
    with closing(bulk_server(decision.check().compiled)) as server:
        for chunk, rows in in_order(chunks, partial(_decided, server.client, decision.name, reference)):
            for index, row in zip(chunk, rows, strict=True):
                if row.decided is not None and row.decided.score is not None:
                    found[index] = row.decided.score
                else:
                    faults[index] = str(row.fault).replace("\n", ";") if row.fault else "no score"
    return found, faults


def _decided(client: Client, decision: str, reference: Reference, indices: range) -> list[DecidedRow]:
    rows = request_rows(reference, indices)
    try:
        return retry_when_busy(lambda: client.decide_rows(decision, rows))
    except ServerFaultError as error:
        # For example a model that returns NaN: report the fault for each row.
        return [DecidedRow(None, None, error) for _ in rows]
