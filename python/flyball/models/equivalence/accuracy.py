"""A candidate's loss of accuracy against the original on labelled rows, with a paired interval.

Two classes: AUC (DeLong's paired variance), log loss, accuracy. More classes: log loss and accuracy. Numbers: RMSE, as a
relative increase. Closed formulas, no random draws. Must not know the allowed loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flyball.errors import InvalidInputError, needing
from flyball.models.equivalence.document import Document
from flyball.models.equivalence.segments import SkippedSegment, segments_of
from flyball.statistics.intervals import Pairs, difference, mean_interval

Floats = NDArray[np.float64]


Figure = Literal["auc", "logloss", "accuracy", "rmse"]
Task = Literal["two_classes", "classes", "numbers"]
_OF_A_CLASS_MIN = 2  # one row has no variance, and an AUC without an interval proves nothing
_LEAST = 1e-15  # lower bound for probabilities: one confident mistake would be an infinite loss


class Quality(Document):
    """One figure of both models, over all rows or a segment. `loss` > 0: the candidate is worse."""

    figure: Figure
    segment: str | None
    rows: int
    was: float
    now: float
    loss: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Labels:
    """The true label of each row, and the decision threshold if there are two classes."""

    truth: Floats
    task: Task
    threshold: float = 0.5

    def __getitem__(self, chosen: NDArray[np.bool_]) -> Labels:
        return Labels(self.truth[chosen], self.task, self.threshold)

    @property
    def enough(self) -> bool:
        """Whether there are enough rows, of each class if there are two."""
        fewest = len(self.truth)
        if self.task == "two_classes":
            yes = int((self.truth == 1).sum())
            fewest = min(yes, fewest - yes)
        return fewest >= _OF_A_CLASS_MIN


def labels_of(column: NDArray[np.generic], answers: Floats, *, threshold: float = 0.5) -> Labels:
    """Read a column of labels. Several answers per row mean classes; one answer with labels 0 and 1 means two classes."""
    try:
        truth = np.asarray(column).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"labels must be numbers: {error}", next_step="number the classes from 0") from error
    if not np.isfinite(truth).all():
        raise InvalidInputError("a label is missing or infinite", next_step="remove rows without a label")
    if len(truth) < _OF_A_CLASS_MIN:
        raise InvalidInputError("one labelled row is not enough", next_step="pass more rows with a label")
    if answers.ndim == 2 and answers.shape[1] > 1:
        classes = answers.shape[1]
        if not np.isin(truth, np.arange(classes)).all():
            raise InvalidInputError(
                f"labels must be 0 to {classes - 1}, the model's {classes} classes",
                next_step="number the classes from 0, in the order of the output's elements",
            )
        return Labels(truth, "classes", threshold)
    if np.isin(truth, (0.0, 1.0)).all():
        labels = Labels(truth, "two_classes", threshold)
        if not labels.enough:
            raise InvalidInputError(
                f"each class needs at least {_OF_A_CLASS_MIN} rows", next_step="pass rows of both classes"
            )
        return labels
    finite = answers[np.isfinite(answers)]
    if len(values := np.unique(truth)) == 2 and len(finite) and finite.min() >= 0 and finite.max() <= 1:
        # As numbers they would give an RMSE dominated by the labels, which hardly any change of the score would move.
        raise InvalidInputError(
            f"labels are {values[0]:g} and {values[1]:g}, but answers lie between 0 and 1 like probabilities",
            next_step="use the labels 0 and 1",
        )
    return Labels(truth, "numbers", threshold)


def qualities(
    labels: Labels, expected: Floats, found: Floats, segments: NDArray[np.generic] | None = None
) -> tuple[list[Quality], list[SkippedSegment]]:
    """All figures over all rows, then by segment; segments with too few rows are returned separately."""
    if not len(labels.truth) == len(expected) == len(found):
        raise InvalidInputError(
            f"{len(labels.truth)} labels, {len(expected)} and {len(found)} answers do not match",
            next_step="pass one label and one answer of each model per row",
        )
    figures = list(_figures(labels, expected, found, None))
    if segments is None:
        return figures, []
    chosen, left_out = segments_of(segments)
    for name, rows in chosen.items():
        if labels[rows].enough:
            figures += _figures(labels[rows], expected[rows], found[rows], name)
        else:
            why = f"fewer than {_OF_A_CLASS_MIN} rows of a class"
            left_out.append(SkippedSegment(segment=name, rows=int(rows.sum()), why=why))
    return figures, left_out


def _figures(labels: Labels, expected: Floats, found: Floats, segment: str | None) -> Iterator[Quality]:
    rows = len(labels.truth)

    def figures(figure: Figure, was: float, now: float, loss: float, interval: tuple[float, float]) -> Quality:
        low, high = interval
        return Quality(figure=figure, segment=segment, rows=rows, was=was, now=now, loss=loss, low=low, high=high)

    if labels.task == "numbers":
        first, second = ((answers.reshape(rows) - labels.truth) ** 2 for answers in (expected, found))
        was, now = float(np.sqrt(first.mean())), float(np.sqrt(second.mean()))
        scale = max(was, np.finfo(np.float64).tiny)
        rise = mean_interval((second - first).tolist())
        # The slope of the square root turns an increase of the mean square into one of the root.
        yield figures("rmse", was, now, now / scale - 1, (rise.low / (2 * scale * scale), rise.high / (2 * scale * scale)))
        return
    if labels.task == "two_classes":
        expected, found = expected.reshape(rows), found.reshape(rows)
        yield figures("auc", *_auc(labels.truth == 1, expected, found))
    worse = _log_loss(labels, found) - _log_loss(labels, expected)
    rise = mean_interval(worse.tolist())
    was, now = float(_log_loss(labels, expected).mean()), float(_log_loss(labels, found).mean())
    yield figures("logloss", was, now, now - was, (rise.low, rise.high))
    right = _right(labels, expected), _right(labels, found)
    pairs = _pairs(*right)
    drop = difference(pairs)
    was, now = float(right[0].mean()), float(right[1].mean())
    yield figures("accuracy", was, now, was - now, (-drop.high, -drop.low))


def _log_loss(labels: Labels, answers: Floats) -> Floats:
    """The log loss of each row."""
    sure = np.clip(answers, _LEAST, 1 - _LEAST)
    if labels.task == "classes":
        chosen: Floats = sure[np.arange(len(sure)), labels.truth.astype(np.intp)]
        return -np.log(chosen)
    loss: Floats = -np.where(labels.truth == 1, np.log(sure), np.log1p(-sure))
    return loss


def _right(labels: Labels, answers: Floats) -> NDArray[np.bool_]:
    if labels.task == "classes":
        hit: NDArray[np.bool_] = answers.argmax(axis=1) == labels.truth
        return hit
    decided: NDArray[np.bool_] = (answers >= labels.threshold) == (labels.truth == 1)
    return decided


def _pairs(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> Pairs:
    both, either = int((first & second).sum()), int((first | second).sum())
    return Pairs(both, int(first.sum()) - both, int(second.sum()) - both, len(first) - either)


def _auc(yes: NDArray[np.bool_], expected: Floats, found: Floats) -> tuple[float, float, float, tuple[float, float]]:
    """Both AUCs, the loss, and its DeLong interval: the variance of each row's contribution to the difference."""
    parts = [_placements(yes, answers) for answers in (expected, found)]
    was, now = (float(above.mean()) for above, _ in parts)
    variance = 0.0
    for side in (0, 1):
        apart = parts[0][side] - parts[1][side]
        variance += float(apart.var(ddof=1)) / len(apart)
    half = 1.959963984540054 * float(np.sqrt(variance))
    return was, now, was - now, (was - now - half, was - now + half)


def _placements(yes: NDArray[np.bool_], answers: Floats) -> tuple[Floats, Floats]:
    """Each positive's share of negatives below it, and each negative's share of positives above; ties count half."""
    with needing("accuracy figures need scipy", extra="optimize"):
        from scipy.stats import rankdata
    ranks = rankdata(answers)
    positive, negative = answers[yes], answers[~yes]
    above: Floats = (ranks[yes] - rankdata(positive)) / len(negative)
    below: Floats = 1 - (ranks[~yes] - rankdata(negative)) / len(positive)
    return above, below
