"""Step 4: exports the working model: free row axis, only the relevant output and the used columns.

Columns are removed only from a decision's model: a decision adapts, but callers of a bare model would have to.
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Export:
    """Writes float32.onnx, the source of every candidate."""

    run_of: Run
    name: str = "export"

    def settings(self) -> dict[str, Any]:
        """The kept output; columns follow from the model."""
        return {"output": self.run_of.subject.output}

    def run(self, results: StepResults, progress: Progress) -> dict[str, Any]:
        """Trim the model."""
        subject, work = self.run_of.subject, self.run_of.work
        step = progress.begin("export", 1.0)
        before = [one.name for one in model_files(subject.model).outputs]
        columns = self._columns()
        request = Trim(outputs=[subject.output], name=subject.name, columns=columns)
        results.models[EXPORTED] = rewrite(request, subject.model, work.models / EXPORTED)
        outputs = [name for name in before if name != subject.output]
        names = self.run_of.rows.names
        cut = [] if columns is None else [name for index, name in enumerate(names) if index not in columns]
        step.end(f"without {', '.join(outputs + cut)}" if outputs or cut else "unchanged")
        return {
            "model": EXPORTED,
            "digest": results.models[EXPORTED],
            "outputs_cut": outputs,
            "columns": columns,
            "columns_cut": cut,
        }

    def _columns(self) -> list[int] | None:
        """The columns that the model or its explanation uses; None if all are used or none can be removed."""
        subject, width = self.run_of.subject, self.run_of.rows.width
        used = None if subject.decision is None else columns_used(subject.model)
        if subject.decision is None or used is None:
            return None
        kept = sorted((used | columns_explained(subject.decision)) or {0})
        return kept if len(kept) < width else None
