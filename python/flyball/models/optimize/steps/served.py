"""Steps 9 to 11: the chosen model beside the original, served: at a steady rate, under bursts, and once more after the load.

Both are up at once and take turns window by window, so that what the machine does meanwhile hits both.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from flyball.errors import FlyballError
from flyball.models.optimize.answers import table_of
from flyball.models.optimize.candidate import judged
from flyball.models.optimize.choice import choose
from flyball.models.optimize.serving import bursts, figures_of, served, steady
from flyball.models.optimize.steps.batch import batch_rows_max, candidates_of
from flyball.models.optimize.steps.quantise import held_out_of
from flyball.native.model_runs import Model

if TYPE_CHECKING:
    from flyball.bench.progress import Progress
    from flyball.models.optimize.candidate import Candidate
    from flyball.models.optimize.original import Original
    from flyball.models.optimize.pipeline import Found
    from flyball.models.optimize.run import Run
    from flyball.models.optimize.serving import Served

_REPEATS = 3
_LOAD = 0.4  # of what one core could do with the original
_RATE_MAX = 2000.0
_ASKED_AGAIN = 64


class AfterLoadError(FlyballError):
    """A model that answers otherwise after load than before must not serve."""

    code = "answers_changed"
    exit_code = 4


def chosen_of(run: Run, found: Found) -> Candidate:
    """From the candidates and their figures."""
    candidates = candidates_of(found)
    name = choose(candidates, found.of("batch")["figures"], run.budget).chosen
    return next(one for one in candidates if one.name == name)


@dataclass(frozen=True, slots=True)
class Loaded:
    """Windows at a steady rate, or with bursts."""

    run_of: Run
    name: Literal["benchmark", "burst"]

    def settings(self) -> dict[str, Any]:
        """How long, and how often."""
        return {"seconds": self.run_of.seconds, "repeats": _REPEATS, "load": _LOAD}

    def run(self, found: Found, progress: Progress) -> dict[str, Any]:
        """In turns."""
        run = self.run_of
        rate = min(_LOAD * 1e6 / found.of("baseline")["model"]["p50_us"], _RATE_MAX)
        arrivals = steady(rate) if self.name == "benchmark" else bursts(rate)
        chosen, rows = chosen_of(run, found), run.rows.narrowed(found.of("export")["columns"])
        file, rows_max = run.work.models / str(chosen.file), batch_rows_max(found.of("batch"), chosen.name)
        step = progress.begin(self.name, float(2 * _REPEATS))
        windows: dict[str, list[dict[str, Any]]] = {"original": [], "chosen": []}
        with ExitStack() as stack:
            up = {
                "original": stack.enter_context(served(run.subject.name, run.subject.model, run.rows)),
                "chosen": stack.enter_context(served(run.subject.name, file, rows, rows_max)),
            }
            for turn in range(_REPEATS):
                for place, (who, server) in enumerate(up.items()):
                    step.update(float(2 * turn + place), f"{who}, {rate:,.0f}/s")
                    windows[who].append(figures_of(server.load(arrivals, run.seconds)))
            inputs = rows.some(slice(0, _ASKED_AGAIN))
            same_served(up["chosen"], inputs, run.subject.output, Model(file))
        told = {who: _medians(each) for who, each in windows.items()}
        step.end(f"p99 {told['original']['p99']:.0f} µs, chosen {told['chosen']['p99']:.0f} µs")
        return {"rate_per_s": rate, "windows": windows, **told}


@dataclass(frozen=True, slots=True)
class Retest:
    """The chosen model's answers once more, and what a rollback would bring back."""

    original: Original
    name: str = "retest"

    def settings(self) -> dict[str, Any]:
        """It depends on what came before alone."""
        return {}

    def run(self, found: Found, progress: Progress) -> dict[str, Any]:
        """The file that was judged, and to the last figure as far from the original as then."""
        run = self.original.run
        step = progress.begin("retest", 1.0)
        chosen = chosen_of(run, found)
        path = run.work.models / str(chosen.file)
        held_out = held_out_of(self.original) if chosen.held_out else []
        again = judged(self.original, chosen.name, chosen.how, path, found.of("export")["columns"], held_out=held_out)
        if again.digest != chosen.digest:
            raise AfterLoadError(f"{path.name} is no longer the file that was judged", next_step="run again with  --fresh")
        if again.comparison != chosen.comparison:
            raise AfterLoadError(f"{path.name} answers otherwise than when it was judged", next_step="serve the original")
        rows = len(self.original.asked.kinds)
        step.end(f"{rows:,} rows as before")
        return {"rows": rows, "digest": chosen.digest, "rollback": run.subject.digest}


def same_served(server: Served, inputs: dict[str, Any], output: str, model: Model) -> None:
    """After its load the served model must give the bits that the engine alone gives; both are asked row by row."""
    expected = table_of(model, output, inputs, rows_max=1)
    found = np.asarray(server.answers(inputs, output), dtype=np.float64).reshape(expected.shape)
    if not np.array_equal(found, expected, equal_nan=True):
        raise AfterLoadError("served under load, the chosen model answers otherwise", next_step="serve the original")


def _medians(windows: list[dict[str, Any]]) -> dict[str, float]:
    return {name: median(one[name] for one in windows) for name in ("p50", "p95", "p99", "p999")} | {
        "max": max(one["max"] for one in windows),
        "failed": sum(one["failed"] + one["refused"] + one["timed_out"] for one in windows),
    }
