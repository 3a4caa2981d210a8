"""Topic: perf_analyzer completes over HTTP, gRPC and shared memory, with the server's statistics in its table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.claims.tools import perf_analyzer, perf_figures
from bench.parts.here import NotHereError
from flyball.bench.table import latency
from flyball.errors import FlyballError

if TYPE_CHECKING:
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
BAR = "every server-side number filled in"


def measure(stand: Stand) -> None:
    """One run for each way; a run that does not end well takes its own line only."""
    fraud, seconds = stand.fraud, stand.seconds(WINDOW_S)
    try:
        perf_analyzer()
    except NotHereError as error:
        stand.report.not_measured("perf_analyzer --percentile 99 runs to its end", BAR, str(error))
        return
    asked = ["--percentile", 99, "--measurement-interval", round(seconds * 1000)]
    asked += ["--max-trials", TRIALS, "--stability-percentage", AGREE]
    with stand.serve(fraud, more=["--allow-shared-memory"]) as server:
        for way, words in WAYS.items():
            claim, most_s = f"perf_analyzer --percentile 99 over {way} runs to its end", seconds * TRIALS * 2 + 60
            try:
                figures = perf_figures(server.url, fraud.name, *words, *asked, seconds=most_s, cpus=stand.generator_cpus)
            except FlyballError as error:
                stand.report.record(claim, str(error)[:300], BAR, holds=False)
                continue
            stand.keep(way, figures)
            parts = {name: float(figures[name]) if figures.get(name) else None for name in SERVER_SIDE}
            told = ", ".join(f"{name.removeprefix('Server ').lower()} {_shown(value)}" for name, value in parts.items())
            rate, p99 = float(figures["Inferences/Second"]), latency(float(figures["p99 latency"]))
            filled = None not in parts.values() and sum(value or 0 for value in parts.values()) > 0
            stand.report.record(claim, f"{rate:,.0f}/s, p99 {p99}; {told}", BAR, holds=filled)


def _shown(value: float | None) -> str:
    return "missing" if value is None else latency(value)
