"""Step 6: saves ONNX Runtime's optimised graphs, which skips optimisation at load; also with rows fixed to one.

The engine optimises at load anyway, so these mainly gain load time; fixed shapes allow more folding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.errors import ModelRefusedError, ServerFaultError
from flyball.models.optimize.candidate import Candidate, evaluate_candidate
from flyball.models.optimize.rewrite import Graph, Rewrite, RewriteRefusedError, rewrite
from flyball.models.optimize.steps.export import EXPORTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flyball.bench.progress import Progress
    from flyball.models.optimize.original import Original
    from flyball.models.optimize.pipeline import StepResults
    from flyball.models.optimize.subject import Subject

_VARIANTS: dict[str, tuple[str, Rewrite | None]] = {
    "float32": ("as exported", None),
    "basic": ("ONNX Runtime's basic optimisations, saved", Graph(level="basic")),
    "extended": ("its extended optimisations, saved: for this CPU type", Graph(level="extended")),
    "one-row": ("the same with one row per run, for an unbatched model", Graph(level="extended", rows=1)),
}


def graph_settings(original: Original) -> dict[str, Any]:
    """The variants, and the criteria."""
    return {"variants": list(variants(original.run.subject)), **criteria(original)}


def variants(subject: Subject) -> dict[str, tuple[str, Rewrite | None]]:
    """The variants that could serve: a decision's rows share runs, so its model must have free rows."""
    if subject.decision is None:
        return _VARIANTS
    return {
        name: (how, request)
        for name, (how, request) in _VARIANTS.items()
        if not (isinstance(request, Graph) and request.rows is not None)
    }


def graphs(original: Original, results: StepResults, progress: Progress) -> dict[str, Any]:
    """Make and evaluate one candidate per graph variant."""
    tried = variants(original.run.subject)
    step = progress.begin("graph", float(len(tried)))
    _ = original.labels  # labels that do not fit the answers end the run here, before any evaluation
    made = []
    for done, (name, (how, request)) in enumerate(tried.items()):
        step.update(float(done), name)
        made.append(attempt(original, results, name, how=how, request=request))
    step.end(f"{sum(one.accepted for one in made)} of {len(made)} accepted")
    return {"candidates": [one.model_dump() for one in made]}


def criteria(original: Original) -> dict[str, Any]:
    """Everything that a verdict depends on, apart from model and rows."""
    run = original.run
    return {"bound": run.bound, "bars": run.bars.model_dump(), "thresholds": run.subject.thresholds}


def attempt(
    original: Original,
    results: StepResults,
    name: str,
    *,
    how: str,
    request: Rewrite | None,
    calibration: Any = None,
    held_out: Sequence[int] = (),
) -> Candidate:
    """Make and evaluate a candidate. If its rewrite, load or run fails, it is a refused candidate.

    Other errors, such as labels that do not fit, concern all candidates and end the run.
    """
    run = original.run
    target = run.work.models / (EXPORTED if request is None else f"{name}.onnx")
    try:
        if request is not None:
            results.models[target.name] = rewrite(request, run.work.models / EXPORTED, target, calibration)
        return evaluate_candidate(original, name, how, target, results.of("export")["columns"], held_out=held_out)
    except (RewriteRefusedError, ModelRefusedError, ServerFaultError) as error:
        if request is None:
            raise
        return Candidate(name=name, how=how, failed=error.message)
