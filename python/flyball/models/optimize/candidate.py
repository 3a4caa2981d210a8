"""A candidate and its figures: how it was made, its answers, whether it is accepted, its cost.

A refused candidate keeps its figures, so that the report shows what was tried. Must not know how times are measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flyball.models.equivalence.accuracy import Quality, qualities
from flyball.models.equivalence.certificate import outcome_of
from flyball.models.equivalence.comparison import Comparison, compare, flips_by_segment
from flyball.models.equivalence.document import Document
from flyball.models.equivalence.gate import Outcome, Verdict, evaluate
from flyball.models.optimize.answers import counted, table_of
from flyball.models.optimize.original import GIVEN, Original
from flyball.models.optimize.rows import narrowed
from flyball.native.model_runs import Model

Floats = NDArray[np.float64]


class Candidate(Document):
    """One candidate model. `failed`: why it could not be made or loaded; `barred`: why it may not serve regardless."""

    name: str
    how: str
    file: str | None = None
    digest: str | None = None
    size_bytes: int = 0
    load_ms: float = 0.0
    resident_bytes: int = 0
    batching: bool = True
    batching_reason: str = ""
    held_out: int = 0
    """Given rows used for calibration, excluded from its evaluation."""
    comparison: Comparison | None = None
    verdict: Verdict | None = None
    outcome: Outcome = "refused"
    failed: str | None = None
    barred: str | None = None

    @property
    def accepted(self) -> bool:
        """Whether it is accepted."""
        return self.failed is None and self.barred is None and self.outcome != "refused"

    @property
    def why_not(self) -> str:
        """Why it is refused, as text."""
        if (why := self.failed or self.barred) is not None:
            return why
        if self.accepted or self.comparison is None:
            return ""
        errors = self.comparison.all
        beyond = f"{errors.beyond:,} of {errors.rows:,} rows differ by more than {self.comparison.bound:g}"
        return beyond if self.verdict is None else f"{beyond}, and {self.verdict.message}"


def evaluate_candidate(
    original: Original, name: str, how: str, path: Path, columns: Sequence[int] | None, *, held_out: Sequence[int] = ()
) -> Candidate:
    """Run it on all rows, compare with the original's answers, and evaluate bound and gate.

    `held_out` are given rows used for calibration: the bound applies to them, but the gate does not count them.
    """
    run = original.run
    model = Model(path)
    facts = model.facts
    inputs = narrowed(original.comparison_rows.inputs, columns)
    found = counted(table_of(model, run.subject.output, inputs), run.subject.element)
    kinds = original.comparison_rows.without(held_out)
    comparison = compared(original, found, kinds)
    verdict = None if comparison.equal else _verdict(original, comparison, found, kinds)
    unread = [] if comparison.equal else run.subject.unread
    return Candidate(
        name=name,
        how=how,
        file=path.name,
        digest=facts.digest,
        size_bytes=facts.size_bytes,
        load_ms=facts.load_ms,
        resident_bytes=facts.resident_bytes,
        batching=facts.batching.on,
        batching_reason=facts.batching.reason or "",
        held_out=len(held_out),
        comparison=comparison,
        verdict=verdict,
        outcome=outcome_of(comparison, verdict),
        barred=f"flips cannot be counted: unsupported condition on the score  {unread[0]}" if unread else None,
    )


def compared(original: Original, found: Floats, kinds: NDArray[np.str_]) -> Comparison:
    """Compare the answers to all rows with the original's; flips are counted only in given rows."""
    run = original.run
    return compare(
        original.answers,
        found,
        bound=run.bound,
        kinds=kinds,
        thresholds=run.subject.thresholds,
        flips_of=GIVEN,
    )


def _verdict(original: Original, comparison: Comparison, found: Floats, kinds: NDArray[np.str_]) -> Verdict:
    """By flips alone without labels or with lost answers: figures need numbers."""
    run, by = original.run, kinds == GIVEN
    was, now = original.answers[by], found[by]
    lost = (np.isfinite(was) & ~np.isfinite(now)).reshape(len(was), -1).any(axis=1)
    left, given = original.given_only(by), run.rows.segments
    segments = None if given is None else given[left]
    of_segments, skipped = ({}, []) if segments is None else flips_by_segment(was, now, segments, run.subject.thresholds)
    figures: list[Quality] = []
    if original.labels is not None and not lost.any():
        figures, skipped = qualities(original.labels[left], was, now, segments)
    return evaluate(run.bars, comparison.flips, figures, skipped, of_segments=of_segments, lost=int(lost.sum()))
