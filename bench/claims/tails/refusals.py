"""Part of the topic overload: the GBDT, whose run is as cheap as parsing, so that the cost of a refusal decides."""

from __future__ import annotations

from functools import partial
from itertools import count
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.claims.bars import at_least, at_most, per_s, share, us
from bench.claims.claim import Change, Claim, Figure, NotMeasuredError, Raw
from bench.claims.tails.curve import WINDOW_S as CURVE_WINDOW_S
from bench.claims.tails.curve import Callers, capacity_per_s, draw_curve, offered
from bench.claims.tails.loads import cpu_of, goodput_of, unsent_of
from flyball.documents.snapshot import BatchWait, Limits, Terms
from flyball.errors import FlyballError
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process
    from flyball.native.load_documents import LoadResult

CONNECTIONS, WINDOW_S, REPEATS = 16, 3.0, 5
COST_MAX_US = 11.0
OVER, TWICE, DEADLINE_MS = 1.3, 2.0, 20
GOODPUT_MIN, GOODPUT_TWICE_MIN, REFUSED_OF_EXCESS_MIN = 0.70, 0.50, 0.50
# Callers as they are: a bounded pool of connections, and a request that finds none free for a quarter of its time is given
# up. The pool holds twice what the server answers within the deadline: in a smaller one the queue would stand in the
# generator, and the server would never have to refuse.
CLOSED_CONNECTIONS, OPEN_CONNECTIONS, OPEN_REPEATS, CONNECTION_WAIT_MS = 64, 2048, 3, 5
REFUSED_MIN = 0.99
OFFERED_WITHIN = 0.1  # of the wanted multiple: capacity moves between windows on a shared host
CURVE = f"flyballd, GBDT, {DEADLINE_MS} ms"
_CALLERS = Callers(CLOSED_CONNECTIONS, {"connections": OPEN_CONNECTIONS, "connection_wait_ms": CONNECTION_WAIT_MS})
_COST, _BEYOND, _CLOSED = "gbdt, cpu_us of one", "gbdt, beyond capacity", "closed"
# One request may be in, and it waits a second for company that never comes: all others are refused at the door.
_REFUSING = Terms(limits=Limits(in_flight_max=1), batch=BatchWait(size=2, window_ms=1000))


def measure(stand: Stand) -> None:
    """CPU of a refusal, and goodput beyond capacity."""
    _cost(stand)
    _beyond(stand)


def curve(stand: Stand) -> dict[str, Any]:
    """The GBDT's goodput at every multiple, to stand beside the slow model's."""
    return draw_curve(stand, CURVE, stand.fraud, lambda: stand.serve(stand.fraud), DEADLINE_MS, callers=_CALLERS)


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

        def window(over: float) -> LoadResult:
            arrivals = Arrivals(kind="poisson", rate_per_s=over * capacity, seed=next(seeds))
            return offered(
                stand, stand.fraud, server, over * capacity, DEADLINE_MS, **{**_CALLERS.plan, "arrivals": arrivals}
            )

        def closed() -> float:
            return stand.fraud.load(server, CLOSED_CONNECTIONS, duration_s=stand.seconds(WINDOW_S)).rate_per_s

        sides: dict[str, Callable[[], object]] = {
            _CLOSED: closed,
            **{_side(over): partial(window, over) for over in (OVER, TWICE)},
        }
        windows = stand.in_turn(sides, OPEN_REPEATS)
    stand.keep(_BEYOND, windows)


def _side(over: float) -> str:
    return f"{over:g} times"


def _windows(raw: Raw, over: float) -> tuple[list[Mapping[str, Any]], float]:
    """The windows at a multiple, and the capacity that was measured in turn with them."""
    sides = raw.windows(_BEYOND)
    windows, capacity = sides.values(_side(over)), sides.median(_CLOSED)
    found = median(window["offered_per_s"] for window in windows) / capacity
    if abs(found / over - 1) > OFFERED_WITHIN:
        raise NotMeasuredError(f"{found:.2f} times capacity were offered instead of {over:g}: capacity moved")
    return windows, capacity


