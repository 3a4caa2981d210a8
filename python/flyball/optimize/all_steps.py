"""The eleven steps in their order, and one call that runs them and writes what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    from flyball import engine

    info = engine.build_info()
    decision = run.subject.decision
    subject = [
        *(run.subject.digest, run.subject.output, run.subject.element, run.rows.digest, run.rows.names),
        None if decision is None else decision.check().compiled.document,
        *(info.version, engine.machine().cpu_model),
    ]
    with run.work.held():
        ended = run_steps(all_steps(run), run.work, key_of("", "subject", subject), progress, fresh=fresh)
        return write_report(run, ended)
