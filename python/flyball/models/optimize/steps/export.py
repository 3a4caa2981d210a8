"""Step 4: exports the working model: free row axis, only the relevant output and the used columns.

Columns are removed only from a decision's model: a decision adapts, but callers of a bare model would have to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.models.optimize.chosen_decision import columns_explained
from flyball.models.optimize.operators import columns_used
from flyball.models.optimize.rewrite import Trim, rewrite
from flyball.native.models import model_files

if TYPE_CHECKING:
    from flyball.bench.progress import Progress
    from flyball.models.optimize.pipeline import StepResults
    from flyball.models.optimize.run import Run

EXPORTED = "float32.onnx"


def export(run: Run, results: StepResults, progress: Progress) -> dict[str, Any]:
    """Write float32.onnx, the source of every candidate."""
    subject, target = run.subject, run.work.models / EXPORTED
    step = progress.begin("export", 1.0)
    before = [one.name for one in model_files(subject.model).outputs]
    columns = _columns(run)
    request = Trim(outputs=[subject.output], name=subject.name, columns=columns)
    results.models[EXPORTED] = rewrite(request, subject.model, target)
    outputs = [name for name in before if name != subject.output]
    cut = [] if columns is None else [name for index, name in enumerate(run.rows.names) if index not in columns]
    step.end(f"without {', '.join(outputs + cut)}" if outputs or cut else "unchanged")
    digest = results.models[EXPORTED]
    return {"model": EXPORTED, "digest": digest, "outputs_cut": outputs, "columns": columns, "columns_cut": cut}


def _columns(run: Run) -> list[int] | None:
    """The columns that the model or its explanation uses; None if all are used or none can be removed."""
    decision = run.subject.decision
    used = None if decision is None else columns_used(run.subject.model)
    if decision is None or used is None:
        return None
    kept = sorted((used | columns_explained(decision)) or {0})
    return kept if len(kept) < run.rows.width else None
