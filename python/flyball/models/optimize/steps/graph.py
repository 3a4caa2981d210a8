"""Step 6: what ONNX Runtime makes of the graph, written down once instead of at every load; also with the rows fixed to one.

The engine optimises at load anyhow, so these gain load time above all; where shapes are fixed, more may be folded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flyball.errors import ModelRefusedError, ServerFaultError
from flyball.models.optimize.candidate import Candidate, judged
from flyball.models.optimize.rewrite import Graph, RewriteRefusedError, rewrite
from flyball.models.optimize.steps.export import EXPORTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flyball.bench.progress import Progress
    from flyball.models.optimize.original import Original
    from flyball.models.optimize.pipeline import Found
    from flyball.models.optimize.rewrite import Rewrite

_WAYS: dict[str, tuple[str, Rewrite | None]] = {
    "float32": ("as exported", None),
    "basic": ("ONNX Runtime's basic rewrites, written down", Graph(level="basic")),
    "extended": ("its extended rewrites, written down: for this kind of CPU", Graph(level="extended")),
    "one-row": ("the same with one row a run, for a model that is never batched", Graph(level="extended", rows=1)),
}


@dataclass(frozen=True, slots=True)
class Graphs:
    """One candidate for each way."""

    original: Original
    name: str = "graph"

    def settings(self) -> dict[str, Any]:
        """What is tried, and by what it is judged."""
        return {"ways": list(_WAYS), **judging(self.original)}

    def run(self, found: Found, progress: Progress) -> dict[str, Any]:
        """Make each, and judge it."""
        step = progress.begin("graph", float(len(_WAYS)))
        _ = self.original.labels  # that cannot be the truth of these answers end the run here, before anything is judged
        made = []
        for done, (name, (how, way)) in enumerate(_WAYS.items()):
            step.update(float(done), name)
            made.append(attempt(self.original, found, name, how=how, way=way))
        step.end(f"{sum(one.accepted for one in made)} of {len(made)} answer alike")
        return {"candidates": [one.model_dump() for one in made]}


def judging(original: Original) -> dict[str, Any]:
    """All that a verdict depends on beside the model and the rows."""
    run = original.run
    return {"bound": run.bound, "bars": run.bars.model_dump(), "thresholds": run.subject.thresholds}


def attempt(
    original: Original,
    found: Found,
    name: str,
    *,
    how: str,
    way: Rewrite | None,
    calibration: Any = None,
    held_out: Sequence[int] = (),
) -> Candidate:
    """Make a candidate and judge it. A rewrite that fails, or whose model does not load or run, is a refused candidate.

    Anything else, such as labels that cannot be the truth, is of all candidates, and ends the run.
    """
    run = original.run
    target = run.work.models / (EXPORTED if way is None else f"{name}.onnx")
    try:
        if way is not None:
            found.models[target.name] = rewrite(way, run.work.models / EXPORTED, target, calibration)
        return judged(original, name, how, target, found.of("export")["columns"], held_out=held_out)
    except (RewriteRefusedError, ModelRefusedError, ServerFaultError) as error:
        if way is None:
            raise
        return Candidate(name=name, how=how, failed=error.message)
