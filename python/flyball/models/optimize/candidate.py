"""A candidate and everything that is known of it: how it was made, how it answers, whether it may serve, what it costs.

One that was refused keeps its figures: whoever reads the report sees what was tried. Must not know how times are taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict

from flyball.models.equivalence.accuracy import qualities
from flyball.models.equivalence.certificate import outcome_of
from flyball.models.equivalence.comparison import Comparison, compare, flips_by_segment
from flyball.models.equivalence.gate import Outcome, Verdict, judge
from flyball.models.optimize.answers import counted, table_of
from flyball.models.optimize.comparison_rows import GIVEN
from flyball.models.optimize.rows import narrowed
from flyball.native.model_runs import Model

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from flyball.models.equivalence.accuracy import Quality
    from flyball.models.optimize.original import Original

    Floats = NDArray[np.float64]


class Candidate(BaseModel):
    """What one model is worth. `failed`: why it could not be made or loaded; `barred`: why it may not serve all the same."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    """Given rows that it was made from, by which it is not judged."""
    comparison: Comparison | None = None
    verdict: Verdict | None = None
    outcome: Outcome = "refused"
    failed: str | None = None
    barred: str | None = None

    @property
    def accepted(self) -> bool:
        """Whether it may serve."""
        return self.failed is None and self.barred is None and self.outcome != "refused"

    @property
    def why_not(self) -> str:
        """In words, for one that may not."""
        if (why := self.failed or self.barred) is not None:
            return why
        if self.accepted or self.comparison is None:
            return ""
        errors = self.comparison.all
        beyond = f"{errors.beyond:,} of {errors.rows:,} rows differ by more than {self.comparison.bound:g}"
        return beyond if self.verdict is None else f"{beyond}, and {self.verdict.words}"


def judged(
    original: Original, name: str, how: str, path: Path, columns: Sequence[int] | None, *, held_out: Sequence[int] = ()
) -> Candidate:
    """Ask it all rows (it takes some of their columns), compare with the original's answers, judge by bound and gate.

    `held_out` are given rows that it was made from: within the bound they must lie too, but the gate does not count them.
    """
    run = original.run
    model = Model(path)
    facts = model.facts
    inputs = narrowed(original.asked.inputs, columns)
    found = counted(table_of(model, run.subject.output, inputs), run.subject.element)
    kinds = original.asked.without(held_out)
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
        barred=f"flips cannot be counted where a rule asks  {unread[0]}" if unread else None,
    )


def compared(original: Original, found: Floats, kinds: NDArray[np.str_]) -> Comparison:
    """Answers to all rows that are asked with the original's; flips are counted in given rows alone."""
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
    """By flips alone where nobody knows the truth, and where answers are lost: no figure is made of what is no number."""
    run, by = original.run, kinds == GIVEN
    was, now = original.answers[by], found[by]
    lost = (np.isfinite(was) & ~np.isfinite(now)).reshape(len(was), -1).any(axis=1)
    left, given = original.of_given(by), run.rows.segments
    segments = None if given is None else given[left]
    of_segments, untold = ({}, []) if segments is None else flips_by_segment(was, now, segments, run.subject.thresholds)
    told: list[Quality] = []
    if original.labels is not None and not lost.any():
        told, untold = qualities(original.labels[left], was, now, segments)
    return judge(run.bars, comparison.flips, told, untold, of_segments=of_segments, lost=int(lost.sum()))
