"""Attempts on unbounded memory: tensors that grow with input values, large answers, memory not released."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bench.claims.hardening.attempts import Build, Seen, attempt
from bench.claims.hardening.cage import Cage
from bench.claims.hardening.limited_server import Served, count, save_counted, served

if TYPE_CHECKING:
    from pathlib import Path

_GIB = 1 << 30
_CAGE_BYTES = 2 * _GIB
_RANGE_ELEMENTS = 900_000_000
_BACK_WITHIN_S = 15.0


@attempt("a model whose tensor sizes depend on input values gets the server killed")
def value_dependent_growth(build: Build, folder: Path) -> Seen:
    """A Range of 900,000,000 elements, 7.2 GB, in a cgroup of 2 GiB; without the right to one, a smaller one is measured."""
    model = save_counted(folder / "grows.onnx", summed=True)
    with Cage(_CAGE_BYTES) as cage:
        elements = 150_000_000 if cage.why_not else _RANGE_ELEMENTS
        allowed = _GIB // 2 if cage.why_not else _CAGE_BYTES - (128 << 20)
        with served(build, folder, [model], cage, memory_bytes_max=allowed) as server:
            status, _ = server.infer("grows", count(elements))
            if not server.alive:
                code = server.process.wait()
                return Seen(f"the server was killed by one request (exit {code}), under a limit of 2 GiB", holds=False)
            peak = server.status_mb("VmHWM")
            after, _ = server.infer("grows", count(10))
            text = f"answered {status}, the next request {after}; peak {peak:.0f} MB of {allowed / 1e6:.0f} MB allowed"
            return Seen(text, holds=status == 422 and after == 200 and peak * 1e6 <= allowed)


@attempt("a large answer takes many times its size as JSON")
def json_answer_peak(build: Build, folder: Path) -> Seen:
    """60 MB of FP32; an answer of 1 GB peaked at 11.7 GB. Answers that are refused take next to nothing."""
    model = save_counted(folder / "wide.onnx", "ConstantOfShape")
    with Cage(_CAGE_BYTES) as cage, served(build, folder, [model], cage) as server:
        server.infer("wide", count(10))
        before, elements = server.status_mb("VmHWM"), 15_000_000
        status, _ = server.infer("wide", count(elements))
        times = (server.status_mb("VmHWM") - before) / (elements * 4 / 1e6)
        # As JSON a zero is as long as in memory, 4 bytes: the tensor and its text are twice its size.
        huge, _ = server.infer("wide", count(250_000_000))
        if huge == 0:
            return Seen(f"60 MB of FP32 took {times:.1f} times its size; an answer of 1 GB killed the server", holds=False)
        peak = server.status_mb("VmHWM")
        text = f"60 MB ({status}) took {times:.1f} times its size; 1 GB: {huge}, {peak:.0f} MB at most"
        return Seen(text, holds=status == 200 and times <= 2.5 and huge == 422 and peak <= _CAGE_BYTES / 1e6)


@attempt("memory of a large answer is not given back")
def memory_given_back(build: Build, folder: Path) -> Seen:
    """What is resident before a run of 200 MB and its answer, and within 15 s after it."""
    model = save_counted(folder / "wide.onnx", "ConstantOfShape")
    with Cage(_CAGE_BYTES) as cage, served(build, folder, [model], cage) as server:
        for _ in range(3):
            server.infer("wide", count(1_000_000))
        before = server.status_mb("VmRSS")
        for elements in (15_000_000, 50_000_000, 15_000_000):
            server.infer("wide", count(elements))
        after = _settled(server, before * 1.1)
        return Seen(f"{before:.0f} MB before, {after:.0f} MB after", holds=after <= before * 1.1)


def _settled(server: Served, wanted_mb: float) -> float:
    """What is resident once it is down to what is wanted, or time is up."""
    deadline = time.monotonic() + _BACK_WITHIN_S
    while (now := server.status_mb("VmRSS")) > wanted_mb and time.monotonic() < deadline:
        time.sleep(0.1)
    return now
