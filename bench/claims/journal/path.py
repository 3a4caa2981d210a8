"""Topic: the latency that recording adds to a decision, `buffered` against no journal, at 2,000/s in alternating windows."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from bench.claims.bars import at_most, us
from bench.claims.claim import Change, Claim, Figure, NotMeasuredError, Raw, Topic
from bench.claims.journal import pour
from bench.claims.journal.loads import Recorded
from flyball.bench.statistics import mean_interval

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

RATE_PER_S, WINDOW_S, REPEATS = 2_000.0, 5.0, 15
ADDED_MAX_US, SPREAD_MAX_US = 3.0, 6.0
OFF, BUFFERED = "off", "buffered"
ALONE, WINDOWS = "in process", "windows"


def measure(stand: Stand) -> None:
    """The walk's own part in one process, then a server's CPU time and the callers' median."""
    stand.keep(ALONE, pour.cost_us(stand))
    recorded = Recorded(stand, RATE_PER_S, WINDOW_S)
    sides = {OFF: partial(recorded.window, None), BUFFERED: partial(recorded.window, "{durability: buffered}")}
    stand.keep(WINDOWS, stand.in_turn(sides, REPEATS))


def _in_process(raw: Raw) -> Figure:
    """The journal's part of it alone, without the walk that fills in the record; the lanes' CPU time has both."""
    found = raw[ALONE]
    return Figure(sum(found.values()), ", ".join(f"{name} {part:.2f}" for name, part in found.items()))


def _cpu(raw: Raw) -> Figure:
    sides = raw.windows(WINDOWS)
    lanes, whole = ({name: sides.median(name, part) for name in (OFF, BUFFERED)} for part in ("lanes_us", "whole_us"))
    told = f"{us(lanes[OFF])} without; with the writer's own thread {whole[BUFFERED] - whole[OFF]:+.2f} µs"
    return Figure(lanes[BUFFERED] - lanes[OFF], told)


def _p50(raw: Raw) -> Figure:
    """The ratio's mean over pairs of windows, as time; an interval that is wider than the bar agrees with anything."""
    sides = raw.windows(WINDOWS)
    without, with_ = (sides.values(name, "result.latency_us.p50") for name in (OFF, BUFFERED))
    found, usual = mean_interval([one / other for one, other in zip(with_, without, strict=False)]), median(without)
    if found.interval is None:
        raise NotMeasuredError(f"{len(with_)} pairs of windows give no interval")
    low, high = ((edge - 1) * usual for edge in (found.interval.low, found.interval.high))
    told = f"{low:+.1f} to {high:+.1f} µs in the 95 % interval; {us(median(with_))}, without {us(usual)}"
    if high - low > SPREAD_MAX_US:
        raise NotMeasuredError(f"too noisy here to tell: {told}")
    return Figure((found.value - 1) * usual, told)


_MORE = Change("sample", "7 windows of 5 s a side, in turn", "Of 7 pairs the interval was wider than what may be added.")
TOPIC = Topic(
    "path",
    measure,
    subject=f"card-fraud at {RATE_PER_S:,.0f}/s, open loop, `buffered` beside no journal",
    sample=f"{REPEATS} windows of {WINDOW_S:g} s a side, in turn",
    claims=(
        Claim(
            "in-process",
            "a record of 1 KiB reserved, copied and offered: CPU time of the offering thread",
            at_most(ADDED_MAX_US, us),
            _in_process,
            subject="the journal alone in one process",
            sample="the run of `pour --cost`",
        ),
        Claim("cpu", "CPU time of the lanes, added to a decision", at_most(ADDED_MAX_US, us), _cpu, changes=(_MORE,)),
        Claim(
            "p50",
            "p50 added, mean of pairs of windows",
            at_most(ADDED_MAX_US, us, f"a 95 % interval of at most {SPREAD_MAX_US:g} µs"),
            _p50,
            changes=(
                Change("bar", "<= 3 µs", "It was 0 where the 95 % interval contained 1, however wide: noise met it."),
                _MORE,
            ),
        ),
    ),
)
