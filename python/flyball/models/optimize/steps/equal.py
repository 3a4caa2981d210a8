"""Step 5: proves the exported model equal to the original on given, random and edge rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.errors import FlyballError
from flyball.models.optimize.answers import counted, table_of
from flyball.models.optimize.candidate import compared
from flyball.models.optimize.original import Original
from flyball.models.optimize.rows import narrowed
from flyball.models.optimize.steps.export import EXPORTED
from flyball.native.model_runs import Model

if TYPE_CHECKING:
    from flyball.bench.progress import Progress
    from flyball.models.equivalence.comparison import Comparison
    from flyball.models.optimize.pipeline import StepResults

_SHOWN = 5


class NotEqualError(FlyballError):
    """A rewrite that must preserve answers changed them; the message lists rows."""

    code = "not_equal"
    exit_code = 4


def equal(original: Original, results: StepResults, progress: Progress) -> dict[str, Any]:
    """Compare both models. A difference ends the run: all later steps build on the exported model."""
    run, columns = original.run, results.of("export")["columns"]
    step = progress.begin("equal", 2.0)
    inputs, _ = original.comparison_rows.inputs, original.answers
    step.update(1.0, "original answered")
    table = table_of(Model(run.work.models / EXPORTED), run.subject.output, narrowed(inputs, columns))
    figures = compared(original, counted(table, run.subject.element), original.comparison_rows.kinds)
    if not figures.equal:
        raise _not_equal(figures, inputs)
    step.end(f"{figures.all.rows:,} rows, at most {figures.all.max_abs:.3g} apart")
    return figures.model_dump()


def _not_equal(figures: Comparison, inputs: dict[str, Any]) -> NotEqualError:
    lines = []
    for worst in figures.worst[:_SHOWN]:
        first = next(iter(inputs.values()))[worst.row].ravel()[:8]
        lines.append(f"  {worst.kind} row {first.tolist()}…: {worst.expected} became {worst.found}")
    return NotEqualError(
        f"{figures.all.beyond:,} of {figures.all.rows:,} rows changed by more than {figures.bound:g} "
        f"(at most {figures.all.max_abs:.3g}) when the model was exported\n" + "\n".join(lines),
        next_step="keep the original model, and report this bug: an export must never change answers",
    )
