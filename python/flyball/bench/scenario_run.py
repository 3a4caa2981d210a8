"""Runs a whole scenario: model, payloads, the generator's overhead, the floor, and every phase."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.bench.bare_loop import measure_bare
from flyball.bench.machine import machine_record, refuse_debug_build, software_record
from flyball.bench.measure import Measurement
from flyball.bench.models.make import make_model
from flyball.bench.overhead import measure_overhead
from flyball.bench.payloads import payloads_for, payloads_for_server
from flyball.bench.phases import Phases
from flyball.bench.process import on_cpus, split_cpus
from flyball.bench.record import BenchRecord, ModelRecord, PayloadRecord
from flyball.bench.servers import elsewhere, serving
from flyball.native.models import model_files

if TYPE_CHECKING:
    from flyball.bench.progress import Progress
    from flyball.bench.scenario import PayloadSource, Scenario

_LOOK_S = 2.0


@dataclass(frozen=True, slots=True)
class Cores:
    """Core assignment; None leaves it to the kernel, as for a remote server."""

    server: list[int] | None
    generator: list[int] | None

    @classmethod
    def here(cls) -> Cores:
        """Half of the cores each; a single core is shared."""
        return cls(*split_cpus())


@dataclass(frozen=True, slots=True)
class Requests:
    """A model and its requests."""

    name: str
    path: Path | None
    payloads: bytes
    source: PayloadSource


def new_record(command: list[str], requests: Requests, cores: Cores, **parts: object) -> BenchRecord:
    """A record with everything known before the first window. A debug build is refused."""
    refuse_debug_build()
    files = model_files(requests.path) if requests.path else None
    return BenchRecord.model_validate(
        {
            "command": command,
            "machine": machine_record(cores.server, cores.generator),
            "software": software_record(),
            "model": ModelRecord(
                name=requests.name, digest=files.digest if files else None, size_bytes=files.size_bytes if files else None
            ),
            "payloads": PayloadRecord(
                source=requests.source.file or requests.source.source,
                seed=requests.source.seed,
                count=requests.payloads.count(b"\n"),
                checked=requests.source.check and requests.path is not None,
                digest=f"sha256:{hashlib.sha256(requests.payloads).hexdigest()}",
            ),
            **parts,
        }
    )


def run_scenario(
    scenario: Scenario, path: Path, command: list[str], progress: Progress, url: str | None = None
) -> Measurement:
    """Measure a scenario on a new server, or on the one at `url`; the record is kept at `path` throughout."""
    refuse_debug_build()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cores = Cores.here() if url is None else Cores(None, None)
        if url is None:
            requests = _made_here(scenario, folder, progress)
            subject, measured = stack.enter_context(serving(_path(requests), requests.name, requests.payloads, cores.server))
        else:
            subject, measured = elsewhere(url, scenario.model.name)
            payloads = payloads_for_server(scenario.payloads, url, scenario.model.name, maker=scenario.model.make)
            requests = Requests(scenario.model.name, None, payloads, scenario.payloads)
        record = new_record(command, requests, cores, scenario=scenario)
        measurement = stack.enter_context(Measurement(record, path, requests.payloads))
        measurement.add_subject(measured)
        measure_surroundings(
            measurement, requests, cores, progress, scenario.steady.window_s if scenario.steady else _LOOK_S
        )
        phases = Phases(scenario, measurement, subject, cores.generator, progress)
        for phase in (phases.search, phases.steady, phases.curve, phases.concurrency, phases.soak):
            phase()
        if subject.process is not None:
            measurement.add_subject(measured.model_copy(update={"memory_bytes": subject.process.memory_bytes()}))
    return measurement


def _made_here(scenario: Scenario, folder: Path, progress: Progress) -> Requests:
    step = progress.begin("model and payloads", 1.0)
    model = make_model(scenario.model, folder)
    payloads = payloads_for(scenario.payloads, model, scenario.model)
    count = len(payloads.splitlines())
    step.end(f"{count:,} payloads")
    return Requests(scenario.model.name, model, payloads, scenario.payloads)


def _path(requests: Requests) -> Path:
    assert requests.path is not None  # noqa: S101 - made just now
    return requests.path


def measure_surroundings(
    measurement: Measurement, requests: Requests, cores: Cores, progress: Progress, window_s: float
) -> None:
    """Measure the generator's overhead, and the model without a network."""
    seconds = min(_LOOK_S, window_s)  # no longer than a window
    step = progress.begin("the generator itself", 1.0)
    overhead = measure_overhead(requests.payloads, cores.server, cores.generator, seconds)
    measurement.keep(overhead=overhead)
    step.end(f"adds {overhead.p50_us:.0f} µs, reaches {overhead.rate_max_per_s:,.0f}/s")
    if requests.path is not None:
        step = progress.begin("bare ONNX Runtime", 1.0)
        with on_cpus(cores.server):
            floor = measure_bare(requests.path, requests.payloads, seconds)
        measurement.keep(floor=floor)
        step.end(f"{floor.rate_per_s:,.0f} runs/s")
