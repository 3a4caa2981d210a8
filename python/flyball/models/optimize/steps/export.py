"""Step 4: the model as the pipeline works on it: rows left free, only the output that counts, and columns that are asked.

Columns are cut from a decision's model only: its decision feeds the others, callers of a bare model would have to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flyball.models.optimize.chosen_decision import columns_explained
from flyball.models.optimize.operators import columns_asked
from flyball.models.optimize.rewrite import Trim, rewrite
from flyball.native.models import model_files

if TYPE_CHECKING:
    from flyball.bench.progress import Progress
    from flyball.models.optimize.pipeline import Found
    from flyball.models.optimize.run import Run

EXPORTED = "float32.onnx"


@dataclass(frozen=True, slots=True)
class Export:
    """Leaves float32.onnx, from which every candidate is made."""

    run_of: Run
    name: str = "export"

    def settings(self) -> dict[str, Any]:
        """The output that is kept; columns follow from the model."""
        return {"output": self.run_of.subject.output}

    def run(self, found: Found, progress: Progress) -> dict[str, Any]:
        """Trim it."""
        subject, work = self.run_of.subject, self.run_of.work
        step = progress.begin("export", 1.0)
        before = [one.name for one in model_files(subject.model).outputs]
        columns = self._columns()
        way = Trim(outputs=[subject.output], name=subject.name, columns=columns)
        found.models[EXPORTED] = rewrite(way, subject.model, work.models / EXPORTED)
        outputs = [name for name in before if name != subject.output]
        names = self.run_of.rows.names
        cut = [] if columns is None else [name for place, name in enumerate(names) if place not in columns]
        step.end(f"without {', '.join(outputs + cut)}" if outputs or cut else "as it is")
        return {
            "model": EXPORTED,
            "digest": found.models[EXPORTED],
            "outputs_cut": outputs,
            "columns": columns,
            "columns_cut": cut,
        }

    def _columns(self) -> list[int] | None:
        """Those that the model or its explanation asks; None where all are, or where nobody can leave any out."""
        subject, width = self.run_of.subject, self.run_of.rows.width
        asked = None if subject.decision is None else columns_asked(subject.model)
        if subject.decision is None or asked is None:
            return None
        kept = sorted((asked | columns_explained(subject.decision)) or {0})
        return kept if len(kept) < width else None
