"""Topic: requests per second of a closed loop, against flyball without batching, the bare run, FastAPI and Triton."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bench.claims.bars import at_least, per_s, times
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.figures import over_best
from bench.claims.ratios import GBDT_OVER_FASTAPI_MIN
from bench.claims.tails.rivals import FASTAPI, TRITON, asked, rival, triton_missing
from flyball.documents.snapshot import Limits, Terms

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.claims.subjects import Subject
    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process

CONNECTIONS, WINDOW_S, REPEATS, SHARED_CORES = 16, 3.0, 5, 2
OVER_UNBATCHED_MIN = 3.0
UNBATCHED_OF_BARE_MIN = 0.85
OURS, UNBATCHED, BARE = "flyballd", "flyballd, batching off", "one over the bare run"
_UNBATCHED = Terms(limits=Limits(batch_rows_max=1))


@dataclass(frozen=True, slots=True)
class Bars:
    """What one model must reach: times the rivals' rates, and a rate on two cores that the generator shares."""

    title: str
    over_fastapi: float
    over_triton: float
    shared_per_s: float


BARS = {"mlp": Bars("MLP 12 MB", 8.0, 1.3, 11_000), "fraud": Bars("GBDT JSON", GBDT_OVER_FASTAPI_MIN, 2.0, 45_000)}


def measure(stand: Stand) -> None:
    """Each model with the generator on other cores, then on two cores that all share."""
    for subject in (stand.mlp, stand.fraud):
        _apart(stand, subject)
    for subject in (stand.mlp, stand.fraud):
        _shared(stand, subject)


def _apart(stand: Stand, subject: Subject) -> None:
    missing = triton_missing()
    rivals = [*FASTAPI, *(() if missing else TRITON)]
    with ExitStack() as stack:
        sides: dict[str, Callable[[], float]] = {
            OURS: partial(_rate, stand, subject, stack.enter_context(stand.serve(subject)))
        }
        if subject.name == stand.mlp.name:
            unbatched = stack.enter_context(stand.serve(subject, terms=_UNBATCHED))
            sides[UNBATCHED] = partial(_rate, stand, subject, unbatched)
            sides[BARE] = lambda: float(stand.bare(subject, WINDOW_S).rate_per_s)
        for name in rivals:
            server = stack.enter_context(rival(name, subject, stand.server_cpus))
            sides[name] = partial(_rate, stand, asked(name, subject), server)
        windows = stand.in_turn(sides, REPEATS)
    stand.keep(_apart_key(subject.name), windows)
    if missing:
        stand.not_measured(missing, f"{subject.name}-over-triton")


def _shared(stand: Stand, subject: Subject) -> None:
    """Two lanes on two cores with the generator beside them, pinned to neither."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) != SHARED_CORES and not stand.quick:
        stand.not_measured(f"the bar is for machines with two cores, this one has {len(cores)}", f"{subject.name}-shared")
        return
    with ExitStack() as stack:
        ours = stack.enter_context(stand.serve(subject, lanes=2, cpus=cores[:2]))
        servers = {OURS: ours, **{name: stack.enter_context(rival(name, subject, cores[:2])) for name in FASTAPI}}
        load = partial(_rate, stand, subject, cpus=cores[:2])
        windows = stand.in_turn({name: partial(load, server) for name, server in servers.items()}, REPEATS)
    stand.keep(_shared_key(subject.name), windows)


def _rate(stand: Stand, subject: Subject, server: Process, **changes: object) -> float:
    return subject.load(server, CONNECTIONS, duration_s=stand.seconds(WINDOW_S), **changes).rate_per_s


def _apart_key(name: str) -> str:
    return f"{name}, apart, per_s"


def _shared_key(name: str) -> str:
    return f"{name}, shared, per_s"


def _shared_rate(name: str) -> Callable[[Raw], Figure]:
    def figure(raw: Raw) -> Figure:
        sides = raw.windows(_shared_key(name))
        return Figure(sides.median(OURS), f"FastAPI {per_s(max(sides.median(rival) for rival in FASTAPI))}")

    return figure


def _beside_rivals(name: str, shortfall: str) -> tuple[Claim, ...]:
    bars, apart = BARS[name], _apart_key(name)
    return (
        Claim(
            f"{name}-over-fastapi",
            f"{bars.title}: requests a second over the better FastAPI's",
            at_least(bars.over_fastapi, times),
            over_best(apart, OURS, tuple(FASTAPI)),
            shortfall=shortfall,
        ),
        Claim(
            f"{name}-over-triton",
            f"{bars.title}: requests a second over Triton's with ONNX Runtime",
            at_least(bars.over_triton, times),
            over_best(apart, OURS, tuple(TRITON)),
        ),
        Claim(
            f"{name}-shared",
            f"{bars.title}: two lanes on two cores that the generator shares",
            at_least(bars.shared_per_s, per_s),
            _shared_rate(name),
        ),
    )


_SHORT_MLP = "A row of the MLP costs 64 µs in a batch and 184 µs alone, so FastAPI's rate is near that of the bare run."
_SHORT_GBDT = "Of the GBDT's 21 µs a request, 9 are its trees and 8 the kernel's sockets."
TOPIC = Topic(
    "throughput",
    measure,
    subject=f"MLP of 12 MB and GBDT of 300 trees, JSON, {CONNECTIONS} connections, closed loop, one core for each server",
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
        *_beside_rivals("fraud", _SHORT_GBDT),
    ),
)
