"""Step 5: whether the exported model answers as the original did, on rows as given, random ones and edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flyball.errors import FlyballError
from flyball.models.optimize.answers import counted, table_of
from flyball.models.optimize.candidate import compared
from flyball.models.optimize.comparison_rows import ROWS_MIN
from flyball.models.optimize.rows import narrowed
from flyball.models.optimize.steps.export import EXPORTED
from flyball.native.model_runs import Model

if TYPE_CHECKING:
    from flyball.bench.progress import Progress
    from flyball.models.equivalence.comparison import Comparison
    from flyball.models.optimize.original import Original
    from flyball.models.optimize.pipeline import Found

_SHOWN = 5


class NotEqualError(FlyballError):
    """A rewrite that must not change answers has changed them; the rows that show it are named."""

    code = "not_equal"
    exit_code = 4


@dataclass(frozen=True, slots=True)
class Equal:
    """Ends the run where they differ: everything that follows is made from the exported model."""

    original: Original
    name: str = "equal"

    def settings(self) -> dict[str, Any]:
        """How many rows, and how far apart they may be."""
        return {"rows": ROWS_MIN, "bound": self.original.run.bound}

    def run(self, found: Found, progress: Progress) -> dict[str, Any]:
        """Ask both."""
        run, columns = self.original.run, found.of("export")["columns"]
        step = progress.begin("equal", 2.0)
        inputs, _ = self.original.asked.inputs, self.original.answers
        step.update(1.0, "the original has answered")
        table = table_of(Model(run.work.models / EXPORTED), run.subject.output, narrowed(inputs, columns))
        told = compared(self.original, counted(table, run.subject.element), self.original.asked.kinds)
        if not told.equal:
            raise _not_equal(told, inputs)
        step.end(f"{told.all.rows:,} rows, {told.all.max_abs:.3g} apart at most")
        return told.model_dump()


def _not_equal(told: Comparison, inputs: dict[str, Any]) -> NotEqualError:
    lines = []
    for worst in told.worst[:_SHOWN]:
        first = next(iter(inputs.values()))[worst.row].ravel()[:8]
        lines.append(f"  {worst.kind} row {first.tolist()}…: {worst.expected} became {worst.found}")
    return NotEqualError(
        f"{told.all.beyond:,} of {told.all.rows:,} rows changed by more than {told.bound:g} "
        f"(most: {told.all.max_abs:.3g}) when the model was exported\n" + "\n".join(lines),
        next_step="keep the model as it is, and tell us: an export must never change answers",
    )
