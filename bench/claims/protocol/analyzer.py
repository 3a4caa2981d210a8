"""Topic: perf_analyzer completes over HTTP, gRPC and shared memory, with the server's statistics in its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.claims.bars import none
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.tools import perf_analyzer, perf_figures
from bench.parts.here import NotHereError
from flyball.bench.table import latency
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.claims.tails.stand import Stand

WINDOW_S = 2.0
TRIALS = 10  # perf_analyzer's own default
AGREE = 30  # percent between three windows' p99: 10, its default, is less than what a shared host does by itself
WAYS = {
    "HTTP": ["-i", "http"],
    "gRPC": ["-i", "grpc"],
    "HTTP and shared memory": ["-i", "http", "--shared-memory", "system"],
    "gRPC and shared memory": ["-i", "grpc", "--shared-memory", "system"],
}
SERVER_SIDE = ("Server Queue", "Server Compute Input", "Server Compute Infer", "Server Compute Output")


def measure(stand: Stand) -> None:
    """One run for each way; a run that does not end well takes its own line only."""
    fraud, seconds = stand.fraud, stand.seconds(WINDOW_S)
    try:
        perf_analyzer()
    except NotHereError as error:
        stand.not_measured(str(error))
        return
    asked = ["--percentile", 99, "--measurement-interval", round(seconds * 1000)]
    asked += ["--max-trials", TRIALS, "--stability-percentage", AGREE]
    with stand.serve(fraud, more=["--allow-shared-memory"]) as server:
        for way, words in WAYS.items():
            most_s = seconds * TRIALS * 2 + 60
            try:
                figures = perf_figures(server.url, fraud.name, *words, *asked, seconds=most_s, cpus=stand.generator_cpus)
            except FlyballError as error:
                figures = {"error": str(error)[:300]}
            stand.keep(way, figures)


def _figure(way: str) -> Callable[[Raw], Figure]:
    def figure(raw: Raw) -> Figure:
        found = raw[way]
        if "error" in found:
            return Figure(len(SERVER_SIDE), fault=found["error"])
        parts = {name: float(found[name]) if found.get(name) else None for name in SERVER_SIDE}
        told = ", ".join(f"{name.removeprefix('Server ').lower()} {_shown(value)}" for name, value in parts.items())
        rate, p99 = float(found["Inferences/Second"]), latency(float(found["p99 latency"]))
        empty = "" if sum(value or 0 for value in parts.values()) > 0 else "all of them are zero"
        return Figure(list(parts.values()).count(None), f"{rate:,.0f}/s, p99 {p99}; {told}", empty)

    return figure


def _shown(value: float | None) -> str:
    return "missing" if value is None else latency(value)


TOPIC = Topic(
    "analyzer",
    measure,
    subject="GBDT on flyballd, one core; perf_analyzer --percentile 99 on the others",
    sample=f"windows of {WINDOW_S:g} s until three agree within {AGREE} %, at most {TRIALS}",
    claims=tuple(
        Claim(
            way.lower().replace(" ", "-"),
            f"perf_analyzer over {way} ends with its table: server-side numbers that are missing",
            none(),
            _figure(way),
        )
        for way in WAYS
    ),
)
