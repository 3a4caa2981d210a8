"""Step 8: how long a run takes with one row and with more, all candidates in turn, and the batch size that pays.

Candidates take turns, so that a noisy moment hits all of them; medians over the rounds count.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.models.optimize.candidate import Candidate
from flyball.native.model_runs import Model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flyball.bench.progress import Progress
    from flyball.models.optimize.pipeline import Found
    from flyball.models.optimize.run import Run

_ROWS = (1, 2, 4, 8, 16, 32)
_ROUNDS = 7
_ROUND = 0.008  # of a served window: 40 ms where that is 5 s
_RUNS = (5, 2000)
_GAIN = 0.95  # a larger batch must take so much less time a row
_INLINE_US = 1000.0  # a longer run would hold up the other requests of its core


@dataclass(frozen=True, slots=True)
class Batch:
    """Times of all candidates that can be loaded, those that were refused too."""

    run_of: Run
    name: str = "batch"

    def settings(self) -> dict[str, Any]:
        """What is measured, and how often."""
        return {"rows": _ROWS, "rounds": _ROUNDS, "round_s": self._round_s}

    @property
    def _round_s(self) -> float:
        return self.run_of.seconds * _ROUND

    def run(self, found: Found, progress: Progress) -> dict[str, Any]:
        """Measure all of them in turn."""
        candidates = [one for one in candidates_of(found) if one.failed is None]
        models = {one.name: Model(self.run_of.work.models / str(one.file)) for one in candidates}
        step = progress.begin("batch", float(_ROUNDS * len(_ROWS)))
        figures: dict[str, dict[int, list[dict[str, float]]]] = {name: {} for name in models}
        random = np.random.default_rng(8)
        given = self.run_of.rows.narrowed(found.of("export")["columns"])
        for done, (rows, _) in enumerate((rows, turn) for rows in _ROWS for turn in range(_ROUNDS)):
            step.update(float(done), f"{rows} row{'s' * (rows > 1)} a run")
            inputs = given.some(random.integers(0, given.count, rows).tolist())
            for one in candidates:
                if rows > 1 and not one.batching:
                    continue
                told = models[one.name].measure(inputs, runs=_runs(models[one.name], inputs, self._round_s), warm_runs=3)
                figures[one.name].setdefault(rows, []).append(told.model_dump())
        measured = {one.name: _settled(figures[one.name]) for one in candidates}
        step.end(", ".join(f"{name} {told['1']['p50_us']:.0f} µs" for name, told in measured.items()))
        return {"figures": measured, "rows_max": {name: rows_max(told) for name, told in measured.items()}}


def candidates_of(found: Found) -> list[Candidate]:
    """All of them, in the order in which they were made."""
    return candidates_in(found.documents)


def candidates_in(documents: Mapping[str, dict[str, Any]]) -> list[Candidate]:
    """The same, from the documents of all steps."""
    made = [*documents["graph"]["candidates"], *documents["quantise"]["candidates"]]
    return [Candidate.model_validate(one) for one in made]


def rows_max(figures: dict[str, dict[str, float]]) -> int:
    """The largest batch of which a row still costs clearly less than before, and which does not hold up others."""
    best, cost = 1, figures["1"]["p50_us"]
    for rows in _ROWS[1:]:
        told = figures.get(str(rows))
        if told is None or told["p50_us"] > _INLINE_US or told["p50_us"] / rows > cost * _GAIN:
            break
        best, cost = rows, told["p50_us"] / rows
    return best


def batch_rows_max(document: Mapping[str, Any], name: str) -> int | None:
    """What a server should be told for this candidate; None where its default does, for all batches paid."""
    found: int = document["rows_max"][name]
    return found if found < _ROWS[-1] else None


def _runs(model: Model, inputs: dict[str, Any], round_s: float) -> int:
    """As many as fill a round."""
    one = model.measure(inputs, runs=3, warm_runs=1).p50_us
    low, high = _RUNS
    return int(min(max(round_s * 1e6 / max(one, 1.0), low), high))


def _settled(by_rows: dict[int, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    return {str(rows): _medians(rounds) for rows, rounds in by_rows.items()}


def _medians(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    names = ("p50_us", "p95_us", "p99_us", "p999_us", "cpu_us")
    return {name: median(one[name] for one in rounds) for name in names} | {"max_us": max(one["max_us"] for one in rounds)}
