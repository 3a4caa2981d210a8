"""The profiler's overhead per operator call: its own bookkeeping counts as operator time.

Measured on a generated chain of trivial operators, run with and without the profiler. Must not know the explained model.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

import numpy as np

from flyball.models.profile.profile import read_profile
from flyball.native.model_runs import Model

RESOLUTION_US = 0.5  # the profile counts whole µs: a shorter time may be 0
_CHAIN = 64
_RUNS = 200


def call_cost_us() -> float:
    """An estimate for this machine, now."""
    with TemporaryDirectory(prefix="flyball-profile-") as folder:
        path = Path(folder, "chain.onnx")
        path.write_bytes(_chain())
        inputs = {"x0": np.ones(1, np.float32)}
        undisturbed = Model(path, graph="off").measure(inputs, runs=_RUNS, warm_runs=_RUNS)
        model = Model(path, graph="off", profile=Path(folder, "chain"))
        model.measure(inputs, runs=_RUNS, warm_runs=_RUNS)
        runs = read_profile(model.end_profile())[-_RUNS:]
    profiled_us = typical([sum(call.took_us for call in run.calls) for run in runs])
    return max(0.0, (profiled_us - undisturbed.p50_us) / _CHAIN)


def typical(times: Sequence[float]) -> float:
    """The mean of the middle half: robust like the median, and finer than the profile's µs."""
    ordered = sorted(times)
    quarter = len(ordered) // 4
    return float(mean(ordered[quarter : len(ordered) - quarter]))


def _chain() -> bytes:
    """A chain of negations in raw protobuf bytes: the onnx package may not be installed."""
    names = [f"x{index}".encode() for index in range(_CHAIN + 1)]
    nodes = [_field(1, given) + _field(2, profiled_us) + _field(4, b"Neg") for given, profiled_us in pairwise(names)]
    one_float = _field(2, _field(1, b"\x08\x01" + _field(2, _field(1, b"\x08\x01"))))
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, b"chain")
    graph += _field(11, _field(1, names[0]) + one_float) + _field(12, _field(1, names[-1]) + one_float)
    return b"\x08\x08" + _field(7, graph) + _field(8, b"\x10\x11")  # IR version 8, opset 17


def _field(number: int, content: bytes) -> bytes:
    """A length-delimited field: tag, varint length, content."""
    length, size = b"", len(content)
    while size >= 0x80:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content
