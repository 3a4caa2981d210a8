"""The eleven steps in their order, and one call that runs them and writes what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.convert.packages import versions
from flyball.engine import build_info
from flyball.journal import runtime_fingerprint
from flyball.optimize.original import Original
from flyball.optimize.pipeline import run_steps
from flyball.optimize.report import write_report
from flyball.optimize.steps.baseline import Baseline
from flyball.optimize.steps.batch import Batch
from flyball.optimize.steps.budget import BudgetStep
from flyball.optimize.steps.equal import Equal
from flyball.optimize.steps.export import Export
from flyball.optimize.steps.features import Features
from flyball.optimize.steps.graph import Graphs
from flyball.optimize.steps.quantise import Quantise
from flyball.optimize.steps.served import Loaded, Retest
from flyball.optimize.work import key_of

if TYPE_CHECKING:
    from flyball.bench.progress import Progress
    from flyball.optimize.pipeline import Step
    from flyball.optimize.report import Result
    from flyball.optimize.run import Run


def all_steps(run: Run) -> list[Step]:
    """In order."""
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
    """Run them all, or those that an earlier run has not finished, and leave the result."""
    with run.work.held():
        ended = run_steps(all_steps(run), run.work, subject_key(run), progress, fresh=fresh)
        return write_report(run, ended)


def subject_key(run: Run) -> str:
    """Over all that every step depends on: the model and its decision, the rows, and what runs and rewrites models here."""
    decision = run.subject.decision
    subject = [
        *(run.subject.digest, run.subject.output, run.subject.element, run.rows.digest, run.rows.names),
        None if decision is None else decision.check().compiled.document,
        *(runtime_fingerprint(), build_info().profile, versions("onnxruntime", "onnx")),
    ]
    return key_of("", "subject", subject)
