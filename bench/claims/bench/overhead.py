"""Topic: the generator's overhead, and its maximum rate on one core."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from bench.claims.bars import at_least, per_s, shown, us
from bench.claims.bench import subjects
from bench.claims.bench.subjects import echo, load
from bench.claims.claim import Change, Claim, Figure, Topic
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from bench.claims.claim import Raw
    from bench.claims.tails.stand import Stand

RATE_MIN, KEPT_MIN, CONNECTIONS, WINDOWS = 50_000, 0.99, 64, 3


def measure(stand: Stand) -> None:
    """A quiet rate, closed loops, and an open loop at the highest rate that is promised."""
    rows, seconds = subjects.rows_of(subjects.gbdt(stand)), stand.seconds(3.0)
    with echo() as server:
        stand.keep("quiet", load(server, rows, seconds, Arrivals(kind="constant", rate_per_s=1000.0)))
        closed = Arrivals(kind="closed")
        stand.keep("closed", [load(server, rows, stand.seconds(2.0), closed, CONNECTIONS) for _ in range(WINDOWS)])
        arrivals = Arrivals(kind="poisson", rate_per_s=float(RATE_MIN), seed=1)
        stand.keep("open", load(server, rows, seconds, arrivals, CONNECTIONS))


def _added(raw: Raw) -> Figure:
    quiet = raw["quiet"]
    fault = "" if quiet["answered"] and not quiet["failed"] else f"{quiet['failed']} failed"
    return Figure(quiet["latency_us"]["p50"], f"p99 {us(quiet['latency_us']['p99'])}", fault)


def _closed(raw: Raw) -> Figure:
    rates = [one["rate_per_s"] for one in raw["closed"]]
    failed = sum(one["failed"] + one["refused"] for one in raw["closed"])
    told = f"the median of {len(rates)}, {per_s(min(rates))} to {per_s(max(rates))}"
    return Figure(median(rates), told, f"{failed} failed" if failed else "")


def _open(raw: Raw) -> Figure:
    window = raw["open"]
    told = f"p50 {us(window['latency_us']['p50'])}, p99 {us(window['latency_us']['p99'])}"
    lost = window["sent"] - window["answered"]
    return Figure(window["rate_per_s"], told, f"{lost} lost" if lost else "")


TOPIC = Topic(
    "overhead",
    measure,
    subject="the generator on one core, an echo on another",
    sample=f"one window, {WINDOWS} of closed loops",
    claims=(
        Claim("added", "added latency at 1,000/s, p50", shown(us), _added),
        Claim(
            "closed",
            f"closed loop, {CONNECTIONS} connections",
            at_least(RATE_MIN, per_s),
            _closed,
            sample=f"{WINDOWS} windows, the median",
            changes=(Change("sample", "one window, 3 of closed loops", "The best of three counted; the median does now."),),
        ),
        Claim(
            "open",
            f"open loop, Poisson, at {RATE_MIN:,}/s: answered",
            at_least(KEPT_MIN * RATE_MIN, per_s, "none lost"),
            _open,
        ),
    ),
)
