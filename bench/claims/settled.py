"""What a record says of a claim, over all attempts in it: one that falls short is not undone by another that holds.

Computed from raw values each time; the summary in a record is never read. Must not know pages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench.claims.claim import OK, SHORT, UNMEASURED, Verdict, judge
from bench.claims.record import BEGUN, FAILED, STOPPED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.claims.claim import Claim, Topic
    from bench.claims.record import Attempt, Record

_NEVER = Verdict(UNMEASURED, "–", "the record has no attempt at this topic")
LATER = "the claim is newer than the record"


@dataclass(frozen=True, slots=True)
class Line:
    """One claim's verdict in one record, with the number of its attempts and of those that held and were measured."""

    topic: Topic
    claim: Claim
    verdict: Verdict
    attempts: int
    measured: int
    held: int

    def __str__(self) -> str:
        verdict = self.verdict
        told = f"{verdict.kind:<13} {self.claim.sentence:<76} {verdict.figure:<46} {self.claim.bar.text}"
        notes = [verdict.reason] if verdict.reason else []
        notes += [f"{verdict.discarded} windows discarded"] if verdict.discarded else []
        notes += [f"held in {self.held} of {self.measured} attempts"] if self.measured > 1 else []
        return f"{told}   ({'; '.join(notes)})" if notes else told


def line_of(topic: Topic, claim: Claim, attempts: Sequence[Attempt], *, least: int | None = None) -> Line:
    """The worst verdict of all attempts at the claim's topic that measured it; of equal ones the last."""
    verdicts = [verdict_of(claim, attempt, least=least) for attempt in attempts]
    measured = [verdict for verdict in verdicts if verdict.kind != UNMEASURED]
    short = [verdict for verdict in measured if verdict.kind == SHORT]
    held = sum(verdict.kind == OK for verdict in measured)
    worst = next((some[-1] for some in (short, measured, verdicts) if some), _NEVER)
    return Line(topic, claim, worst, len(verdicts), len(measured), held)


def lines_of(record: Record, topics: Sequence[Topic], *, least: int | None = None) -> list[Line]:
    """Every claim of these topics in one record."""
    return [line_of(topic, claim, record.of(topic.name), least=least) for topic in topics for claim in topic.claims]


def verdict_of(claim: Claim, attempt: Attempt, *, least: int | None = None) -> Verdict:
    """What one attempt says of a claim."""
    if attempt.state in (BEGUN, STOPPED):
        return Verdict(UNMEASURED, "–", "stopped before its end")
    if claim.name not in attempt.terms:
        return Verdict(UNMEASURED, "–", LATER)
    verdict = judge(claim, attempt.raw) if least is None else judge(claim, attempt.raw, least=least)
    if verdict.computed:  # values that were measured count, whatever reason or error is stated besides
        return verdict
    if attempt.state == FAILED:
        return replace(verdict, reason=attempt.error)
    reason = attempt.why_unmeasured(claim.name)
    return Verdict(UNMEASURED, "–", reason) if reason else verdict
