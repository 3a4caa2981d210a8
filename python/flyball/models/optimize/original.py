"""The reference of every comparison: the original model's answers and the labels, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from flyball.models.equivalence.accuracy import Labels, labels_of
from flyball.models.optimize.answers import counted, table_of
from flyball.models.optimize.comparison_rows import GIVEN, ComparisonRows, comparison_rows
from flyball.models.optimize.subject import several_scores
from flyball.native.model_runs import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from flyball.models.optimize.run import Run


_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass
class Original:
    """The original model."""

    run: Run

    @cached_property
    def comparison_rows(self) -> ComparisonRows:
        """The rows that every candidate gets too."""
        return comparison_rows(self.run)

    @cached_property
    def answers(self) -> NDArray[np.float64]:
        """The relevant answers to all rows."""
        subject = self.run.subject
        found = counted(self._table, subject.element)
        if subject.thresholds and found.ndim > 1:  # the file does not declare the number of elements per row
            raise several_scores(subject.output)
        return found

    def given_only(self, told: NDArray[_Scalar]) -> NDArray[_Scalar]:
        """The part of a per-row array for the given rows, which may have labels."""
        given: NDArray[_Scalar] = told[self.comparison_rows.kinds == GIVEN]
        return given

    @cached_property
    def labels(self) -> Labels | None:
        """The labels of all rows, if known; raises if they do not fit the answers."""
        run, truth = self.run, self.run.rows.labels
        if truth is None:
            return None
        element, classes = run.subject.element, self._table.shape[1]
        if element is not None and classes > 1 and np.isin(truth, np.arange(classes)).all():
            truth = (truth == element).astype(np.float64)  # the score is this class's probability against all others
        threshold = run.subject.thresholds[0] if run.subject.thresholds else 0.5
        return labels_of(truth, self.given_only(self.answers), threshold=threshold)

    @cached_property
    def _table(self) -> NDArray[np.float64]:
        return table_of(Model(self.run.subject.model), self.run.subject.output, self.comparison_rows.inputs)
