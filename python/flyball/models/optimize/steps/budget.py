"""Step 1: what the result may take, as asked for or as the decision promises its callers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flyball.bench.progress import Progress
    from flyball.models.optimize.pipeline import Found
    from flyball.models.optimize.run import Run


@dataclass(frozen=True, slots=True)
class BudgetStep:
    """States the budget, the bound and the bars, so that the report begins with what was wanted."""

    run_of: Run
    name: str = "budget"

    def settings(self) -> dict[str, Any]:
        """All of it."""
        run = self.run_of
        return {"budget": run.budget.model_dump(), "bound": run.bound, "bars": run.bars.model_dump()}

    def run(self, found: Found, progress: Progress) -> dict[str, Any]:
        """Nothing is measured yet."""
        del found
        told = {name: value for name, value in self.run_of.budget.model_dump().items() if value is not None}
        progress.begin("budget", 1.0).end(", ".join(f"{name} {value:g}" for name, value in told.items()) or "the least")
        return self.settings()
