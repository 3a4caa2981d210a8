"""The eleven steps in order, and one call that runs them and writes the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.models.convert.optional_packages import versions
from flyball.models.optimize.original import Original
from flyball.models.optimize.pipeline import Step, run_steps
from flyball.models.optimize.report import Result, write_report
from flyball.models.optimize.steps.baseline import Baseline, BudgetStep, Features
from flyball.models.optimize.steps.batch import Batch
from flyball.models.optimize.steps.equal import Equal
from flyball.models.optimize.steps.export import Export
from flyball.models.optimize.steps.graph import Graphs
from flyball.models.optimize.steps.quantise import Quantise
from flyball.models.optimize.steps.served import Loaded, Retest
from flyball.models.optimize.work_folder import key_of
from flyball.native.journal import runtime_fingerprint
from flyball.native.machine import build_info

if TYPE_CHECKING:
    from flyball.bench.progress import Progress
    from flyball.models.optimize.run import Run


def all_steps(run: Run) -> list[Step]:
    """The steps in order."""
    original = Original(run)
    return [
        BudgetStep(run),
        Baseline(run),
        Features(run),
        Export(run),
        Equal(original),
        Graphs(original),
        Quantise(original),
        Batch(run),
        Loaded(run, "benchmark"),
        Loaded(run, "burst"),
        Retest(original),
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
