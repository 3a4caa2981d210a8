"""Measures the generator's overhead: the same requests against an idle echo on the server's cores."""

from __future__ import annotations

import json
import sys
from typing import Literal

from flyball.bench.process import Process
from flyball.bench.record import Overhead
from flyball.bench.run import run_load
from flyball.native.load_documents import Arrivals, LoadPlan, Warmup

_AT_RATE = 1000.0
_CONNECTIONS = 32
_ROWS = 200
_WARMUP = Warmup(least_s=0.3, most_s=0.3)


def measure_overhead(
    payloads: bytes, server_cpus: list[int] | None, generator_cpus: list[int] | None, seconds: float = 2.0
) -> Overhead:
    """Latency at a low rate, caused by generator and kernel alone, and the maximum rate."""
    rows = unchecked(payloads, _ROWS)
    protocol: Literal["http", "json"] = "json" if rows.startswith(b'{"body"') else "http"
    with start_echo(server_cpus) as echo:
        plan = echo_plan(echo.url, seconds, generator_cpus).model_copy(update={"protocol": protocol})
        slow = run_load(plan.model_copy(update={"arrivals": Arrivals(kind="constant", rate_per_s=_AT_RATE)}), rows)
        full = run_load(plan, rows)
    note = None if server_cpus != generator_cpus else "the echo shares the generator's cores"
    return Overhead(
        p50_us=slow.latency_us.p50,
        p99_us=slow.latency_us.p99,
        at_rate_per_s=_AT_RATE,
        rate_max_per_s=full.rate_per_s,
        note=note,
    )


def start_echo(cpus: list[int] | None, *flags: object) -> Process:
    """Start an echo on these cores; flags configure faults."""
    return Process([sys.executable, "-m", "flyball.bench.echo", *(str(flag) for flag in flags)], cpus=cpus)


def echo_plan(url: str, seconds: float, cpus: list[int] | None) -> LoadPlan:
    """A window against an echo; a closed loop by default."""
    return LoadPlan(url=url, model="echo", path="/", connections=_CONNECTIONS, duration_s=seconds, warmup=_WARMUP, cpus=cpus)


def unchecked(payloads: bytes, count: int | None = None) -> bytes:
    """The first payloads, or all, without expected answers: an echo has none."""
    pool = [json.loads(line) for line in payloads.splitlines()[:count]]
    plain = [{"body": row["body"]} if "body" in row else {"inputs": row["inputs"], "outputs": None} for row in pool]
    return b"\n".join(json.dumps(row).encode() for row in plain)
