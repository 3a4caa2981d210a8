"""Topic: gRPC with raw tensors, the GBDT, closed loop, against Triton's gRPC and MLServer's."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from bench.claims.bars import at_least, times
from bench.claims.claim import Claim, Topic
from bench.claims.figures import over_best
from bench.claims.tails.rivals import MLSERVER, TRITON, asked, mlserver_missing, rival, triton_missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.claims.subjects import Subject
    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process

CONNECTIONS, WINDOW_S, REPEATS = 16, 3.0, 5
OURS, RATES = "flyballd", "grpc, per_s"
OVER_TRITON, OVER_MLSERVER = 2.0, 15.0


def measure(stand: Stand) -> None:
    """Ours and the rivals' in turn, each on the server's core."""
    fraud = stand.fraud
    missing = {"over-triton": triton_missing(), "over-mlserver": mlserver_missing()}
    for claim, reason in missing.items():
        if reason:
            stand.not_measured(reason, claim)
    rivals = [*(() if missing["over-triton"] else TRITON), *(() if missing["over-mlserver"] else (MLSERVER,))]
    with ExitStack() as stack:
        sides: dict[str, Callable[[], float]] = {OURS: partial(_rate, stand, fraud, stack.enter_context(stand.serve(fraud)))}
        for name in rivals:
            server = stack.enter_context(rival(name, fraud, stand.server_cpus, grpc=True))
            sides[name] = partial(_rate, stand, asked(name, fraud), server)
        stand.keep(RATES, stand.in_turn(sides, REPEATS))


def _rate(stand: Stand, subject: Subject, server: Process) -> float:
    seconds = stand.seconds(WINDOW_S)
    return subject.load(server, CONNECTIONS, protocol="grpc", duration_s=seconds).rate_per_s


TOPIC = Topic(
    "rates",
    measure,
    subject=f"GBDT of 300 trees, gRPC with raw tensors, {CONNECTIONS} connections, closed loop, one core for each server",
    sample=f"{REPEATS} windows of {WINDOW_S:g} s a side, in turn",
    claims=(
        Claim(
            "over-triton",
            "requests a second over Triton's gRPC with its ONNX Runtime backend",
            at_least(OVER_TRITON, times),
            over_best(RATES, OURS, tuple(TRITON)),
        ),
        Claim(
            "over-mlserver",
            "requests a second over MLServer's gRPC",
            at_least(OVER_MLSERVER, times),
            over_best(RATES, OURS, (MLSERVER,)),
        ),
    ),
)
