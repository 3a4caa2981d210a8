"""The eleven steps in order, and one call that runs them and writes the report."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from flyball.models.convert.optional_packages import versions
from flyball.models.optimize.original import ROWS_MIN, Original
from flyball.models.optimize.pipeline import Step, run_steps
from flyball.models.optimize.report import Result, write_report
from flyball.models.optimize.steps.baseline import MEASUREMENTS, baseline, budget, features, goals
from flyball.models.optimize.steps.batch import batch, batch_settings
from flyball.models.optimize.steps.equal import equal
from flyball.models.optimize.steps.export import export
from flyball.models.optimize.steps.graph import graph_settings, graphs
from flyball.models.optimize.steps.quantise import quantise, quantise_settings
from flyball.models.optimize.steps.served import load, load_settings, retest
from flyball.models.optimize.work_folder import key_of
from flyball.native.journal import runtime_fingerprint
from flyball.native.machine import build_info

if TYPE_CHECKING:
    from flyball.bench.progress import Progress
    from flyball.models.optimize.run import Run


def all_steps(run: Run) -> list[Step]:
    """The steps in order."""
    original, load_of = Original(run), load_settings(run)
    return [
        Step("budget", goals(run), partial(budget, run)),
        Step("baseline", MEASUREMENTS, partial(baseline, run)),
        Step("features", {}, partial(features, run)),
        Step("export", {"output": run.subject.output}, partial(export, run)),
        Step("equal", {"rows": ROWS_MIN, "bound": run.bound}, partial(equal, original)),
        Step("graph", graph_settings(original), partial(graphs, original)),
        Step("quantise", quantise_settings(original), partial(quantise, original)),
        Step("batch", batch_settings(run), partial(batch, run)),
        Step("benchmark", load_of, partial(load, run, "benchmark")),
        Step("burst", load_of, partial(load, run, "burst")),
        Step("retest", {}, partial(retest, original)),
    ]


def optimise(run: Run, progress: Progress, *, fresh: bool = False) -> Result:
    """Run all steps, or those that an earlier run has not finished, and write the report."""
    with run.work.held():
        ended = run_steps(all_steps(run), run.work, subject_key(run), progress, fresh=fresh)
        return write_report(run, ended)


def subject_key(run: Run) -> str:
    """A key over the inputs of every step: model, decision, rows, and the versions of engine and tools."""
    decision = run.subject.decision
    subject = [
        *(run.subject.digest, run.subject.output, run.subject.element, run.rows.digest, run.rows.names),
        None if decision is None else decision.check().compiled.document,
        *(runtime_fingerprint(), build_info().profile, versions("onnxruntime", "onnx")),
    ]
    return key_of("", "subject", subject)
