"""The frame of every claim: one line each (claim, figure, bar, verdict), raw data in a file, an exit code.

Windows in which the host took more than 3 % of the CPU time are discarded and counted: they measure the host.
Must not know what is claimed.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from flyball.bench.machine import HostWatch, refuse_debug_build
from flyball.bench.statistics import STEAL_MAX
from flyball.errors import FlyballError
from flyball.native.machine import build_info, machine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RESULTS = Path("bench/results")


@dataclass(frozen=True, slots=True)
class Line:
    """One claim's verdict: ok, falls short, or not measured here."""

    claim: str
    figure: str
    bar: str
    verdict: str
    reason: str = ""
    topic: str = ""

    def __str__(self) -> str:
        told = f"{self.verdict:<18} {self.claim:<62} {self.figure:<44} {self.bar}"
        return f"{told}   ({self.reason})" if self.reason else told


@dataclass(slots=True)
class Windows:
    """Measurements of one subject, taken in turn with the others'."""

    values: list[Any] = field(default_factory=list)
    discarded: int = 0


class Report:
    """Collects and prints the lines of one run. A quick run says so, and is never published."""

    def __init__(self, name: str, *, quick: bool = False) -> None:
        refuse_debug_build()
        self._name = name
        self._topic = ""
        self._lines: list[Line] = []
        self._raw: dict[str, Any] = {}
        self._head = {"build": build_info().model_dump(), "machine": machine().model_dump(), "quick": quick}
        self._started = time.gmtime()

    def begin(self, topic: str) -> None:
        """Assign the following lines to a topic."""
        self._topic = topic

    def record(self, claim: str, figure: str, bar: str, *, holds: bool) -> None:
        """Record a measured claim."""
        self._add(Line(claim, figure, bar, "ok" if holds else "falls short", topic=self._topic))

    def not_measured(self, claim: str, bar: str, reason: str) -> None:
        """Record a claim that this machine cannot measure."""
        self._add(Line(claim, "-", bar, "not measured here", reason, self._topic))

    def keep(self, name: str, raw: Any) -> None:
        """Keep raw data for the file."""
        self._raw[name] = raw

    def finish(self, path: Path | None = None) -> int:
        """Write the raw data, to `path` if given; the exit code is 1 if a claim falls short."""
        stamp = time.strftime("%Y-%m-%dT%H%M%S", self._started)
        path = path or RESULTS / f"claim-{self._name}-{stamp}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        document = {**self._head, "measured_at": stamp, "lines": [asdict(line) for line in self._lines], "raw": self._raw}
        path.write_text(json.dumps(document, indent=1) + "\n")
        short = sum(line.verdict == "falls short" for line in self._lines)
        print(f"\n{len(self._lines)} claims, {short} fall short. Raw data: {path}")
        return 1 if short else 0

    def _add(self, line: Line) -> None:
        if not self._lines:
            print(f"{'verdict':<18} {'claim':<62} {'figure':<44} bar")
        self._lines.append(line)
        print(line, flush=True)


def exit_with(main: Callable[[], int]) -> NoReturn:
    """Run a command to its exit code; our own errors are printed without a trace."""
    try:
        sys.exit(main())
    except FlyballError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


def interleave(subjects: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, Windows]:
    """Measure the subjects in turn, `repeats` times; a window with too much steal is repeated at the end.

    A subject gets at most twice the repeats: a busy host yields few windows instead of no end.
    """
    found = {name: Windows() for name in subjects}
    for turn in range(2 * repeats):
        wanting = [name for name, windows in found.items() if len(windows.values) < repeats]
        if not wanting or (turn >= repeats and not any(found[name].discarded for name in wanting)):
            break
        for name in wanting:
            with HostWatch() as host:
                value = subjects[name]()
            if host.seen.steal_share > STEAL_MAX:
                found[name].discarded += 1
            else:
                found[name].values.append(value)
    return found


def median(values: list[float]) -> float:
    """The median of the kept windows."""
    return statistics.median(values)


def too_few(windows: Mapping[str, Windows], least: int = 3) -> str | None:
    """Why these windows prove nothing; None if each subject has enough."""
    for name, found in windows.items():
        if len(found.values) < least:
            return f"{name}: {found.discarded} windows discarded for steal over {STEAL_MAX:.0%}, {len(found.values)} left"
    return None


def discarded(windows: Mapping[str, Windows]) -> str:
    """The number of discarded windows, as text."""
    count = sum(found.discarded for found in windows.values())
    return f"{count} windows discarded"
