"""Step 3: what the columns cost: the share of a decision's time that is spent before its model, and columns nobody asks.

A column that no split asks is computed, copied and compared for nothing; which these are is told by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flyball.models.optimize.operators import columns_asked

if TYPE_CHECKING:
    from flyball.bench.progress import Progress
    from flyball.models.optimize.pipeline import Found
    from flyball.models.optimize.run import Run

_BEFORE = ("features", "transform")


@dataclass(frozen=True, slots=True)
class Features:
    """Told, not changed: which columns a decision has is its author's business."""

    run_of: Run
    name: str = "features"

    def settings(self) -> dict[str, Any]:
        """It depends on what came before alone."""
        return {}

    def run(self, found: Found, progress: Progress) -> dict[str, Any]:
        """From the stages of the baseline, and from the model's own splits."""
        step = progress.begin("features", 1.0)
        stages = found.of("baseline")["stages_us"]
        spent, whole = sum(stages.get(stage, 0.0) for stage in _BEFORE), sum(stages.values())
        unused = self._unused()
        share = spent / whole if whole else None
        told = [] if share is None else [f"{share:.0%} of a decision's time"]
        told += [f"no split asks {', '.join(unused)}"] if unused else []
        step.end(", ".join(told) or "nothing to tell")
        return {"spent_us": spent if stages else None, "share": share, "unused": unused}

    def _unused(self) -> list[str]:
        subject = self.run_of.subject
        asked = columns_asked(subject.model)
        if asked is None:
            return []
        names = self.run_of.rows.names or [str(place) for place in range(self.run_of.rows.width)]
        return [name for place, name in enumerate(names) if place not in asked]
