"""Topic: a server that stalls 200 ms every 2 s; requests due in it wait 100 ms on average, a tenth of them over 180 ms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.claims.bars import at_most, share, us
from bench.claims.bench import subjects
from bench.claims.bench.subjects import echo, load
from bench.claims.claim import Claim, Figure, Topic
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from bench.claims.claim import Raw
    from bench.claims.tails.stand import Stand

STALL_MS, STALL_EVERY_S, RATE_PER_S, PERIODS = 200, 2.0, 1000.0, 10
WITHIN = 0.05
# Of the tenth that falls into a stall, the slowest tenth are the slowest hundredth of all.
TRUTH_US = (STALL_MS / 1e3 - 0.01 * STALL_EVERY_S) * 1e6


def measure(stand: Stand) -> None:
    """An open loop and a closed one."""
    rows = subjects.rows_of(subjects.gbdt(stand))
    seconds = (1 if stand.quick else PERIODS) * STALL_EVERY_S
    with echo("--stall-ms", STALL_MS, "--stall-every-s", STALL_EVERY_S) as server:
        stand.keep("open", load(server, rows, seconds, Arrivals(kind="constant", rate_per_s=RATE_PER_S)))
        stand.keep("closed", load(server, rows, seconds, Arrivals(kind="closed"), connections=1))


def _apart(raw: Raw) -> Figure:
    seen = raw["open"]["latency_us"]["p99"]
    return Figure(abs(seen / TRUTH_US - 1), f"{us(seen)}, truth {us(TRUTH_US)}")


def _hidden(raw: Raw) -> Figure:
    seen = raw["closed"]["latency_us"]["p99"]
    return Figure(seen / TRUTH_US, f"a closed loop shows {us(seen)}")


TOPIC = Topic(
    "stall",
    measure,
    subject=f"an echo that stalls {STALL_MS} ms every {STALL_EVERY_S:g} s, {RATE_PER_S:,.0f}/s",
    sample=f"{PERIODS} stalls",
    claims=(
        Claim("open", "open loop: p99 beside the arithmetic truth, apart", at_most(WITHIN, share), _apart),
        Claim("closed", "closed loop, which hides the stall: p99 of the truth", at_most(0.1, share), _hidden),
    ),
)