def _share_unsent(windows: list[Mapping[str, Any]]) -> str:
    """What the generator could not send, which the server never saw."""
    return f"{median(unsent_of(window) / window['sent'] for window in windows):.0%} of the requests were not sent"


def _goodput(raw: Raw, over: float) -> Figure:
    windows, capacity = _windows(raw, over)
    good = median(goodput_of(window) for window in windows)
    told = f"{per_s(good)} of {per_s(capacity)}; {_share_unsent(windows)}"
    limits = [window["bottleneck"] for window in windows if window["bottleneck"]]
    if len(limits) > len(windows) / 2:
        raise NotMeasuredError(f"the generator was the limit ({limits[0]}); {told}")
    return Figure(good / capacity, told)


def _refused_of_excess(raw: Raw, over: float) -> Figure:
    """Refusals by the server over what was due beyond its capacity."""
    windows, capacity = _windows(raw, over)
    found = [window["refused"] / (window["sent"] * (1 - capacity / window["offered_per_s"])) for window in windows]
    refused = median(window["refused"] for window in windows)
    return Figure(median(found), f"{refused:,.0f} refused in a window; {_share_unsent(windows)}")


def _refusal_us(raw: Raw) -> Figure:
    sides = raw.windows(_COST)
    return Figure(sides.median("refusal"), f"an answer {us(sides.median('answer'))}")


_BEYOND_SUBJECT = (
    f"GBDT, {OPEN_CONNECTIONS:,} connections, callers wait {CONNECTION_WAIT_MS} ms for a free one, deadline {DEADLINE_MS} ms"
)
_BEYOND_SAMPLE = f"{OPEN_REPEATS} windows of {CURVE_WINDOW_S:g} s a side, in turn with closed loops"
_BEYOND_WAS = "GBDT, 256 connections, callers wait 5 ms for a free one"
_BEYOND_CHANGES = (
    Change(
        "subject",
        _BEYOND_WAS,
        "256 requests take a quarter of the deadline, so the queue stood in the generator and the server refused nothing.",
    ),
    Change("sample", "3 windows of 4 s", "Capacity is measured in turn with the windows, so that drift affects both."),
)
CLAIMS = (
    Claim(
        "refusal-cost",
        "GBDT: server CPU of a refusal",
        at_most(COST_MAX_US, us),
        _refusal_us,
        subject=f"GBDT, {CONNECTIONS} connections, closed loop; one server refuses all requests, one answers them",
        sample=f"{REPEATS} windows of {WINDOW_S:g} s a side, in turn",
        changes=(Change("bar", "<= 60 %", "Of an answer's cost: it fell short whenever answers got cheaper."),),
    ),
    Claim(
        "gbdt-beyond",
        f"GBDT at {OVER:g} × capacity: goodput of capacity",
        at_least(GOODPUT_MIN, share),
        partial(_goodput, over=OVER),
        subject=_BEYOND_SUBJECT,
        sample=_BEYOND_SAMPLE,
        changes=(
            Change("bar", ">= 80 %", "The generator held the excess back; a server that refuses it pays for each refusal."),
            *_BEYOND_CHANGES,
        ),
    ),
    Claim(
        "gbdt-refused",
        f"GBDT at {OVER:g} × capacity: refused by the server, of the excess",
        at_least(REFUSED_OF_EXCESS_MIN, share),
        partial(_refused_of_excess, over=OVER),
        subject=_BEYOND_SUBJECT,
        sample=_BEYOND_SAMPLE,
    ),
    Claim(
        "gbdt-twice",
        f"GBDT at {TWICE:g} × capacity, beside the slow model: goodput of capacity",
        at_least(GOODPUT_TWICE_MIN, share),
        partial(_goodput, over=TWICE),
        subject=_BEYOND_SUBJECT,
        sample=_BEYOND_SAMPLE,
    ),
)
