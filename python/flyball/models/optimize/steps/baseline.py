"""Step 2: measures the original model's run time, and a decision's time by stage."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from flyball.errors import FlyballError
from flyball.native.model_runs import Model

if TYPE_CHECKING:
    from flyball.bench.progress import Progress
    from flyball.models.optimize.pipeline import StepResults
    from flyball.models.optimize.run import Run

_RUNS = 300
_REQUESTS = 200


@dataclass(frozen=True, slots=True)
class Baseline:
    """The reference for all later figures."""

    run_of: Run
    name: str = "baseline"

    def settings(self) -> dict[str, Any]:
        """The amount of measurement."""
        return {"runs": _RUNS, "requests": _REQUESTS}

    def run(self, results: StepResults, progress: Progress) -> dict[str, Any]:
        """Measure runs of one row and, for a decision, whole requests in this process."""
        del results
        step = progress.begin("baseline", 2.0)
        model = Model(self.run_of.subject.model)
        figures = model.measure(self.run_of.rows.some(slice(0, 1)), runs=_RUNS, warm_runs=20)
        step.update(1.0, f"{figures.p50_us:.0f} µs per run")
        stages, stages_error = {}, None
        try:
            stages = self._stages()
        except FlyballError as error:  # a refused row or an unavailable source: the model is measured anyway
            stages_error = error.message
        step.end(f"{figures.p50_us:.0f} µs per run" + (f"; no stages: {stages_error}" if stages_error else ""))
        facts = model.facts.model_dump(mode="json")
        return {"model": figures.model_dump(), "facts": facts, "stages_us": stages, "stages_error": stages_error}

    def _stages(self) -> dict[str, float]:
        """The median of each stage over one-row requests; empty without a decision."""
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
