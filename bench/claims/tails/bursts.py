"""Topic: bursts of ten times the server's capacity for 200 ms."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from bench.claims.bars import at_least, at_most, none, share, times, us
from bench.claims.claim import Change, Claim, Figure, Raw, Topic
from bench.claims.figures import median_of
from bench.claims.tails.curve import CONNECTIONS, capacity_per_s
from bench.claims.tails.loads import failed_of, time_line, unsent_of
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.claims.tails.stand import Stand
    from flyball.native.load_documents import LoadResult

RUN_MS, DEADLINE_MS = 1.6, 50
TIMES, BURST_S, EVERY_S = 10.0, 0.2, 2.0
USUAL = 0.3  # of capacity, between bursts
WINDOW_S, REPEATS = 20.0, 3
ACCEPTED_MIN, OFFERED_MIN = 0.80, 9.5


def measure(stand: Stand) -> None:
    """The accepted keep their deadline, and are nearly all that could be served."""
    slow = stand.cnn("slow", RUN_MS)
    with stand.serve(slow) as server:
        capacity = capacity_per_s(stand, slow, server)
        rates = {"rate_per_s": USUAL * capacity, "burst_per_s": TIMES * capacity}
        arrivals = Arrivals(kind="burst", burst_s=BURST_S, every_s=EVERY_S, **rates)

        def window() -> LoadResult:
            return slow.load_unchecked(
                server,
                CONNECTIONS,
                arrivals=arrivals,
                duration_s=EVERY_S if stand.quick else WINDOW_S,
                interval_s=BURST_S,
                deadline_ms=DEADLINE_MS,
                timeout_ms=1000,
            )

        windows = stand.in_turn({"bursts": window}, REPEATS)
    stand.keep("capacity_per_s", capacity)
    stand.keep("deadline_ms", DEADLINE_MS)
    stand.keep("windows", windows)
    stand.keep("time_lines", [time_line(result, DEADLINE_MS) for result in windows["bursts"].values])


def accepted_in_bursts(lines: Sequence[Mapping[str, float]]) -> float:
    """Right answers in time to a burst's requests, the mean burst of a window; intervals are as long as a burst."""
    return _in_bursts(lines, "in_time")


def _in_bursts(lines: Sequence[Mapping[str, float]], part: str) -> float:
    bursts = [line[part] for line in lines if is_burst(line)]
    return sum(bursts) / len(bursts) if bursts else 0.0


def is_burst(line: Mapping[str, float]) -> bool:
    """Whether an interval is a burst: each period begins with one."""
    return (line["start_s"] + BURST_S / 2) % EVERY_S < BURST_S


def _offered(raw: Raw) -> Figure:
    """What was due in bursts, without what found no free connection in the generator then: the server got that later."""
    windows, capacity = raw.windows("windows").values("bursts"), raw["capacity_per_s"]
    due = median(_in_bursts(lines, "offered") for lines in raw["time_lines"]) / BURST_S
    # All that waited counts as a burst's, since there is a free connection between bursts.
    bursts = [sum(is_burst(line) for line in lines) for lines in raw["time_lines"]]
    waited = [window["generator"]["waited_share"] * window["sent"] for window in windows]
    late = median(waits / max(found, 1) / BURST_S for waits, found in zip(waited, bursts, strict=True))
    return Figure((due - late) / capacity, f"{due:,.0f}/s due, of which {late:,.0f}/s found no free connection at once")


def _failed(raw: Raw) -> Figure:
    windows = raw.windows("windows").values("bursts")
    unsent = sum(unsent_of(window) for window in windows)
    told = f"of {sum(window['sent'] for window in windows):,}; {unsent:,} were not sent"
    return Figure(sum(failed_of(window) for window in windows), told)


def _accepted(raw: Raw) -> Figure:
    raw.windows("windows").values("bursts")  # enough of them
    accepted, capacity = median(accepted_in_bursts(lines) for lines in raw["time_lines"]) / BURST_S, raw["capacity_per_s"]
    return Figure(accepted / capacity, f"{accepted:,.0f}/s of {capacity:,.0f}/s")


_CHANGES = (
    Change(
        "subject",
        "CNN of 1.6 ms, bursts of 10 × the usual rate for 200 ms every 2 s, which is 30% of capacity, the deadline 50 ms",
        "Ten times a usual rate of 30 % was three times capacity.",
    ),
)
TOPIC = Topic(
    "bursts",
    measure,
    subject=f"CNN of {RUN_MS:g} ms, bursts of {TIMES:g} × capacity for {BURST_S * 1e3:.0f} ms every {EVERY_S:g} s, "
    f"{USUAL:.0%} of capacity between them, {CONNECTIONS} connections, the deadline {DEADLINE_MS} ms",
    sample=f"{REPEATS} windows of {WINDOW_S:g} s",
    claims=(
        Claim(
            "p99",
            "p99 of accepted requests, the deadline",
            at_most(DEADLINE_MS * 1e3, us),
            median_of("windows", "bursts", "latency_us.p99"),
            changes=_CHANGES,
        ),
        Claim("accepted", "accepted in bursts, of capacity", at_least(ACCEPTED_MIN, share), _accepted, changes=_CHANGES),
        Claim("offered", "offered in bursts, over capacity", at_least(OFFERED_MIN, times), _offered),
        Claim("failed", "requests that failed or were answered wrongly", none(), _failed),
    ),
)
