"""Step 3: the cost of columns: the share of a decision's time before its model, and unused columns.

A column that no split uses is computed, copied and compared for nothing; the step names them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flyball.models.optimize.operators import columns_used

if TYPE_CHECKING:
    from flyball.bench.progress import Progress
    from flyball.models.optimize.pipeline import StepResults
    from flyball.models.optimize.run import Run

_BEFORE = ("features", "transform")


@dataclass(frozen=True, slots=True)
class Features:
    """Reports unused columns without removing them: a decision's columns are its author's choice."""

    run_of: Run
    name: str = "features"

    def settings(self) -> dict[str, Any]:
        """None: it depends only on earlier steps."""
        return {}

    def run(self, results: StepResults, progress: Progress) -> dict[str, Any]:
        """Evaluate the baseline's stages and the model's splits."""
        step = progress.begin("features", 1.0)
        stages = results.of("baseline")["stages_us"]
        spent, whole = sum(stages.get(stage, 0.0) for stage in _BEFORE), sum(stages.values())
        unused = self._unused()
        share = spent / whole if whole else None
        figures = [] if share is None else [f"{share:.0%} of a decision's time"]
        figures += [f"no split uses {', '.join(unused)}"] if unused else []
        step.end(", ".join(figures) or "nothing to report")
        return {"spent_us": spent if stages else None, "share": share, "unused": unused}

    def _unused(self) -> list[str]:
        subject = self.run_of.subject
        used = columns_used(subject.model)
        if used is None:
            return []
        names = self.run_of.rows.names or [str(index) for index in range(self.run_of.rows.width)]
        return [name for index, name in enumerate(names) if index not in used]
