"""The accuracy gate: from figures and bars to a verdict that names every figure.

Over all rows a candidate must be shown to be no worse than a bar allows: the far end of its interval counts, so that too few
rows never pass. A segment fails where it is shown to be worse: the near end counts, for small segments scatter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from flyball.models.equivalence.segments import LeftOut

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flyball.models.equivalence.accuracy import Quality
    from flyball.models.equivalence.comparison import Flips

_Bar = Annotated[float, Field(ge=0, le=1)]
_ROWS_PER_FLIP = 3.85  # Wilson's upper end without any flip is z²/(rows + z²)


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Bars(_Document):
    """What a candidate may lose: of AUC and accuracy in points, of log loss absolutely, of RMSE relatively; and flips."""

    auc: _Bar = 0.002
    logloss: _Bar = 0.005
    accuracy: _Bar = 0.005
    rmse: _Bar = 0.01
    flips: _Bar = 0.01


class Finding(_Document):
    """One figure against its bar."""

    what: str
    segment: str | None
    value: float
    judged: float
    bar: float
    passed: bool
    words: str


class Verdict(_Document):
    """`passed` where every finding did; `untold` are segments that were not judged."""

    passed: bool
    findings: list[Finding]
    untold: list[LeftOut]

    @property
    def words(self) -> str:
        """Why not, or that all of it held."""
        if not self.findings:
            return "nothing could be judged: there are neither labels nor thresholds"
        failed = [finding.words for finding in self.findings if not finding.passed]
        return "; ".join(failed) if failed else f"all {len(self.findings)} figures within their bars"


def judge(
    bars: Bars,
    flips: Sequence[Flips],
    qualities: Sequence[Quality] = (),
    untold: Sequence[LeftOut] = (),
    *,
    of_segments: Mapping[str, Sequence[Flips]] | None = None,
    lost: int = 0,
) -> Verdict:
    """Every figure against its bar. Without labels flips alone are judged; `of_segments` are those of each segment.

    `lost`: rows that had an answer and have none that is a number now; no bar allows one.
    """
    findings = [_flips(bars, one, None) for one in flips]
    findings += [_flips(bars, one, segment) for segment, each in (of_segments or {}).items() for one in each]
    findings += [_quality(bars, one) for one in qualities]
    findings += [_lost(lost)] if lost else []
    return Verdict(
        passed=bool(findings) and all(finding.passed for finding in findings), findings=findings, untold=list(untold)
    )


def _flips(bars: Bars, found: Flips, segment: str | None) -> Finding:
    at = "the class" if found.threshold is None else f"the side of {found.threshold:g}"
    where = f" of {segment}" if segment is not None else ""
    words = f"{found.flips:,} of {found.rows:,} rows{where} change {at}, {bars.flips:.2%} may"
    judged = found.high if segment is None else found.low
    if found.share <= bars.flips < judged:
        needed = int(_ROWS_PER_FLIP / max(bars.flips, 1e-9)) + 1
        words += f"; so few rows cannot show it, give {max(needed, found.rows * 2):,} or more"
    return Finding(
        what="flips", segment=segment, value=found.share, judged=judged, bar=bars.flips, passed=judged <= bars.flips,
        words=words,
    )  # fmt: skip


def _lost(rows: int) -> Finding:
    them = "1 row that had an answer has" if rows == 1 else f"{rows:,} rows that had an answer have"
    words = f"{them} none that is a number"
    return Finding(what="lost", segment=None, value=float(rows), judged=float(rows), bar=0.0, passed=False, words=words)


def _quality(bars: Bars, found: Quality) -> Finding:
    bar: float = getattr(bars, found.figure)
    judged = found.high if found.segment is None else found.low
    where = f" of {found.segment}" if found.segment is not None else ""
    words = f"{found.figure}{where} from {found.was:.6g} to {found.now:.6g}, worse by {judged:.3g}, {bar:g} may be lost"
    return Finding(
        what=found.figure, segment=found.segment, value=found.loss, judged=judged, bar=bar, passed=judged <= bar, words=words
    )


Outcome = Literal["equal", "within_gate", "refused"]
