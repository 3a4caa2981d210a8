"""How much worse a candidate is than the original on labelled rows, with an interval of the difference on the same rows.

Two classes: AUC (DeLong's paired variance), log loss, accuracy. More classes: log loss and accuracy. Numbers: RMSE, by its
relative rise. Closed formulas, no random draws. Must not know what loss is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from flyball.errors import InvalidInputError, needing
from flyball.models.equivalence.segments import LeftOut, segments_of
from flyball.statistics.intervals import Pairs, difference, mean_interval

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Figure = Literal["auc", "logloss", "accuracy", "rmse"]
Task = Literal["two_classes", "classes", "numbers"]
_OF_A_CLASS_MIN = 2  # of a single one there is no variance, and an AUC without an interval says nothing
_LEAST = 1e-15  # no probability is taken for less: one sure mistake would be an infinite loss


class Quality(BaseModel):
    """One figure of both, over all rows or a segment. `loss` is above 0 where the candidate is worse."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    """The truth of each row, and by which threshold a score is a yes where there are two classes."""

    truth: Floats
    task: Task
    threshold: float = 0.5

    def __getitem__(self, chosen: NDArray[np.bool_]) -> Labels:
        return Labels(self.truth[chosen], self.task, self.threshold)

    @property
    def tell(self) -> bool:
        """Whether there are rows enough, of two classes of each, to make figures of."""
        fewest = len(self.truth)
        if self.task == "two_classes":
            yes = int((self.truth == 1).sum())
            fewest = min(yes, fewest - yes)
        return fewest >= _OF_A_CLASS_MIN


def labels_of(column: NDArray[np.generic], answers: Floats, *, threshold: float = 0.5) -> Labels:
    """Read a column of labels. What they are is told by the answers: several a row are classes, one with 0 and 1 two."""
    try:
        truth = np.asarray(column).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"labels must be numbers: {error}", next_step="number the classes from 0") from error
    if not np.isfinite(truth).all():
        raise InvalidInputError("a label is missing or infinite", next_step="leave rows without a label out")
    if len(truth) < _OF_A_CLASS_MIN:
        raise InvalidInputError("one row shows nothing", next_step="give more rows with a label")
    if answers.ndim == 2 and answers.shape[1] > 1:
        classes = answers.shape[1]
        if not np.isin(truth, np.arange(classes)).all():
            raise InvalidInputError(
                f"labels are not all of 0 to {classes - 1}, which the model's {classes} classes are",
                next_step="number the classes from 0, in the order of the output's elements",
            )
        return Labels(truth, "classes", threshold)
    if np.isin(truth, (0.0, 1.0)).all():
        labels = Labels(truth, "two_classes", threshold)
        if not labels.tell:
            raise InvalidInputError(
                f"fewer than {_OF_A_CLASS_MIN} rows of a class show nothing", next_step="give rows of both classes"
            )
        return labels
    finite = answers[np.isfinite(answers)]
    if len(values := np.unique(truth)) == 2 and len(finite) and finite.min() >= 0 and finite.max() <= 1:
        # As numbers they would be judged by an RMSE that is all label and no score, and nearly nothing would move it.
        raise InvalidInputError(
            f"labels are {values[0]:g} and {values[1]:g}, and answers lie between 0 and 1, as chances of a yes do",
            next_step="write 0 and 1",
        )
    return Labels(truth, "numbers", threshold)


def qualities(
    labels: Labels, expected: Floats, found: Floats, segments: NDArray[np.generic] | None = None
) -> tuple[list[Quality], list[LeftOut]]:
    """All figures over all rows, then by segment; segments that tell nothing are told apart."""
    if not len(labels.truth) == len(expected) == len(found):
        raise InvalidInputError(
            f"{len(labels.truth)} labels, {len(expected)} and {len(found)} answers are not of the same rows",
            next_step="give one label and one answer of each model for each row",
        )
    told = list(_figures(labels, expected, found, None))
    if segments is None:
        return told, []
    chosen, left_out = segments_of(segments)
    for name, rows in chosen.items():
        if labels[rows].tell:
            told += _figures(labels[rows], expected[rows], found[rows], name)
        else:
            why = f"fewer than {_OF_A_CLASS_MIN} rows of a class"
            left_out.append(LeftOut(segment=name, rows=int(rows.sum()), why=why))
    return told, left_out


def _figures(labels: Labels, expected: Floats, found: Floats, segment: str | None) -> Iterator[Quality]:
    rows = len(labels.truth)

    def told(figure: Figure, was: float, now: float, loss: float, interval: tuple[float, float]) -> Quality:
        low, high = interval
        return Quality(figure=figure, segment=segment, rows=rows, was=was, now=now, loss=loss, low=low, high=high)

    if labels.task == "numbers":
        first, second = ((answers.reshape(rows) - labels.truth) ** 2 for answers in (expected, found))
        was, now = float(np.sqrt(first.mean())), float(np.sqrt(second.mean()))
        scale = max(was, np.finfo(np.float64).tiny)
        rise = mean_interval((second - first).tolist())
        # The square root's slope turns a rise of the mean square into one of the root.
        yield told("rmse", was, now, now / scale - 1, (rise.low / (2 * scale * scale), rise.high / (2 * scale * scale)))
        return
    if labels.task == "two_classes":
        expected, found = expected.reshape(rows), found.reshape(rows)
        yield told("auc", *_auc(labels.truth == 1, expected, found))
    worse = _log_loss(labels, found) - _log_loss(labels, expected)
    rise = mean_interval(worse.tolist())
    was, now = float(_log_loss(labels, expected).mean()), float(_log_loss(labels, found).mean())
    yield told("logloss", was, now, now - was, (rise.low, rise.high))
    right = _right(labels, expected), _right(labels, found)
    pairs = _pairs(*right)
    drop = difference(pairs)
    was, now = float(right[0].mean()), float(right[1].mean())
    yield told("accuracy", was, now, was - now, (-drop.high, -drop.low))


def _log_loss(labels: Labels, answers: Floats) -> Floats:
    """Of each row."""
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
    """Both areas, the loss, and its interval by DeLong: the variance of what each row adds to the difference."""
    parts = [_placements(yes, answers) for answers in (expected, found)]
    was, now = (float(above.mean()) for above, _ in parts)
    variance = 0.0
    for side in (0, 1):
        apart = parts[0][side] - parts[1][side]
        variance += float(apart.var(ddof=1)) / len(apart)
    half = 1.959963984540054 * float(np.sqrt(variance))
    return was, now, was - now, (was - now - half, was - now + half)


def _placements(yes: NDArray[np.bool_], answers: Floats) -> tuple[Floats, Floats]:
    """For each yes the share of noes below it, for each no the share of yeses above it; ties count half."""
    with needing("judging accuracy needs scipy", extra="optimize"):
        from scipy.stats import rankdata
    ranks = rankdata(answers)
    positive, negative = answers[yes], answers[~yes]
    above: Floats = (ranks[yes] - rankdata(positive)) / len(negative)
    below: Floats = 1 - (ranks[~yes] - rankdata(negative)) / len(positive)
    return above, below
