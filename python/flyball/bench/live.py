"""Finds or starts live servers for `compare` and `gate`, makes their payloads, and writes the record."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.bench.compare import measure_pairs
from flyball.bench.gate import Verdict, measure_contract
from flyball.bench.measure import Measurement, Subject
from flyball.bench.payloads import payloads_for, payloads_for_decision, payloads_for_server
from flyball.bench.scenario import ModelSource, PayloadSource
from flyball.bench.scenario_run import Cores, Requests, measure_surroundings, new_record
from flyball.bench.servers import elsewhere, serving
from flyball.errors import UsageError
from flyball.native.load_documents import Arrivals, LoadPlan, Warmup

if TYPE_CHECKING:
    from flyball.bench.progress import Progress
    from flyball.bench.record import SubjectRecord
    from flyball.bench.scenario import Contract
    from flyball.bench.statistics import Comparison

_MODEL = "model"


@dataclass(frozen=True, slots=True)
class Load:
    """The load for both sides of a comparison."""

    model: str | None
    protocol: Any
    connections: int
    rate_per_s: float | None
    repeats: int
    seconds: float
    rows: Path | None = None


def compare_live(sides: tuple[str, str], load: Load, path: Path, command: list[str], progress: Progress) -> Comparison:
    """Measure two URLs or two models in turn."""
    with ExitStack() as stack:
        local = not any("://" in side for side in sides)
        cores = Cores.here() if local else Cores(None, None)
        found = [_side(stack, letter, side, load, cores) for letter, side in zip("AB", sides, strict=True)]
        requests = [side[2] for side in found]
        record = new_record(command, requests[0], cores)
        measurement = stack.enter_context(Measurement(record, path, requests[0].payloads))
        for _, measured, _ in found:
            measurement.add_subject(measured)
        measure_surroundings(measurement, requests[0], cores, progress, load.seconds)
        plan = LoadPlan(
            url=found[0][0].url,
            model=requests[0].name,
            protocol="json" if load.protocol == "decision" else load.protocol,
            connections=load.connections,
            arrivals=Arrivals(kind="poisson", rate_per_s=load.rate_per_s, seed=1)
            if load.rate_per_s
            else Arrivals(kind="closed"),
            duration_s=load.seconds,
            warmup=Warmup(least_s=0.3, most_s=2.0),
            cpus=cores.generator,
        )
        # Each with its own payloads: the correct answers of two models differ.
        subjects = (replace(found[0][0], payloads=requests[0].payloads), replace(found[1][0], payloads=requests[1].payloads))
        return measure_pairs(measurement, subjects, plan, repeats=load.repeats, progress=progress)


def gate_live(contract: Contract, url: str, path: Path, command: list[str], progress: Progress) -> Verdict:
    """Test the server at `url` against a contract."""
    subject, measured, requests = _at_url(url, contract.model, contract.protocol, contract.payloads)
    cores = Cores(None, None)
    with Measurement(new_record(command, requests, cores, contract=contract), path, requests.payloads) as measurement:
        measurement.add_subject(measured)
        measure_surroundings(measurement, requests, cores, progress, contract.window_s)
        return measure_contract(contract, measurement, subject, cores.generator, progress)


def _at_url(
    url: str, name: str, protocol: str, source: PayloadSource, label: str | None = None
) -> tuple[Subject, SubjectRecord, Requests]:
    """A running server, with requests for its model or decision."""
    subject, measured = elsewhere(url, name, label=label)
    if protocol == "decision":
        payloads = payloads_for_decision(source)
        subject = replace(subject, path=f"/v1/decisions/{name}")
    else:
        payloads = payloads_for_server(source, url, name)
    return subject, measured, Requests(name, None, payloads, source)


def _side(stack: ExitStack, letter: str, side: str, load: Load, cores: Cores) -> tuple[Subject, SubjectRecord, Requests]:
    """Start or find one side, and wait until it answers."""
    if (load.protocol == "decision") != (load.rows is not None):
        raise UsageError(
            "--data and --protocol decision are used together", next_step="add:  --protocol decision --data ROWS"
        )
    source = PayloadSource(source="file", file=str(load.rows)) if load.rows else PayloadSource()
    if "://" in side:
        if load.model is None:
            raise UsageError("--model is required with a URL", next_step="name it:  --model NAME")
        return _at_url(side, load.model, load.protocol, source, label=f"{letter} ({side})")
    if load.rows:
        raise UsageError("--protocol decision requires URLs", next_step="serve the decision:  flyball serve --decision FILE")
    name, _, given = side.rpartition("=")
    del name  # both sides serve under one name, so that one plan fits both
    model = Path(given)
    if not model.is_file():
        raise UsageError(
            f"{side} is not a record, URL or model file",
            next_step="name two models:  flyball bench compare old.onnx new.onnx",
        )
    payloads = payloads_for(source, model, ModelSource(path=str(model), name=_MODEL))
    subject, measured = stack.enter_context(serving(model, _MODEL, payloads, cores.server, label=f"{letter} ({model.name})"))
    return subject, measured, Requests(_MODEL, model, payloads, source)
