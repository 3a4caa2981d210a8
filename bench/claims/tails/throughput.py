"""Topic: requests per second of a closed loop, against flyball without batching, the bare run, and rival servers."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bench.claims.bars import at_least, per_s, times
from bench.claims.claim import Change, Claim, Figure, Raw, Topic
from bench.claims.figures import over_best
from bench.claims.ratios import GBDT_OVER_FASTAPI_MIN
from bench.claims.tails.rivals import ASGI, FASTAPI, FASTAPI_SHORT, TREES, TRITON, missing, over_rivals, prepare
from flyball.documents.snapshot import Limits, Terms

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.claims.subjects import Subject
    from bench.claims.tails.rivals import Rival
    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process

CONNECTIONS, WINDOW_S, REPEATS, SHARED_CORES = 16, 3.0, 5, 2
OVER_UNBATCHED_MIN = 3.0
UNBATCHED_OF_BARE_MIN = 0.85
OURS, UNBATCHED, BARE = "flyballd", "flyballd, batching off", "one over the bare run"
_SUBJECT = f"MLP of 12 MB and GBDT of 300 trees, JSON, {CONNECTIONS} connections, closed loop, one core for each server"
_UNBATCHED = Terms(limits=Limits(batch_rows_max=1))


@dataclass(frozen=True, slots=True)
class Bars:
    """What one model must reach: times the rivals' rates, and a rate on two cores that the generator shares."""

    title: str
    over_fastapi: float
    over_asgi: float
    over_triton: float
    shared_per_s: float


BARS = {
    "mlp": Bars("MLP 12 MB", 8.0, 1.5, 1.3, 11_000),
    "fraud": Bars("GBDT JSON", GBDT_OVER_FASTAPI_MIN, 3.5, 2.0, 45_000),
}
OVER_TREES_MIN = 3.0
_LINES = {FASTAPI: "fastapi", ASGI: "asgi", TRITON: "triton"}


def measure(stand: Stand) -> None:
    """Each model with the generator on other cores, then on two cores that all share."""
    for subject in (stand.mlp, stand.fraud):
        rivals = _rivals(stand, subject)
        _apart(stand, subject, rivals)
        _shared(stand, subject, rivals)


def _rivals(stand: Stand, subject: Subject) -> dict[str, Rival]:
    """The rivals of a model that can be measured here, each in its fastest setting."""
    trees = TREES if subject.name == stand.fraud.name else ()
    found = {}
    for name in (FASTAPI, ASGI, TRITON, *trees):
        if reason := missing(name):
            stand.not_measured(reason, _claim(subject.name, name))
        else:
            found[name] = prepare(stand, name, subject)
    stand.keep(_rivals_key(subject.name), {name: rival.told for name, rival in found.items()})
    return found


def _apart(stand: Stand, subject: Subject, rivals: dict[str, Rival]) -> None:
    with ExitStack() as stack:
        sides: dict[str, Callable[[], float]] = {
            OURS: partial(_rate, stand, subject, stack.enter_context(stand.serve(subject)))
        }
        if subject.name == stand.mlp.name:
            unbatched = stack.enter_context(stand.serve(subject, terms=_UNBATCHED))
            sides[UNBATCHED] = partial(_rate, stand, subject, unbatched)
            sides[BARE] = lambda: float(stand.bare(subject, WINDOW_S).rate_per_s)
        for name, rival in rivals.items():
            server = stack.enter_context(rival.start(stand.server_cpus))
            sides[name] = partial(_rate, stand, rival.subject, server)
        windows = stand.in_turn(sides, REPEATS)
    stand.keep(_apart_key(subject.name), windows)


