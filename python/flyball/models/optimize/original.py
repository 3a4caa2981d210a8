"""What everything is compared with: the answers of the model as it came, and the truth; asked once, whoever wants them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from flyball.models.equivalence.accuracy import labels_of
from flyball.models.optimize.answers import counted, table_of
from flyball.models.optimize.comparison_rows import GIVEN, asked_rows
from flyball.models.optimize.subject import several_scores
from flyball.native.model_runs import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from flyball.models.equivalence.accuracy import Labels
    from flyball.models.optimize.comparison_rows import AskedRows
    from flyball.models.optimize.run import Run


_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass
class Original:
    """The subject's own model."""

    run: Run

    @cached_property
    def asked(self) -> AskedRows:
        """What every candidate is asked, too."""
        return asked_rows(self.run)

    @cached_property
    def answers(self) -> NDArray[np.float64]:
        """To all of them: those that count."""
        subject = self.run.subject
        found = counted(self._table, subject.element)
        if subject.thresholds and found.ndim > 1:  # of a file that does not declare how many elements a row has
            raise several_scores(subject.output)
        return found

    def of_given(self, told: NDArray[_Scalar]) -> NDArray[_Scalar]:
        """Of what is told of all of them, that of the given rows, whose truth may be known."""
        given: NDArray[_Scalar] = told[self.asked.kinds == GIVEN]
        return given

    @cached_property
    def labels(self) -> Labels | None:
        """The truth of all rows, where somebody knows it; raises where it cannot be that of these answers."""
        run, truth = self.run, self.run.rows.labels
        if truth is None:
            return None
        element, classes = run.subject.element, self._table.shape[1]
        if element is not None and classes > 1 and np.isin(truth, np.arange(classes)).all():
            truth = (truth == element).astype(np.float64)  # the score is the chance of this class against all others
        threshold = run.subject.thresholds[0] if run.subject.thresholds else 0.5
        return labels_of(truth, self.of_given(self.answers), threshold=threshold)

    @cached_property
    def _table(self) -> NDArray[np.float64]:
        return table_of(Model(self.run.subject.model), self.run.subject.output, self.asked.inputs)
