"""Measures the floor: ONNX Runtime alone in a loop, without a network."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.bench.payloads import one_thread_session
from flyball.bench.record import Floor
from flyball.rows.tensors import decode_data

if TYPE_CHECKING:
    from pathlib import Path


def measure_bare(path: Path, payloads: bytes, duration_s: float) -> Floor:
    """Run the payloads' rows one at a time; the first tenth of the duration warms up and is not counted."""
    session = one_thread_session(path)
    feeds = [_feed(json.loads(line)) for line in payloads.splitlines()[:1000]]
    times_ns: list[int] = []
    begun = time.perf_counter()
    warm_until = begun + duration_s / 10
    end = begun + duration_s
    index = 0
    while (now := time.perf_counter()) < end or not times_ns:  # one run may exceed the duration
        started = time.perf_counter_ns()
        session.run(None, feeds[index])
        took = time.perf_counter_ns() - started
        if now >= warm_until:
            times_ns.append(took)
        index = (index + 1) % len(feeds)
    p50, p99 = np.percentile(times_ns, [50, 99]) / 1000
    return Floor(rate_per_s=1e9 * len(times_ns) / sum(times_ns), p50_us=float(p50), p99_us=float(p99))


def _feed(document: dict[str, Any]) -> dict[str, Any]:
    return {
        tensor["name"]: decode_data(tensor["name"], tensor["datatype"], tuple(tensor["shape"]), tensor["data"])
        for tensor in document["inputs"]
    }
