"""Chooses the candidate to serve: accepted, on the Pareto front, and best for the budget.

Pure: figures in, a choice with its reason out. A negligible gain is not worth another file: the simplest candidate stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from flyball.models.equivalence.accuracy import Figure
from flyball.models.equivalence.document import Document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flyball.models.optimize.candidate import Candidate
    from flyball.models.optimize.run import Budget

_WORTH = 0.95
_LOSSES = get_args(Figure)


class TableRow(Document):
    """A row of the table. `front`: no accepted candidate is better in one respect and no worse in the others."""

    name: str
    p50_us: float | None
    p99_us: float | None
    size_bytes: int
    resident_bytes: int
    loss: float | None
    """Loss of AUC, accuracy or RMSE on labelled rows, upper end of the interval; None: no labels, or equal."""
    flips: float | None
    accepted: bool
    within_budget: bool
    front: bool
    why_not: str


class Choice(Document):
    """The table, the chosen candidate, and why."""

    lines: list[TableRow]
    chosen: str
    reason: str


def choose(
    candidates: Sequence[Candidate], figures: Mapping[str, Mapping[str, Mapping[str, float]]], budget: Budget
) -> Choice:
    """Choose from `figures` by candidate and rows per run.

    The first candidate is the baseline that others must beat. It is accepted, because step `equal` would have ended the run.
    """
    lines = [_line(one, figures.get(one.name), budget) for one in candidates]
    lines = [line.model_copy(update={"front": _on_front(line, lines)}) for line in lines]
    simplest = lines[0]
    able = [line for line in lines if line.accepted]
    fitting = [line for line in able if line.within_budget] or able
    best = min(fitting, key=lambda line: (_p50(line), line.size_bytes))
    over = "" if best.within_budget else "; none meets the budget"
    if simplest in fitting and _p50(best) > _p50(simplest) * _WORTH:
        reason = f"no accepted candidate is 5 % faster than {simplest.name} at {_p50(simplest):.0f} µs{over}"
        return Choice(lines=lines, chosen=simplest.name, reason=reason)
    gain = _p50(simplest) / _p50(best) if _p50(best) else 1.0
    reason = f"{gain:.2f} times as fast as {simplest.name}: {_p50(best):.0f} µs instead of {_p50(simplest):.0f}{over}"
    return Choice(lines=lines, chosen=best.name, reason=reason)


def _line(one: Candidate, figures: Mapping[str, Mapping[str, float]] | None, budget: Budget) -> TableRow:
    alone = figures["1"] if figures else None
    p99_us = alone["p99_us"] if alone else None
    within = (
        (budget.p99_ms is None or (p99_us is not None and p99_us <= budget.p99_ms * 1e3))
        and (budget.size_mb is None or one.size_bytes <= budget.size_mb * 1e6)
        and (budget.memory_mb is None or one.resident_bytes <= budget.memory_mb * 1e6)
    )
    losses = (
        [finding.tested for finding in one.verdict.findings if finding.what in _LOSSES and finding.segment is None]
        if one.verdict
        else []
    )
    flips = [flip.share for flip in one.comparison.flips] if one.comparison else []
    return TableRow(
        name=one.name,
        p50_us=alone["p50_us"] if alone else None,
        p99_us=p99_us,
        size_bytes=one.size_bytes,
        resident_bytes=one.resident_bytes,
        loss=max(losses, default=None),
        flips=max(flips, default=None),
        accepted=one.accepted,
        within_budget=within,
        front=False,
        why_not=one.why_not,
    )


def _on_front(line: TableRow, lines: Sequence[TableRow]) -> bool:
    return line.accepted and not any(_beats(other, line) for other in lines if other.accepted and other is not line)


def _beats(one: TableRow, other: TableRow) -> bool:
    first, second = _respects(one), _respects(other)
    return first != second and all(a <= b for a, b in zip(first, second, strict=True))


def _respects(line: TableRow) -> tuple[float, ...]:
    return (_p50(line), float(line.size_bytes), float(line.resident_bytes), line.loss or 0.0, line.flips or 0.0)


def _p50(line: TableRow) -> float:
    return line.p50_us if line.p50_us is not None else float("inf")
