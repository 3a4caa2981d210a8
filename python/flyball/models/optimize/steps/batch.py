"""Step 8: measures run times by batch size for all candidates, and finds the best batch size.

Candidates take turns, so that noise hits all of them; medians over the rounds count.
"""

from __future__ import annotations

from itertools import product
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.models.optimize.candidate import Candidate
from flyball.native.model_runs import Model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flyball.bench.progress import Progress
    from flyball.models.optimize.pipeline import StepResults
    from flyball.models.optimize.run import Run

_ROWS = (1, 2, 4, 8, 16, 32)
_ROUNDS = 7
_ROUND = 0.008  # of a served window: 40 ms where that is 5 s
_RUNS = (5, 2000)
_GAIN = 0.95  # a larger batch must reduce the time per row to this share
_INLINE_US = 1000.0  # a longer run would delay the core's other requests


def batch_settings(run: Run) -> dict[str, Any]:
    """The batch sizes and the rounds."""
    return {"rows": _ROWS, "rounds": _ROUNDS, "round_s": run.seconds * _ROUND}


def batch(run: Run, results: StepResults, progress: Progress) -> dict[str, Any]:
    """Measure all candidates that load in turn, including refused ones."""
    candidates = [one for one in candidates_in(results.documents) if one.failed is None]
    models = {one.name: Model(run.work.models / str(one.file)) for one in candidates}
    step = progress.begin("batch", float(_ROUNDS * len(_ROWS)))
    figures: dict[str, dict[int, list[dict[str, float]]]] = {name: {} for name in models}
    random = np.random.default_rng(8)
    given = run.rows.narrowed(results.of("export")["columns"])
    for done, (rows, _) in enumerate(product(_ROWS, range(_ROUNDS))):
        step.update(float(done), f"{rows} row{'s' * (rows > 1)} per run")
        inputs = given.some(random.integers(0, given.count, rows).tolist())
        for one in candidates:
            if rows > 1 and not one.batching:
                continue
            runs = _runs(models[one.name], inputs, run.seconds * _ROUND)
            measured_now = models[one.name].measure(inputs, runs=runs, warm_runs=3)
            figures[one.name].setdefault(rows, []).append(measured_now.model_dump())
    measured = {one.name: _settled(figures[one.name]) for one in candidates}
    step.end(", ".join(f"{name} {figures['1']['p50_us']:.0f} µs" for name, figures in measured.items()))
    return {"figures": measured, "rows_max": {name: rows_max(figures) for name, figures in measured.items()}}


def candidates_in(documents: Mapping[str, dict[str, Any]]) -> list[Candidate]:
    """All candidates from the documents of the steps, in the order in which they were made."""
    made = [*documents["graph"]["candidates"], *documents["quantise"]["candidates"]]
    return [Candidate.model_validate(one) for one in made]


def rows_max(figures: dict[str, dict[str, float]]) -> int:
    """The largest batch that still clearly lowers the cost per row without delaying other requests."""
    best, cost = 1, figures["1"]["p50_us"]
    for rows in _ROWS[1:]:
        measured = figures.get(str(rows))
        if measured is None or measured["p50_us"] > _INLINE_US or measured["p50_us"] / rows > cost * _GAIN:
            break
        best, cost = rows, measured["p50_us"] / rows
    return best


def batch_rows_max(document: Mapping[str, Any], name: str) -> int | None:
    """The server's `batch_rows_max` for this candidate; None if the default is right."""
    results: int = document["rows_max"][name]
    return results if results < _ROWS[-1] else None


def _runs(model: Model, inputs: dict[str, Any], round_s: float) -> int:
    """The number of runs that fill a round."""
    one = model.measure(inputs, runs=3, warm_runs=1).p50_us
    low, high = _RUNS
    return int(min(max(round_s * 1e6 / max(one, 1.0), low), high))


def _settled(by_rows: dict[int, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    return {str(rows): _medians(rounds) for rows, rounds in by_rows.items()}


def _medians(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    names = ("p50_us", "p95_us", "p99_us", "p999_us", "cpu_us")
    return {name: median(one[name] for one in rounds) for name in names} | {"max_us": max(one["max_us"] for one in rounds)}
