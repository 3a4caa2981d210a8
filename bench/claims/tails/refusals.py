"""Part of the topic overload: the GBDT, whose run is as cheap as parsing, so that the cost of a refusal decides."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from bench.claims.report import discarded, median
from bench.claims.tails.curve import capacity_per_s, offered
from bench.claims.tails.loads import cpu_of
from bench.claims.tails.stand import goodput_per_s, raw
from flyball.bench.table import latency
from flyball.documents.snapshot import BatchWait, Limits, Terms
from flyball.errors import FlyballError
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process
    from flyball.native.load_documents import LoadResult

CONNECTIONS, WINDOW_S, REPEATS = 16, 3.0, 5
COST_MAX = 0.60
OVER, GOODPUT_MIN, DEADLINE_MS = 1.3, 0.80, 20
# Callers as they are: a bounded pool of connections, and a request that finds none free for a quarter of its time is given
# up. Without that the queue would stand in the generator, where no server can refuse it.
CLOSED_CONNECTIONS, OPEN_CONNECTIONS, OPEN_REPEATS, CONNECTION_WAIT_MS = 64, 256, 3, 5
REFUSED_MIN = 0.99
# One request may be in, and it waits a second for company that never comes: all others are refused at the door.
_REFUSING = Terms(limits=Limits(in_flight_max=1), batch=BatchWait(size=2, window_ms=1000))


def measure(stand: Stand) -> None:
    """CPU of a refusal against an answer's, and goodput a little beyond capacity."""
    _cost(stand)
    _beyond(stand)


def _cost(stand: Stand) -> None:
    claim, bar = "GBDT: server CPU of a refusal over an answer's", f"<= {COST_MAX:.0%}"
    try:
        refusing = stand.serve(stand.fraud, terms=_REFUSING)
    except FlyballError as error:
        stand.report.not_measured(claim, bar, f"no server that refuses everything: {str(error)[-150:]}")
        return
    with refusing, stand.serve(stand.fraud) as answering:
        for server in (refusing, answering):  # what the first requests cost is no part of it
            stand.fraud.load_unchecked(server, CONNECTIONS, duration_s=stand.seconds(1.0))
        sides = {
            "refusal": lambda: _cpu_us(stand, refusing, refused=True),
            "answer": lambda: _cpu_us(stand, answering, refused=False),
        }
        windows = stand.in_turn(sides, REPEATS)
    stand.keep("gbdt, cpu_us of one", raw(windows))
    if doubt := stand.doubt(windows):
        stand.report.not_measured(claim, bar, doubt)
        return
    refusal, answer = (median(windows[name].values) for name in ("refusal", "answer"))
    figure = f"{refusal / answer:.0%} ({latency(refusal)}, {latency(answer)})"
    stand.report.record(claim, figure, f"{bar}, {discarded(windows)}", holds=refusal <= COST_MAX * answer)


def _cpu_us(stand: Stand, server: Process, *, refused: bool) -> float:
    result, cpu_s = cpu_of(server, stand.fraud, CONNECTIONS, duration_s=stand.seconds(WINDOW_S))
    wanted = result.refused if refused else result.answered
    if wanted < REFUSED_MIN * result.sent:
        raise FlyballError(
            f"{wanted:,} of {result.sent:,} were {'refused' if refused else 'answered'}: {result.first_problem}"
        )
    return cpu_s / wanted * 1e6


def _beyond(stand: Stand) -> None:
    claim, bar = f"GBDT at {OVER:g} × capacity, {DEADLINE_MS} ms: goodput of capacity", f">= {GOODPUT_MIN:.0%}"
    seeds = count(1)
    with stand.serve(stand.fraud) as server:
        capacity = capacity_per_s(stand, stand.fraud, server, CLOSED_CONNECTIONS)

        def window() -> LoadResult:
            callers = {
                "arrivals": Arrivals(kind="poisson", rate_per_s=OVER * capacity, seed=next(seeds)),
                "connections": OPEN_CONNECTIONS,
                "connection_wait_ms": CONNECTION_WAIT_MS,
            }
            return offered(stand, stand.fraud, server, OVER * capacity, DEADLINE_MS, **callers)

        windows = stand.in_turn({"beyond": window}, OPEN_REPEATS)
    stand.keep("gbdt, beyond capacity", {"capacity_per_s": capacity, **raw(windows)})
    if doubt := stand.doubt(windows):
        stand.report.not_measured(claim, bar, doubt)
        return
    results = windows["beyond"].values
    good = median([goodput_per_s(result) for result in results])
    limits = [result.bottleneck for result in results if result.bottleneck]
    figure = f"{good / capacity:.0%} ({good:,.0f}/s of {capacity:,.0f}/s)"
    if len(limits) > len(results) / 2 and good < GOODPUT_MIN * capacity:
        stand.report.not_measured(claim, bar, f"the generator was the limit ({limits[0]}); {figure}")
    else:
        stand.report.record(claim, figure, f"{bar}, {discarded(windows)}", holds=good >= GOODPUT_MIN * capacity)
