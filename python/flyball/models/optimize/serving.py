"""Serves a model in a separate process and sends it the given rows, at a steady rate or in bursts.

Open loop: a slow server does not slow the requests. Must not know which candidate it serves, nor how figures are used.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.bench.payloads import tensor_document
from flyball.bench.process import Process, split_cpus
from flyball.bench.run import first_answer, run_load
from flyball.client import Client
from flyball.native.load_documents import Arrivals, LoadPlan, LoadResult, Warmup

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from flyball.models.optimize.rows import Rows

_PAYLOADS = 256
_BINARY_BYTES = 4096  # larger rows are sent as binary tensors, as real clients do
_CONNECTIONS = 16


@dataclass(frozen=True, slots=True)
class Served:
    """A running server and its requests."""

    url: str
    name: str
    payloads: bytes
    binary: bool
    generator: list[int]

    def answers(self, inputs: Mapping[str, Any], output: str) -> Any:
        """Its answers to these rows, one request per row."""
        rows = len(next(iter(inputs.values())))
        with Client(self.url) as client:
            each = [{name: array[index : index + 1] for name, array in inputs.items()} for index in range(rows)]
            return np.concatenate([client.infer(self.name, row, outputs=[output])[output] for row in each])

    def load(self, arrivals: Arrivals, seconds: float) -> LoadResult:
        """Run one load window."""
        plan = LoadPlan(
            url=self.url,
            model=self.name,
            protocol="http-binary" if self.binary else "http",
            connections=_CONNECTIONS,
            arrivals=arrivals,
            duration_s=seconds,
            warmup=Warmup(least_s=0.3, most_s=2.0),
            cpus=self.generator,
        )
        return run_load(plan, self.payloads)


@contextmanager
def served(name: str, model: Path, rows: Rows, batch_rows_max: int | None = None) -> Iterator[Served]:
    """Start a server, wait for its first answer, and stop it. Half of the cores serve, the others send load."""
    server_cpus, generator = split_cpus()
    payloads = payloads_of(rows)
    command = [sys.executable, "-m", "flyball", "serve", f"{name}={model}", "--listen", "127.0.0.1:0"]
    command += [] if batch_rows_max is None else ["--batch-rows-max", str(batch_rows_max)]
    with Process(command, cpus=server_cpus) as process:
        first_answer(process.url, name, payloads.split(b"\n", 1)[0], started=process.started)
        row_bytes = sum(array[:1].nbytes for array in rows.inputs.values())
        yield Served(process.url, name, payloads, row_bytes > _BINARY_BYTES, generator)


def payloads_of(rows: Rows) -> bytes:
    """Requests of one row each, from rows without missing values: JSON cannot encode them."""
    whole = np.ones(rows.count, dtype=bool)
    for array in rows.inputs.values():
        if array.dtype.kind == "f":
            whole &= np.isfinite(array.reshape(rows.count, -1)).all(axis=1)
    indices = np.flatnonzero(whole)[:_PAYLOADS]
    filled = {name: array[indices] for name, array in rows.inputs.items()}
    if not len(indices):
        filled = {name: np.nan_to_num(array[:_PAYLOADS]) for name, array in rows.inputs.items()}
    count = len(next(iter(filled.values())))
    lines = [json.dumps(_request(filled, index), separators=(",", ":")) for index in range(count)]
    return ("\n".join(lines) + "\n").encode()


def _request(filled: dict[str, Any], index: int) -> dict[str, Any]:
    tensors = [tensor_document(name, array[index : index + 1]) for name, array in filled.items()]
    return {"inputs": tensors, "outputs": None}


def figures_of(result: LoadResult) -> dict[str, Any]:
    """The recorded figures of a window."""
    kept = result.latency_us.model_dump()
    counts = {name: getattr(result, name) for name in ("sent", "answered", "refused", "failed", "timed_out")}
    return {**kept, **counts, "rate_per_s": result.rate_per_s, "bottleneck": result.bottleneck}


def steady(rate_per_s: float) -> Arrivals:
    """Poisson arrivals at a rate."""
    return Arrivals(kind="poisson", rate_per_s=rate_per_s, seed=9)


def bursts(rate_per_s: float) -> Arrivals:
    """A fifth of each second at three times the rate, the rest at half the rate."""
    return Arrivals(kind="burst", rate_per_s=rate_per_s / 2, burst_per_s=rate_per_s * 3, burst_s=0.2, every_s=1.0)
