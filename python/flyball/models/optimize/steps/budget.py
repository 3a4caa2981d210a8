"""Step 1: the latency budget, from the options or from the decision's promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flyball.bench.progress import Progress
    from flyball.models.optimize.pipeline import StepResults
    from flyball.models.optimize.run import Run


@dataclass(frozen=True, slots=True)
class BudgetStep:
    """States the budget, the bound and the bars, so that the report begins with the goals."""

    run_of: Run
    name: str = "budget"

    def settings(self) -> dict[str, Any]:
        """Budget, bound and bars."""
        run = self.run_of
        return {"budget": run.budget.model_dump(), "bound": run.bound, "bars": run.bars.model_dump()}

    def run(self, results: StepResults, progress: Progress) -> dict[str, Any]:
        """Record them; nothing is measured."""
        del results
        figures = {name: value for name, value in self.run_of.budget.model_dump().items() if value is not None}
        progress.begin("budget", 1.0).end(", ".join(f"{name} {value:g}" for name, value in figures.items()) or "the least")
        return self.settings()
