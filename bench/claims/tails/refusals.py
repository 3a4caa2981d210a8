"""Part of the topic overload: the GBDT, whose run is as cheap as parsing, so that the cost of a refusal decides."""

from __future__ import annotations

from itertools import count
from statistics import median
from typing import TYPE_CHECKING

from bench.claims.bars import at_least, at_most, share
from bench.claims.claim import Claim, Figure, NotMeasuredError, Raw
from bench.claims.figures import median_over
from bench.claims.tails.curve import WINDOW_S as CURVE_WINDOW_S
from bench.claims.tails.curve import capacity_per_s, offered
from bench.claims.tails.loads import cpu_of, goodput_of
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
_COST, _BEYOND, _CAPACITY = "gbdt, cpu_us of one", "gbdt, beyond capacity", "gbdt, capacity_per_s"
# One request may be in, and it waits a second for company that never comes: all others are refused at the door.
_REFUSING = Terms(limits=Limits(in_flight_max=1), batch=BatchWait(size=2, window_ms=1000))


def measure(stand: Stand) -> None:
    """CPU of a refusal against an answer's, and goodput a little beyond capacity."""
    _cost(stand)
    _beyond(stand)


def _cost(stand: Stand) -> None:
    try:
        refusing = stand.serve(stand.fraud, terms=_REFUSING)
    except FlyballError as error:
        stand.not_measured(f"no server that refuses everything: {str(error)[-150:]}", "refusal-cost")
        return
    with refusing, stand.serve(stand.fraud) as answering:
        for server in (refusing, answering):  # what the first requests cost is no part of it
            stand.fraud.load_unchecked(server, CONNECTIONS, duration_s=stand.seconds(1.0))
        sides = {
            "refusal": lambda: _cpu_us(stand, refusing, refused=True),
            "answer": lambda: _cpu_us(stand, answering, refused=False),
        }
        windows = stand.in_turn(sides, REPEATS)
    stand.keep(_COST, windows)


def _cpu_us(stand: Stand, server: Process, *, refused: bool) -> float:
    result, cpu_s = cpu_of(server, stand.fraud, CONNECTIONS, duration_s=stand.seconds(WINDOW_S))
    wanted = result.refused if refused else result.answered
    if wanted < REFUSED_MIN * result.sent:
        raise FlyballError(
            f"{wanted:,} of {result.sent:,} were {'refused' if refused else 'answered'}: {result.first_problem}"
        )
    return cpu_s / wanted * 1e6


def _beyond(stand: Stand) -> None:
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
    stand.keep(_BEYOND, windows)
    stand.keep(_CAPACITY, capacity)


def _goodput(raw: Raw) -> Figure:
    windows, capacity = raw.windows(_BEYOND).values("beyond"), raw[_CAPACITY]
    good = median(goodput_of(window) for window in windows)
    limits = [window["bottleneck"] for window in windows if window["bottleneck"]]
    told = f"{good:,.0f}/s of {capacity:,.0f}/s"
    if len(limits) > len(windows) / 2 and good < GOODPUT_MIN * capacity:
        raise NotMeasuredError(f"the generator was the limit ({limits[0]}); {told}")
    return Figure(good / capacity, told)


CLAIMS = (
    Claim(
        "refusal-cost",
        "GBDT: server CPU of a refusal over an answer's",
        at_most(COST_MAX, share),
        median_over(_COST, "refusal", "answer"),
        subject=f"GBDT, {CONNECTIONS} connections, closed loop; one server refuses all requests, one answers them",
        sample=f"{REPEATS} windows of {WINDOW_S:g} s a side, in turn",
    ),
    Claim(
        "gbdt-beyond",
        f"GBDT at {OVER:g} × capacity, deadline {DEADLINE_MS} ms: goodput of capacity",
        at_least(GOODPUT_MIN, share),
        _goodput,
        subject=f"GBDT, {OPEN_CONNECTIONS} connections, callers wait {CONNECTION_WAIT_MS} ms for a free one",
        sample=f"{OPEN_REPEATS} windows of {CURVE_WINDOW_S:g} s",
    ),
)
