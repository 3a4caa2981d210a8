"""The servers and windows of the benchmark's own claims. Must not know what is claimed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.claims.subjects import Subject
from flyball.bench.models.fraud import fraud_rows, make_fraud_gbdt
from flyball.bench.overhead import echo_plan, start_echo, unchecked
from flyball.bench.payloads import make_payloads
from flyball.bench.process import Process, split_cpus
from flyball.bench.run import run_load

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand
    from flyball.native.load_documents import Arrivals, LoadResult

SERVICE_US, SLOWER_US = 300, 360
CONNECTIONS = 16


def gbdt(stand: Stand) -> Subject:
    """300 trees."""
    path = make_fraud_gbdt(stand.folder / "fraud.onnx")
    return Subject("fraud", path, make_payloads(path, 2000, seed=11, rows=lambda count: fraud_rows(count, seed=11)[0]), 2.0)


def rows_of(subject: Subject) -> bytes:
    """Requests for an echo, which has no answers to compare."""
    return unchecked(subject.payloads, 200)


def echo(*flags: object) -> Process:
    """An echo on the server's cores, with a configured fault if requested."""
    return start_echo(split_cpus()[0], *flags)


def load(server: Process, rows: bytes, seconds: float, arrivals: Arrivals, connections: int = 32) -> LoadResult:
    """One window against an echo."""
    plan = echo_plan(server.url, seconds, split_cpus()[1])
    return run_load(plan.model_copy(update={"arrivals": arrivals, "connections": connections}), rows)
