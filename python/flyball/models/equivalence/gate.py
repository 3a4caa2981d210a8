"""The accuracy gate: compares figures with bars and returns a verdict that names every figure.

Over all rows a candidate must be proven no worse than the bar: the upper end of its interval counts, so that too few rows
never pass. A segment fails if it is proven worse: the lower end counts, because small segments scatter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from flyball.models.equivalence.document import Document
from flyball.models.equivalence.segments import SkippedSegment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flyball.models.equivalence.accuracy import Quality
    from flyball.models.equivalence.comparison import Flips

_Bar = Annotated[float, Field(ge=0, le=1)]
_ROWS_PER_FLIP = 3.85  # Wilson's upper end without any flip is z²/(rows + z²)


class Bars(Document):
    """Allowed losses: AUC and accuracy in points, log loss absolute, RMSE relative; and flips."""

    auc: _Bar = 0.002
    logloss: _Bar = 0.005
    accuracy: _Bar = 0.005
    rmse: _Bar = 0.01
    flips: _Bar = 0.01


class Finding(Document):
    """One figure against its bar."""

    what: str
    segment: str | None
    value: float
    tested: float
    bar: float
    passed: bool
    message: str


class Verdict(Document):
    """`passed` if every finding did; `skipped` lists the segments without a verdict."""

    passed: bool
    findings: list[Finding]
    skipped: list[SkippedSegment]

    @property
    def message(self) -> str:
        """The failed findings, or a summary."""
        if not self.findings:
            return "nothing to evaluate: there are neither labels nor thresholds"
        failed = [finding.message for finding in self.findings if not finding.passed]
        return "; ".join(failed) if failed else f"all {len(self.findings)} figures within their bars"


def evaluate(
    bars: Bars,
    flips: Sequence[Flips],
    qualities: Sequence[Quality] = (),
    skipped: Sequence[SkippedSegment] = (),
    *,
    of_segments: Mapping[str, Sequence[Flips]] | None = None,
    lost: int = 0,
) -> Verdict:
    """Compare every figure with its bar. Without labels only flips count; `of_segments` are the flips of each segment.

    `lost`: rows that lost their numeric answer; none are allowed.
    """
    findings = [_flips(bars, one, None) for one in flips]
    findings += [_flips(bars, one, segment) for segment, each in (of_segments or {}).items() for one in each]
    findings += [_quality(bars, one) for one in qualities]
    findings += [_lost(lost)] if lost else []
    return Verdict(
        passed=bool(findings) and all(finding.passed for finding in findings), findings=findings, skipped=list(skipped)
    )


def _flips(bars: Bars, found: Flips, segment: str | None) -> Finding:
    at = "the class" if found.threshold is None else f"the side of {found.threshold:g}"
    where = f" of {segment}" if segment is not None else ""
    message = f"{found.flips:,} of {found.rows:,} rows{where} change {at}; {bars.flips:.2%} allowed"
    tested = found.high if segment is None else found.low
    if found.share <= bars.flips < tested:
        needed = int(_ROWS_PER_FLIP / max(bars.flips, 1e-9)) + 1
        message += f"; too few rows to prove it, pass {max(needed, found.rows * 2):,} or more"
    return Finding(
        what="flips", segment=segment, value=found.share, tested=tested, bar=bars.flips, passed=tested <= bars.flips,
        message=message,
    )  # fmt: skip


def _lost(rows: int) -> Finding:
    them = "1 row" if rows == 1 else f"{rows:,} rows"
    message = f"{them} lost the numeric answer"
    return Finding(what="lost", segment=None, value=float(rows), tested=float(rows), bar=0.0, passed=False, message=message)


def _quality(bars: Bars, found: Quality) -> Finding:
    bar: float = getattr(bars, found.figure)
    tested = found.high if found.segment is None else found.low
    where = f" of {found.segment}" if found.segment is not None else ""
    message = f"{found.figure}{where} from {found.was:.6g} to {found.now:.6g}, worse by {tested:.3g}; {bar:g} allowed"
    return Finding(
        what=found.figure,
        segment=found.segment,
        value=found.loss,
        tested=tested,
        bar=bar,
        passed=tested <= bar,
        message=message,
    )


Outcome = Literal["equal", "within_gate", "refused"]
