"""Topic: gRPC with raw tensors, the GBDT, closed loop, against Triton's gRPC and MLServer's."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from bench.claims.bars import at_least, times
from bench.claims.claim import Change, Claim, Topic
from bench.claims.tails.rivals import MLSERVER, TRITON, missing, over_rivals, prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.claims.subjects import Subject
    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process

CONNECTIONS, WINDOW_S, REPEATS = 16, 3.0, 5
OURS, RATES, RIVALS = "flyballd", "grpc, per_s", "rivals"
LINES = {TRITON: "over-triton", MLSERVER: "over-mlserver"}
OVER_TRITON, OVER_MLSERVER = 2.0, 15.0


def measure(stand: Stand) -> None:
    """Ours and the rivals' in turn, each on the server's core."""
    fraud = stand.fraud
    rivals = {}
    for name, claim in LINES.items():
        if reason := missing(name):
            stand.not_measured(reason, claim)
        else:
            rivals[name] = prepare(stand, name, fraud, grpc=True)
    stand.keep(RIVALS, {name: rival.told for name, rival in rivals.items()})
    with ExitStack() as stack:
        sides: dict[str, Callable[[], float]] = {OURS: partial(_rate, stand, fraud, stack.enter_context(stand.serve(fraud)))}
        for name, rival in rivals.items():
            server = stack.enter_context(rival.start(stand.server_cpus))
            sides[name] = partial(_rate, stand, rival.subject, server)
        stand.keep(RATES, stand.in_turn(sides, REPEATS))


def _rate(stand: Stand, subject: Subject, server: Process) -> float:
    seconds = stand.seconds(WINDOW_S)
    return subject.load(server, CONNECTIONS, protocol="grpc", duration_s=seconds).rate_per_s


_SUBJECT = f"GBDT of 300 trees, gRPC with raw tensors, {CONNECTIONS} connections, closed loop, one core for each server"
TOPIC = Topic(
    "rates",
    measure,
    subject=_SUBJECT,
    sample=f"{REPEATS} windows of {WINDOW_S:g} s a side, in turn",
    claims=(
        Claim(
            "over-triton",
            "requests a second over Triton's gRPC with its ONNX Runtime backend",
            at_least(OVER_TRITON, times),
            over_rivals(RATES, OURS, (TRITON,), RIVALS),
            subject=f"{_SUBJECT}; Triton in the fastest of seven settings of batches, delay and instances",
            changes=(Change("subject", _SUBJECT, "Triton was tried with and without batching, nothing else."),),
        ),
        Claim(
            "over-mlserver",
            "requests a second over MLServer's gRPC",
            at_least(OVER_MLSERVER, times),
            over_rivals(RATES, OURS, (MLSERVER,), RIVALS),
        ),
    ),
)
