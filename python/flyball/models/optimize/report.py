"""Writes a run's results: one JSON document, the chosen model's certificate, and a page with a table and a plot.

Everything on the page is in the document. Must not know how anything was measured.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.bench.report.drawing import ALARM, drawing, halo, latency_axis, look, new_figure, subscribe, svg
from flyball.bench.report.template import template
from flyball.bench.table import latency, percent, rate, size
from flyball.decision.compile.score_path import way_digest
from flyball.documents.durable_file import write_bytes, write_json
from flyball.models.equivalence.certificate import CERTIFICATE, Certificate, Data, Engine, Original, certify
from flyball.models.equivalence.certificate import Candidate as Certified
from flyball.models.optimize.choice import Choice, choose
from flyball.models.optimize.chosen_decision import write_decision
from flyball.models.optimize.compare_decisions import compare_decisions
from flyball.models.optimize.steps.batch import batch_rows_max, candidates_in
from flyball.models.optimize.work_folder import CHOSEN, CHOSEN_DECISION, MAKING, PAGE, REPORT
from flyball.native import machine as native_machine

if TYPE_CHECKING:
    from flyball.decision.decision import Decision
    from flyball.models.optimize.pipeline import PipelineResult
    from flyball.models.optimize.run import Run

_TEMPLATE = Path(__file__).with_name("optimize.html.j2")


@dataclass(frozen=True, slots=True)
class Result:
    """The whole result, and its location."""

    document: dict[str, Any]
    choice: Choice
    certificate: Certificate
    folder: Path
    reused: list[str]
    """Steps reused from an earlier run."""


def write_report(run: Run, ended: PipelineResult) -> Result:
    """Write chosen.onnx, its certificate, report.json, report.html and, for a decision, its folder."""
    candidates = candidates_in(ended.documents)
    choice = choose(candidates, ended.documents["batch"]["figures"], run.budget)
    chosen = next(one for one in candidates if one.name == choice.chosen)
    assert chosen.comparison is not None  # noqa: S101 - one that may serve was compared, and so was the exported model
    assert chosen.digest is not None  # noqa: S101 - and has a file
    certificate = certify(
        original=Original(digest=run.subject.digest, kind=f"the original {run.subject.model.name}"),
        candidate=Certified(digest=chosen.digest),
        data=Data.of(run.rows.digest, chosen.comparison),
        engine=Engine.here(ended.documents["baseline"]["facts"]["ort_version"]),
        comparison=chosen.comparison,
        gate=chosen.verdict,
    )
    model = run.work.models / str(chosen.file)
    with tempfile.TemporaryDirectory(prefix=MAKING, dir=run.work.models) as made:
        decision = _decision(run, ended, certificate, model, Path(made, CHOSEN_DECISION))
        document = _document(run, ended, choice, certificate, decision)
        page = _page(document)
        # Publish nothing before all of it is proven and written; the report, which refers to the rest, comes last.
        folder = run.work.folder
        if decision is not None:
            Path(made, CHOSEN_DECISION).replace(folder / CHOSEN_DECISION)
        write_bytes(folder / CHOSEN, model.read_bytes())
        write_bytes(folder / CERTIFICATE, certificate.to_bytes())
        write_json(folder / REPORT, document)
        write_bytes(folder / PAGE, page)
    return Result(document, choice, certificate, folder, ended.reused)


def _document(
    run: Run, ended: PipelineResult, choice: Choice, certificate: Certificate, decision: dict[str, Any] | None
) -> dict[str, Any]:
    machine = native_machine.machine()
    return {
        "subject": {"name": run.subject.name, "digest": run.subject.digest, "output": run.subject.output},
        "machine": {"cpu": machine.cpu_model, "cpus": len(machine.cpus), "build": native_machine.build_info().profile},
        "rows": {"count": run.rows.count, "digest": run.rows.digest, "labelled": run.rows.labels is not None},
        "choice": choice.model_dump(),
        "batch_rows_max": batch_rows_max(ended.documents["batch"], choice.chosen),
        "budget": _budget(run, ended),
        "decision": decision,
        "outcome": certificate.outcome,
        "steps": ended.documents,
    }


def _decision(run: Run, ended: PipelineResult, certificate: Certificate, model: Path, folder: Path) -> dict[str, Any] | None:
    """The decision around the model in its own folder, verified on requests; None for a bare model."""
    if run.subject.decision is None:
        return None
    export = ended.documents["export"]
    made = write_decision(run.subject.decision, model, export["columns"], folder)
    bound = run.bound if certificate.outcome == "equal" else None
    verified = compare_decisions(run.subject.decision, made, run.rows.requests, bound=bound)
    write_bytes(folder / CERTIFICATE, of_decision(certificate, made, verified["requests"]).to_bytes())
    dropped = len(run.subject.decision.spec.transforms) - len(made.spec.transforms)
    return {"columns_cut": export["columns_cut"], "transforms_cut": dropped, **verified}


def of_decision(certificate: Certificate, made: Decision, requests: int) -> Certificate:
    """A certificate of the whole decision; unchanged if it decided no request."""
    if not requests:
        return certificate
    document = made.check().compiled.document
    candidate = Certified(digest=certificate.candidate.digest, way=way_digest(document, document["models"][0]))
    return certificate.model_copy(update={"candidate": candidate})


def _budget(run: Run, ended: PipelineResult) -> dict[str, Any]:
    """The budget, and whether the served p99 at a steady rate meets it; None without a p99 budget."""
    served_ms = ended.documents["benchmark"]["chosen"]["p99"] / 1e3
    most = run.budget.p99_ms
    return {**run.budget.model_dump(), "served_p99_ms": served_ms, "kept": None if most is None else served_ms <= most}


def _page(document: dict[str, Any]) -> bytes:
    page = template(_TEMPLATE, extra="optimize", latency=latency, rate=rate, size=size, percent=percent)
    return page.render(report=document, plot=_plot(document).decode()).encode()


def _plot(document: dict[str, Any]) -> bytes:
    """Latency against size, refused candidates crossed out: cheap and accepted ones are at the lower left."""
    lines = [line for line in document["choice"]["lines"] if line["p50_us"] is not None]
    with drawing():
        figure, (axes,) = new_figure(f"{document['subject']['name']}: candidates", height_in=3.6)
        subscribe(figure, f"one row per run, {document['machine']['cpu']}", None)
        for index, line in enumerate(lines):
            at = (line["size_bytes"] / 1e6, line["p50_us"])
            refused = {"color": ALARM, "marker": "x"}
            axes.plot(*at, linestyle="none", markersize=9, **(look(index) if line["accepted"] else refused))
            chosen = line["name"] == document["choice"]["chosen"]
            label = axes.annotate(
                line["name"], at, xytext=(7, 5), textcoords="offset points", fontweight="bold" if chosen else "normal"
            )
            label.set_path_effects(halo())
        axes.set_xlabel("file size, MB")
        axes.margins(0.25)
        latency_axis(axes, "p50 of a run")
        return svg(figure)
