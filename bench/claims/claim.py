"""What a claim is: a sentence, a bar, and a pure function from raw values to the figure that is compared with the bar.

A topic declares its claims beside its measurement. Verdicts come from here alone: from raw values, when a run ends and again
whenever the page is made. Must not know records, pages or how anything is measured.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.claims.bars import Bar
    from bench.claims.tails.stand import Stand

WINDOWS_MIN = 3
"""Fewer windows of a side prove nothing."""
OK, SHORT, UNMEASURED, SHOWN = "ok", "falls short", "not measured", "shown"
_LONGEST = 300


class NotMeasuredError(Exception):
    """Raised by a figure whose raw values prove nothing, with the reason."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A claim's number, what is shown beside it, and a condition that failed, if one did."""

    value: float
    beside: str = ""
    fault: str = ""
    """Why the claim falls short whatever the value is, such as wrong answers in the windows."""


@dataclass(frozen=True, slots=True)
class Change:
    """A term of a claim that was changed: `part` is `bar`, `subject` or `sample`."""

    part: str
    was: str
    why: str


@dataclass(frozen=True, slots=True)
class Claim:
    """One promise. `subject` and `sample` are the topic's unless the claim has its own."""

    name: str
    sentence: str
    bar: Bar
    figure: Callable[[Raw], Figure]
    subject: str = ""
    sample: str = ""
    shortfall: str = ""
    """Why the bar is not met, where it is known not to be."""
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Topic:
    """Claims that are measured together. `measure` keeps raw values on the stand; it judges nothing."""

    name: str
    measure: Callable[[Stand], None]
    subject: str
    sample: str
    claims: tuple[Claim, ...]

    def terms(self, claim: Claim) -> dict[str, str]:
        """What a record states of a claim, so that a later change of them shows."""
        return {"bar": claim.bar.text, "subject": claim.subject or self.subject, "sample": claim.sample or self.sample}


@dataclass(frozen=True, slots=True)
class Suite:
    """The topics of one `make claim-…`, with the text above its table."""

    name: str
    title: str
    about: str
    topics: tuple[Topic, ...]

    def topic(self, name: str) -> Topic:
        """By its name."""
        return next(topic for topic in self.topics if topic.name == name)

    def claims(self) -> list[tuple[Topic, Claim]]:
        """All of them, in order."""
        return [(topic, claim) for topic in self.topics for claim in topic.claims]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What raw values say of a claim."""

    kind: str
    figure: str
    reason: str = ""
    discarded: int = 0
    computed: bool = True
    """Whether the values gave a figure at all."""


@dataclass(slots=True)
class Sides:
    """Windows of several sides that were measured in turn."""

    found: Mapping[str, Any]
    least: int

    def values(self, side: str, key: str = "") -> list[Any]:
        """A side's kept windows, or a part of each (`latency_us.p99`); too few prove nothing."""
        windows = self.found[side]
        if len(windows["values"]) < self.least:
            gone = windows["discarded"]
            why = f": {gone[0]['reason']}" if gone else ""
            left = f"{len(windows['values'])} of at least {self.least} windows left"
            raise NotMeasuredError(f"{side}: {left}, {len(gone)} discarded{why}")
        return [part(window, key) for window in windows["values"]]

    def median(self, side: str, key: str = "") -> float:
        """The median of a side's windows."""
        return float(statistics.median(self.values(side, key)))

    def total(self, sides: Sequence[str], *keys: str) -> int:
        """The sum of these parts over all windows of these sides, discarded ones as well: an error counts in any window."""
        windows = [one for side in sides for one in self.found[side]["values"]]
        windows += [one["value"] for side in sides for one in self.found[side]["discarded"]]
        return sum(int(part(window, key)) for window in windows for key in keys)


@dataclass(slots=True)
class Raw:
    """The raw values of one attempt at a topic, by the names under which it kept them."""

    kept: Mapping[str, Any]
    least: int = WINDOWS_MIN
    discarded: int = field(default=0, init=False)

    def __getitem__(self, name: str) -> Any:
        return self.kept[name]

    def __contains__(self, name: str) -> bool:
        return name in self.kept

    def windows(self, name: str) -> Sides:
        """Windows that were kept under this name; their discarded ones are counted beside the figure."""
        found = self.kept[name]
        self.discarded += sum(len(side["discarded"]) for side in found.values())
        return Sides(found, self.least)


def part(value: Any, key: str) -> Any:
    """A part of a nested value by its dotted name; the value itself for an empty one."""
    for name in key.split(".") if key else ():
        value = value[name]
    return value


def judge(claim: Claim, kept: Mapping[str, Any], *, least: int = WINDOWS_MIN) -> Verdict:
    """The verdict that raw values give; values from which no figure can be computed do not hold."""
    raw = Raw(kept, least)
    try:
        figure = claim.figure(raw)
    except NotMeasuredError as reason:
        return Verdict(UNMEASURED, "–", str(reason)[:_LONGEST], raw.discarded)
    except Exception as error:
        told = f"no figure from the record: {type(error).__name__} {error}"[:_LONGEST]
        return Verdict(SHORT, "–", told, raw.discarded, computed=False)
    shown = claim.bar.shown(figure.value) + (f" ({figure.beside})" if figure.beside else "")
    if not claim.bar.judges and not figure.fault:
        return Verdict(SHOWN, shown, "", raw.discarded)
    kind = OK if claim.bar.holds(figure.value) and not figure.fault else SHORT
    return Verdict(kind, shown, figure.fault[:_LONGEST], raw.discarded)
