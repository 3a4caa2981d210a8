"""Step 2: the model as it came: how long a run takes, and where a decision's time goes, stage by stage."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from flyball.errors import FlyballError
from flyball.native.model_runs import Model

if TYPE_CHECKING:
    from flyball.bench.progress import Progress
    from flyball.models.optimize.pipeline import Found
    from flyball.models.optimize.run import Run

_RUNS = 300
_REQUESTS = 200


@dataclass(frozen=True, slots=True)
class Baseline:
    """Every later figure is read beside these."""

    run_of: Run
    name: str = "baseline"

    def settings(self) -> dict[str, Any]:
        """How much is measured."""
        return {"runs": _RUNS, "requests": _REQUESTS}

    def run(self, found: Found, progress: Progress) -> dict[str, Any]:
        """One row a run, and where there is a decision, whole requests in this process."""
        del found
        step = progress.begin("baseline", 2.0)
        model = Model(self.run_of.subject.model)
        figures = model.measure(self.run_of.rows.some(slice(0, 1)), runs=_RUNS, warm_runs=20)
        step.update(1.0, f"{figures.p50_us:.0f} µs a run")
        stages, untold = {}, None
        try:
            stages = self._stages()
        except FlyballError as error:  # a row that is refused, a source that is away: the model is measured all the same
            untold = error.message
        step.end(f"{figures.p50_us:.0f} µs a run" + (f"; no stages: {untold}" if untold else ""))
        facts = model.facts.model_dump(mode="json")
        return {"model": figures.model_dump(), "facts": facts, "stages_us": stages, "stages_untold": untold}

    def _stages(self) -> dict[str, float]:
        """The median of each stage over requests of one row; empty without a decision."""
        subject = self.run_of.subject
        if subject.decision is None:
            return {}
        times: dict[str, list[float]] = defaultdict(list)
        samples = self.run_of.rows.requests[:_REQUESTS]
        try:
            for row in samples:
                for stage, spent in subject.decision.decide(row, timings=True).timings_us.items():
                    times[stage].append(spent)
        finally:
            subject.decision.close()
        return {stage: median(spent) for stage, spent in times.items()}
