"""Topic: the latency that recording adds to a decision, `buffered` against no journal, at 2,000/s in alternating windows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.claims.journal import pour
from bench.claims.journal.loads import Recorded, Window
from bench.claims.report import Windows, discarded, median
from flyball.bench.statistics import mean_interval
from flyball.bench.table import latency

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

RATE_PER_S, WINDOW_S, REPEATS = 2_000.0, 5.0, 7
ADDED_MAX_US = 3.0
OFF, BUFFERED = "off", "buffered"


def measure(stand: Stand) -> None:
    """The walk's own part in one process, then a server's CPU time and the callers' median."""
    _judge_in_process(stand)
    recorded = Recorded(stand, RATE_PER_S, WINDOW_S)
    sides = {OFF: partial(recorded.window, None), BUFFERED: partial(recorded.window, "{durability: buffered}")}
    windows = stand.in_turn(sides, REPEATS)
    stand.keep("windows", {name: [window.kept() for window in found.values] for name, found in windows.items()})
    title = f"card-fraud at {RATE_PER_S:,.0f}/s, buffered beside no journal"
    cpu, p50 = f"{title}: CPU time of the lanes", f"{title}: p50"
    cpu_bar, p50_bar = f"<= {ADDED_MAX_US:g} µs more", f"1 within the 95 % interval, or <= {ADDED_MAX_US:g} µs more"
    if doubt := stand.doubt(windows):
        stand.report.not_measured(cpu, cpu_bar, doubt)
        stand.report.not_measured(p50, p50_bar, doubt)
        return
    _judge_cpu(stand, cpu, cpu_bar, windows)
    without, with_ = ([window.result.latency_us.p50 for window in windows[name].values] for name in (OFF, BUFFERED))
    ratio = mean_interval([one / other for one, other in zip(with_, without, strict=False)])
    added = median(with_) - median(without)
    span = f", {ratio.interval.low:.3f} to {ratio.interval.high:.3f}" if ratio.interval else ""
    figure = f"{ratio.value:.3f} times{span} ({latency(median(with_))}, without {latency(median(without))})"
    holds = added <= ADDED_MAX_US or (ratio.interval is not None and ratio.interval.low <= 1)
    stand.report.record(p50, figure, f"{p50_bar}; {discarded(windows)}", holds=holds)


def _judge_cpu(stand: Stand, claim: str, bar: str, windows: dict[str, Windows]) -> None:
    def middle(name: str, part: str) -> float:
        found: list[Window] = windows[name].values
        return median([getattr(window, part) for window in found])

    added = middle(BUFFERED, "lanes_us") - middle(OFF, "lanes_us")
    whole = middle(BUFFERED, "whole_us") - middle(OFF, "whole_us")
    figure = f"{added:+.2f} µs ({middle(OFF, 'lanes_us'):.1f} without); with the writer's own thread {whole:+.2f} µs"
    stand.report.record(claim, figure, bar, holds=added <= ADDED_MAX_US)


def _judge_in_process(stand: Stand) -> None:
    """The journal's part of it alone, without the walk that fills in the record; the lanes' CPU time below has both."""
    found = pour.cost_us(stand)
    stand.keep("in process", found)
    claim, bar = "a record of 1 KiB, on the thread that offers it", f"<= {ADDED_MAX_US:g} µs"
    took = sum(found.values())
    figure = f"{took:.2f} µs ({', '.join(f'{name} {part:.2f}' for name, part in found.items())})"
    stand.report.record(claim, figure, bar, holds=took <= ADDED_MAX_US)
