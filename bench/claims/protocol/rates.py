"""Topic: gRPC with raw tensors, the GBDT, closed loop, against Triton's gRPC, or MLServer's without Triton."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from bench.claims.report import discarded, median
from bench.claims.tails.rivals import MLSERVER, TRITON, asked, mlserver_missing, rival, triton_missing
from bench.claims.tails.stand import raw
from bench.claims.tails.throughput import Over

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.claims.subjects import Subject
    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process

CONNECTIONS, WINDOW_S, REPEATS = 16, 3.0, 5
OURS = "flyballd"
OVER_TRITON, OVER_MLSERVER = 2.0, 15.0


def measure(stand: Stand) -> None:
    """Ours and the rivals' in turn, each on the server's core."""
    fraud = stand.fraud
    missing = triton_missing()
    if missing:
        claim = Over(f"GBDT, gRPC raw, {CONNECTIONS} connections: over MLServer", OURS, (MLSERVER,), OVER_MLSERVER)
        if absent := mlserver_missing():
            stand.report.not_measured(claim.claim, claim.bar, f"{missing}; {absent}")
            return
    else:
        claim = Over(f"GBDT, gRPC raw, {CONNECTIONS} connections: over Triton", OURS, tuple(TRITON), OVER_TRITON)
    with ExitStack() as stack:
        sides: dict[str, Callable[[], float]] = {OURS: partial(_rate, stand, fraud, stack.enter_context(stand.serve(fraud)))}
        for name in claim.others:
            server = stack.enter_context(rival(name, fraud, stand.server_cpus, grpc=True))
            sides[name] = partial(_rate, stand, asked(name, fraud), server)
        windows = stand.in_turn(sides, REPEATS)
    stand.keep("grpc, per_s", raw(windows))
    doubt = stand.doubt(windows)
    found = {} if doubt else {name: median(values.values) for name, values in windows.items()}
    claim.record(stand, found, doubt or discarded(windows))


def _rate(stand: Stand, subject: Subject, server: Process) -> float:
    seconds = stand.seconds(WINDOW_S)
    return subject.load(server, CONNECTIONS, protocol="grpc", duration_s=seconds).rate_per_s
