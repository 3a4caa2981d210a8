"""Topic: requests per second against FastAPI with one worker, and the mean batch behind them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.claims.bars import at_least, times
from bench.claims.claim import Change, Claim, Figure, Raw, Topic
from bench.claims.figures import over_best
from bench.claims.ratios import GBDT_OVER_FASTAPI_MIN
from bench.claims.skeleton import subjects
from bench.claims.skeleton.subjects import CONNECTIONS, REPEATS, WINDOW_S
from bench.claims.subjects import fastapi, flyballd
from flyball.bench.stages import mean_batch_rows, metrics

if TYPE_CHECKING:
    from bench.claims.subjects import Subject
    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process

OURS, PEERS = "flyballd", {"FastAPI def": "def", "FastAPI async def": "async"}
RATES, BATCH = "throughput_per_s", "mean_batch_rows"


def measure(stand: Stand) -> None:
    """Windows of flyballd and of FastAPI's two styles in turn."""
    gbdt = subjects.gbdt(stand)
    with flyballd(gbdt, stand.folder) as ours, fastapi(gbdt, "def") as threads, fastapi(gbdt, "async") as loop:
        servers = {OURS: ours, "FastAPI def": threads, "FastAPI async def": loop}
        before = metrics(ours.url)
        windows = stand.in_turn({name: partial(_rate, gbdt, server) for name, server in servers.items()}, REPEATS)
        batch = mean_batch_rows(before, metrics(ours.url), gbdt.name)
    stand.keep(RATES, windows)
    stand.keep(BATCH, batch or 0.0)


def _rate(subject: Subject, server: Process) -> float:
    return subject.load(server, CONNECTIONS).rate_per_s


def _batch(raw: Raw) -> Figure:
    return Figure(raw[BATCH])


TOPIC = Topic(
    "throughput",
    measure,
    subject="GBDT of 300 trees, JSON, 16 connections, closed loop; FastAPI + ONNX Runtime with one worker beside it",
    sample=f"{REPEATS} windows of {WINDOW_S:g} s a side, in turn",
    claims=(
        Claim(
            "over-fastapi",
            "requests a second over FastAPI's, the better of `def` and `async def`",
            at_least(GBDT_OVER_FASTAPI_MIN, times),
            over_best(RATES, OURS, tuple(PEERS)),
            shortfall="Of the GBDT's 21 µs a request, 9 are its trees and 8 the kernel's sockets.",
            changes=(Change("bar", ">= 10 times", "`claim-tails` measures the same ratio: both have its bar."),),
        ),
        Claim("mean-batch", "rows in a batch, mean, under the same load", at_least(4), _batch),
    ),
)
