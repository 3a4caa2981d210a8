"""Topic: requests per second against FastAPI on one core, and the mean batch behind them."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from bench.claims.bars import at_least, times
from bench.claims.claim import Change, Claim, Figure, Raw, Topic
from bench.claims.ratios import GBDT_OVER_FASTAPI_MIN
from bench.claims.skeleton import subjects
from bench.claims.skeleton.subjects import CONNECTIONS, REPEATS, WINDOW_S
from bench.claims.subjects import flyballd
from bench.claims.tails.rivals import FASTAPI, FASTAPI_SHORT, missing, over_rivals, prepare
from flyball.bench.stages import mean_batch_rows, metrics

if TYPE_CHECKING:
    from bench.claims.subjects import Subject
    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process

OURS = "flyballd"
RATES, BATCH, RIVALS = "throughput_per_s", "mean_batch_rows", "rivals"


def measure(stand: Stand) -> None:
    """Windows of flyballd and of FastAPI's fastest style in turn."""
    gbdt, reason = subjects.gbdt(stand), missing(FASTAPI)
    if reason:
        stand.not_measured(reason, "over-fastapi")
    rivals = {} if reason else {FASTAPI: prepare(stand, FASTAPI, gbdt)}
    stand.keep(RIVALS, {name: rival.told for name, rival in rivals.items()})
    with ExitStack() as stack:
        ours = stack.enter_context(flyballd(gbdt, stand.folder, cpus=stand.server_cpus))
        started = {name: stack.enter_context(rival.start(stand.server_cpus)) for name, rival in rivals.items()}
        servers = {OURS: ours, **started}
        before = metrics(ours.url)
        windows = stand.in_turn({name: partial(_rate, gbdt, server) for name, server in servers.items()}, REPEATS)
        batch = mean_batch_rows(before, metrics(ours.url), gbdt.name)
    stand.keep(RATES, windows)
    stand.keep(BATCH, batch or 0.0)


def _rate(subject: Subject, server: Process) -> float:
    return subject.load(server, CONNECTIONS).rate_per_s


def _batch(raw: Raw) -> Figure:
    return Figure(raw[BATCH])


_CHANGES = (
    Change(
        "subject",
        "GBDT of 300 trees, JSON, 16 connections, closed loop; FastAPI + ONNX Runtime with one worker beside it",
        "FastAPI read and wrote JSON by the standard library, and flyballd had half of the machine's cores.",
    ),
)
TOPIC = Topic(
    "throughput",
    measure,
    subject="GBDT of 300 trees, JSON, 16 connections, closed loop, one core; FastAPI + ONNX Runtime with orjson or msgspec",
    sample=f"{REPEATS} windows of {WINDOW_S:g} s a side, in turn",
    claims=(
        Claim(
            "over-fastapi",
            "requests a second over FastAPI's, in the fastest of four styles",
            at_least(GBDT_OVER_FASTAPI_MIN, times),
            over_rivals(RATES, OURS, (FASTAPI,), RIVALS),
            shortfall=FASTAPI_SHORT,
            changes=(
                Change("bar", ">= 10 times", "`claim-tails` measures the same ratio: both have its bar."),
                *_CHANGES,
            ),
        ),
        Claim("mean-batch", "rows in a batch, mean, under the same load", at_least(4), _batch, changes=_CHANGES),
    ),
)
