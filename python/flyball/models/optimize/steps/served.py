"""Steps 9 to 11: serves the chosen model and the original: at a steady rate, in bursts, and a retest after the load.

Both run at once and take turns window by window, so that noise hits both.
"""

from __future__ import annotations

from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from flyball.errors import FlyballError
from flyball.models.optimize.answers import table_of
from flyball.models.optimize.candidate import Candidate, evaluate_candidate
from flyball.models.optimize.choice import choose
from flyball.models.optimize.serving import Served, bursts, figures_of, served, steady
from flyball.models.optimize.steps.batch import batch_rows_max, candidates_in
from flyball.models.optimize.steps.quantise import held_out_of
from flyball.native.model_runs import Model

if TYPE_CHECKING:
    from flyball.bench.progress import Progress
    from flyball.models.optimize.original import Original
    from flyball.models.optimize.pipeline import StepResults
    from flyball.models.optimize.run import Run

_REPEATS = 3
_LOAD = 0.4  # of one core's capacity with the original
_RATE_MAX = 2000.0
_ASKED_AGAIN = 64


class AfterLoadError(FlyballError):
    """The chosen model's answers changed after load; it must not serve."""

    code = "answers_changed"
    exit_code = 4


def chosen_of(run: Run, results: StepResults) -> Candidate:
    """The chosen candidate, from the candidates and their figures."""
    candidates = candidates_in(results.documents)
    name = choose(candidates, results.of("batch")["figures"], run.budget).chosen
    return next(one for one in candidates if one.name == name)


def load_settings(run: Run) -> dict[str, Any]:
    """The length and number of windows."""
    return {"seconds": run.seconds, "repeats": _REPEATS, "load": _LOAD}


def load(run: Run, name: Literal["benchmark", "burst"], results: StepResults, progress: Progress) -> dict[str, Any]:
    """Load both models in turns, at a steady rate or in bursts."""
    rate = min(_LOAD * 1e6 / results.of("baseline")["model"]["p50_us"], _RATE_MAX)
    arrivals = steady(rate) if name == "benchmark" else bursts(rate)
    chosen, rows = chosen_of(run, results), run.rows.narrowed(results.of("export")["columns"])
    file, rows_max = run.work.models / str(chosen.file), batch_rows_max(results.of("batch"), chosen.name)
    step = progress.begin(name, float(2 * _REPEATS))
    windows: dict[str, list[dict[str, Any]]] = {"original": [], "chosen": []}
    with ExitStack() as stack:
        up = {
            "original": stack.enter_context(served(run.subject.name, run.subject.model, run.rows)),
            "chosen": stack.enter_context(served(run.subject.name, file, rows, rows_max)),
        }
        for turn in range(_REPEATS):
            for index, (who, server) in enumerate(up.items()):
                step.update(float(2 * turn + index), f"{who}, {rate:,.0f}/s")
                windows[who].append(figures_of(server.load(arrivals, run.seconds)))
        inputs = rows.some(slice(0, _ASKED_AGAIN))
        same_served(up["chosen"], inputs, run.subject.output, Model(file))
    figures = {who: _medians(each) for who, each in windows.items()}
    step.end(f"p99 {figures['original']['p99']:.0f} µs, chosen {figures['chosen']['p99']:.0f} µs")
    return {"rate_per_s": rate, "windows": windows, **figures}


def retest(original: Original, results: StepResults, progress: Progress) -> dict[str, Any]:
    """Check after the load that the chosen file is unchanged, and that its comparison gives the same figures."""
    run = original.run
    step = progress.begin("retest", 1.0)
    chosen = chosen_of(run, results)
    path = run.work.models / str(chosen.file)
    held_out, columns = held_out_of(original) if chosen.held_out else [], results.of("export")["columns"]
    again = evaluate_candidate(original, chosen.name, chosen.how, path, columns, held_out=held_out)
    if again.digest != chosen.digest:
        raise AfterLoadError(f"{path.name} changed since its evaluation", next_step="run again with  --fresh")
    if again.comparison != chosen.comparison:
        raise AfterLoadError(f"{path.name} answers differently since its evaluation", next_step="serve the original")
    rows = len(original.comparison_rows.kinds)
    step.end(f"{rows:,} rows as before")
    return {"rows": rows, "digest": chosen.digest, "rollback": run.subject.digest}


def same_served(server: Served, inputs: dict[str, Any], output: str, model: Model) -> None:
    """After load the served model must return the engine's exact bits; both get one row at a time."""
    expected = table_of(model, output, inputs, rows_max=1)
    results = np.asarray(server.answers(inputs, output), dtype=np.float64).reshape(expected.shape)
    if not np.array_equal(results, expected, equal_nan=True):
        raise AfterLoadError("the chosen model answers differently under load", next_step="serve the original")


def _medians(windows: list[dict[str, Any]]) -> dict[str, float]:
    return {name: median(one[name] for one in windows) for name in ("p50", "p95", "p99", "p999")} | {
        "max": max(one["max"] for one in windows),
        "failed": sum(one["failed"] + one["refused"] + one["timed_out"] for one in windows),
    }
