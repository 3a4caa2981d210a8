"""Steps 1 to 3: the budget, the original model's time, and the cost of its columns.

A column that no split uses is computed, copied and compared for nothing; step 3 names them.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING, Any

from flyball.errors import FlyballError
from flyball.models.optimize.operators import columns_used
from flyball.native.model_runs import Model

if TYPE_CHECKING:
    from flyball.bench.progress import Progress
    from flyball.models.optimize.pipeline import StepResults
    from flyball.models.optimize.run import Run

_RUNS = 300
_REQUESTS = 200
_BEFORE = ("features", "transform")
MEASUREMENTS = {"runs": _RUNS, "requests": _REQUESTS}


def goals(run: Run) -> dict[str, Any]:
    """The budget, the bound and the bars, so that the report begins with the goals."""
    return {"budget": run.budget.model_dump(), "bound": run.bound, "bars": run.bars.model_dump()}


def budget(run: Run, results: StepResults, progress: Progress) -> dict[str, Any]:
    """Step 1: record the goals; nothing is measured."""
    del results
    figures = {name: value for name, value in run.budget.model_dump().items() if value is not None}
    progress.begin("budget", 1.0).end(", ".join(f"{name} {value:g}" for name, value in figures.items()) or "the least")
    return goals(run)


def baseline(run: Run, results: StepResults, progress: Progress) -> dict[str, Any]:
    """Step 2: measure runs of one row and, for a decision, whole requests in this process."""
    del results
    step = progress.begin("baseline", 2.0)
    model = Model(run.subject.model)
    figures = model.measure(run.rows.some(slice(0, 1)), runs=_RUNS, warm_runs=20)
    step.update(1.0, f"{figures.p50_us:.0f} µs per run")
    stages, stages_error = {}, None
    try:
        stages = _stages(run)
    except FlyballError as error:  # a refused row or an unavailable source: the model is measured anyway
        stages_error = error.message
    step.end(f"{figures.p50_us:.0f} µs per run" + (f"; no stages: {stages_error}" if stages_error else ""))
    facts = model.facts.model_dump(mode="json")
    return {"model": figures.model_dump(), "facts": facts, "stages_us": stages, "stages_error": stages_error}


def _stages(run: Run) -> dict[str, float]:
    """The median of each stage over one-row requests; empty without a decision."""
    decision = run.subject.decision
    if decision is None:
        return {}
    times: dict[str, list[float]] = defaultdict(list)
    try:
        for row in run.rows.requests[:_REQUESTS]:
            for stage, spent in decision.decide(row, timings=True).timings_us.items():
                times[stage].append(spent)
    finally:
        decision.close()
    return {stage: median(spent) for stage, spent in times.items()}


def features(run: Run, results: StepResults, progress: Progress) -> dict[str, Any]:
    """Step 3: report the time before the model, and unused columns; a decision's columns are its author's choice."""
    step = progress.begin("features", 1.0)
    stages = results.of("baseline")["stages_us"]
    spent, whole = sum(stages.get(stage, 0.0) for stage in _BEFORE), sum(stages.values())
    unused = _unused(run)
    share = spent / whole if whole else None
    figures = [] if share is None else [f"{share:.0%} of a decision's time"]
    figures += [f"no split uses {', '.join(unused)}"] if unused else []
    step.end(", ".join(figures) or "nothing to report")
    return {"spent_us": spent if stages else None, "share": share, "unused": unused}


def _unused(run: Run) -> list[str]:
    used = columns_used(run.subject.model)
    if used is None:
        return []
    names = run.rows.names or [str(index) for index in range(run.rows.width)]
    return [name for index, name in enumerate(names) if index not in used]
