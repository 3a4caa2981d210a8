"""Loads for claims about tails: several at once, and one with the server's queue observed.

Must not know what is claimed.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from flyball.bench.stages import scrape
from flyball.native.load import LoadRun, read_histograms
from flyball.native.load_documents import LoadResult, TimelineInterval, Warmup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.claims.subjects import Subject
    from flyball.bench.process import Process
    from flyball.native.load_documents import LoadPlan

NO_WARMUP = Warmup(least_s=0.0, most_s=0.0)
_POLL_S = 0.05
_LOOK_S, _LOOK_CLOSELY_S = 0.1, 0.005
_CLOSE_S, _AFTER_S = 0.3, 0.5  # look closely so long before the load's end, and so long after it
_DEPTH = re.compile(r"^flyball_in_flight (\d+)", re.MULTILINE)
_UNSENT = {"no connection was free in time", "generator backlog full", "not sent before the run ended"}
"""The generator's reasons for requests that it never sent; it counts them as failed."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A window, and requests in the server by seconds after the load's end (before it: negative)."""

    result: LoadResult
    depth: list[tuple[float, int]]

    @property
    def depth_loaded(self) -> list[int]:
        """While the load lasted."""
        return [depth for _, depth in takewhile(lambda sample: sample[0] < 0, self.depth)]


def back_after_s(depth: Sequence[tuple[float, int]], usual: float) -> float | None:
    """When a queue was back at its usual depth for good, counted from the load's end; None where it never was."""
    over = [at_s for at_s, waiting in depth if waiting > usual]
    after = [at_s for at_s, _ in depth if at_s >= 0 and (not over or at_s > over[-1])]
    return after[0] if after else None


def goodput_of(window: Mapping[str, Any]) -> float:
    """Right answers within their deadline, a second, of a window as records keep it."""
    return float((window["answered"] - window["past_deadline"]) / window["elapsed_s"])


def unsent_of(window: Mapping[str, Any]) -> int:
    """Requests of a window that the generator never sent: the server did not see them."""
    return sum(error["count"] for error in window["errors"] if error["reason"] in _UNSENT)


def failed_of(window: Mapping[str, Any]) -> int:
    """Requests of a window that were sent, and failed or got a wrong answer."""
    return int(window["failed"] + window["mismatched"] - unsent_of(window))


def run_together(loads: Sequence[tuple[LoadPlan, bytes]], meanwhile: Callable[[], None] | None = None) -> list[LoadResult]:
    """Several loads at once; `meanwhile` is called once all of them measure."""
    runs = [LoadRun(plan, payloads) for plan, payloads in loads]
    try:
        while meanwhile and any(run.phase() in ("warming", "beginning") for run in runs):
            time.sleep(_POLL_S)
        if meanwhile:
            meanwhile()
        while not all(run.finished() for run in runs):
            time.sleep(_POLL_S)
    except BaseException:
        for run in runs:
            run.stop()
        raise
    return [run.result() for run in runs]


def run_watched(plan: LoadPlan, payloads: bytes, url: str) -> Watched:
    """A load with the server's queue read all the while: ten times a second, around the load's end much more often."""
    run = LoadRun(plan, payloads)
    samples: list[tuple[float, int]] = []
    try:
        while run.phase() in ("warming", "beginning"):
            time.sleep(_LOOK_CLOSELY_S)
        ends = time.monotonic() + plan.duration_s
        while (at_s := time.monotonic() - ends) < _AFTER_S or not run.finished():
            if (found := _DEPTH.search(scrape(url))) is not None:
                samples.append((at_s, int(found[1])))
            time.sleep(_LOOK_CLOSELY_S if -_CLOSE_S < at_s < _AFTER_S else _LOOK_S)
    except BaseException:
        run.stop()
        raise
    return Watched(run.result(), samples)


def cpu_s(server: Process) -> float:
    """CPU time of all of a server's threads."""
    return sum(server.thread_cpu_s().values())


def cpu_of(server: Process, subject: Subject, connections: int, **changes: Any) -> tuple[LoadResult, float]:
    """A window without a warm-up, whatever comes back, and the server's CPU time in it: all of it is this window's."""
    before = cpu_s(server)
    result = subject.load_unchecked(server, connections, warmup=NO_WARMUP, **changes)
    return result, cpu_s(server) - before


def in_time(interval: TimelineInterval, deadline_ms: float) -> int:
    """How many of the requests that were due in an interval got a right answer within the deadline."""
    merged = read_histograms([interval.histogram])
    pairs = zip(merged.values_us, merged.counts, strict=True)
    return sum(count for value, count in pairs if value <= deadline_ms * 1e3)


def time_line(result: LoadResult, deadline_ms: float) -> list[dict[str, float]]:
    """A window interval by interval: offered, in time, late, refused, failed (or wrong, or never sent)."""
    lines = []
    for interval in result.timeline:
        good = in_time(interval, deadline_ms)
        lines.append(
            {
                "start_s": interval.start_s,
                "offered": interval.sent,
                "in_time": good,
                "late": interval.answered - good,
                "refused": interval.refused,
                "failed": interval.failed + interval.mismatched,
            }
        )
    return lines