def _shared(stand: Stand, subject: Subject, rivals: dict[str, Rival]) -> None:
    """Two lanes on two cores with the generator beside them, pinned to neither."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) != SHARED_CORES and not stand.quick:
        stand.not_measured(f"the bar is for machines with two cores, this one has {len(cores)}", f"{subject.name}-shared")
        return
    with ExitStack() as stack:
        ours = stack.enter_context(stand.serve(subject, lanes=2, cpus=cores[:2]))
        servers = {OURS: ours}
        if FASTAPI in rivals:
            servers[FASTAPI] = stack.enter_context(rivals[FASTAPI].start(cores[:2], workers=2))
        load = partial(_rate, stand, subject, cpus=cores[:2])
        windows = stand.in_turn({name: partial(load, server) for name, server in servers.items()}, REPEATS)
    stand.keep(_shared_key(subject.name), windows)


def _rate(stand: Stand, subject: Subject, server: Process, **changes: object) -> float:
    return subject.load(server, CONNECTIONS, duration_s=stand.seconds(WINDOW_S), **changes).rate_per_s


def _apart_key(name: str) -> str:
    return f"{name}, apart, per_s"


def _rivals_key(name: str) -> str:
    return f"{name}, rivals"


def _claim(name: str, rival: str) -> str:
    return f"{name}-over-{_LINES.get(rival, 'trees')}"


def _shared_key(name: str) -> str:
    return f"{name}, shared, per_s"


def _shared_rate(name: str) -> Callable[[Raw], Figure]:
    def figure(raw: Raw) -> Figure:
        sides = raw.windows(_shared_key(name))
        beside = f"FastAPI with two workers {per_s(sides.median(FASTAPI))}" if FASTAPI in sides.found else ""
        return Figure(sides.median(OURS), beside)

    return figure


def _beside_rivals(name: str, shortfall: str) -> tuple[Claim, ...]:
    bars, apart, rivals = BARS[name], _apart_key(name), _rivals_key(name)
    return (
        Claim(
            _claim(name, FASTAPI),
            f"{bars.title}: requests a second over FastAPI's, in the fastest of four styles",
            at_least(bars.over_fastapi, times),
            over_rivals(apart, OURS, (FASTAPI,), rivals),
            subject=f"{_SUBJECT}; FastAPI with orjson or msgspec, `def` or `async def`",
            shortfall=shortfall,
            changes=(Change("subject", _SUBJECT, "FastAPI read and wrote JSON by the standard library."),),
        ),
        Claim(
            _claim(name, ASGI),
            f"{bars.title}: requests a second over a bare ASGI application's",
            at_least(bars.over_asgi, times),
            over_rivals(apart, OURS, (ASGI,), rivals),
            subject=f"{_SUBJECT}; uvicorn, uvloop, httptools and orjson without a framework, with and without batches",
        ),
        Claim(
            _claim(name, TRITON),
            f"{bars.title}: requests a second over Triton's with ONNX Runtime",
            at_least(bars.over_triton, times),
            over_rivals(apart, OURS, (TRITON,), rivals),
            subject=f"{_SUBJECT}; Triton in the fastest of seven settings of batches, delay and instances",
            changes=(Change("subject", _SUBJECT, "Triton was tried with and without batching, nothing else."),),
        ),
        Claim(
            f"{name}-shared",
            f"{bars.title}: two lanes on two cores that the generator shares",
            at_least(bars.shared_per_s, per_s),
            _shared_rate(name),
        ),
    )


_SHORT_MLP = (
    "The bar was set when FastAPI read and wrote JSON by the standard library. A row of the MLP costs 64 µs in a batch and "
    "184 µs alone, so FastAPI's rate is near that of the bare run."
)
_TREES_SUBJECT = f"{_SUBJECT}; trees compiled by lleaves (LLVM) and by TL2cgen (gcc) behind the bare ASGI application"
_OVER_TREES = Claim(
    _claim("fraud", TREES[0]),
    "GBDT JSON: requests a second over compiled trees' behind a bare ASGI application",
    at_least(OVER_TREES_MIN, times),
    over_rivals(_apart_key("fraud"), OURS, TREES, _rivals_key("fraud")),
    subject=_TREES_SUBJECT,
)
TOPIC = Topic(
    "throughput",
    measure,
    subject=_SUBJECT,
    sample=f"{REPEATS} windows of {WINDOW_S:g} s a side, in turn",
    claims=(
        Claim(
            "mlp-over-unbatched",
            "MLP 12 MB: requests a second over batching off",
            at_least(OVER_UNBATCHED_MIN, times),
            over_best(_apart_key("mlp"), OURS, (UNBATCHED,)),
            shortfall="Three times a server that reaches 99 % of the bare rate would leave 5 µs a row for everything else.",
        ),
        Claim(
            "mlp-unbatched",
            f"MLP 12 MB, batching off: of {BARE}",
            at_least(UNBATCHED_OF_BARE_MIN, times),
            over_best(_apart_key("mlp"), UNBATCHED, (BARE,)),
        ),
        *_beside_rivals("mlp", _SHORT_MLP),
        *_beside_rivals("fraud", FASTAPI_SHORT),
        _OVER_TREES,
    ),
)
