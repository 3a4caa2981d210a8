"""Figures of a candidate: flipped outcomes, also by segment, score shift, and error rates.

Rates have Wilson intervals, differences on the same rows Newcombe intervals. Must not know how pairs were made.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.statistics.intervals import LEVEL, Pairs, Rate, difference, mean_interval, wilson

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from flyball.decision_log.replay.candidate import Pair, Trial

BINS = 4
SEGMENTS_MAX = 50
_OTHERS = ("all others",)
_SCORE_BINS = 10
_QUANTILES = (0.01, 0.05, 0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Share:
    """An outcome's share, recorded and by the candidate, and the difference on the same rows."""

    outcome: str
    was: Rate
    now: Rate
    difference: Rate


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows with the same values, their flip rate, and their shares by outcome."""

    values: tuple[str, ...]
    rows: int
    flips: Rate
    shares: list[Share]


@dataclass(frozen=True, slots=True)
class Shift:
    """The shift of scores by row, PSI over deciles of the recorded ones, and the Kolmogorov distance."""

    rows: int
    mean: Rate
    quantiles: dict[str, float]
    largest: float
    psi: float
    distance: float


@dataclass(frozen=True, slots=True)
class Error:
    """One kind of error: number of rows, both rates, and their difference."""

    name: str
    rows: int
    was: Rate
    now: Rate
    difference: Rate


@dataclass(frozen=True, slots=True)
class Figures:
    """All figures of a trial."""

    rows: int
    matrix: dict[str, dict[str, int]]
    flips: Rate
    shares: list[Share]
    segments: list[Segment]
    shift: Shift | None
    errors: list[Error]
    level: float = LEVEL


def figures(
    trial: Trial,
    truths: Mapping[str, Any],
    *,
    bad: Collection[str] = (),
    stopped: Collection[str] = (),
    level: float = LEVEL,
) -> Figures:
    """Compute the figures; `truths` by decision id, `bad` truths should have had an outcome in `stopped`."""
    pairs = trial.pairs
    outcomes = _outcomes(trial)
    matrix = {was: dict.fromkeys(outcomes, 0) for was in outcomes}
    for pair in pairs:
        matrix[pair.was][pair.now] += 1
    return Figures(
        rows=len(pairs),
        matrix=matrix,
        flips=_flips(pairs, level),
        shares=_shares(pairs, outcomes, level),
        segments=_segments(trial, outcomes, level) if trial.fields else [],
        shift=_shift(pairs, level),
        errors=errors(pairs, truths, bad or (), stopped or _stopped(trial), level),
        level=level,
    )


def errors(
    pairs: Iterable[Pair], truths: Mapping[str, Any], bad: Collection[str], stopped: Collection[str], level: float = LEVEL
) -> list[Error]:
    """Rates of missed, wrongly stopped and all wrong rows, among rows with a known truth."""
    counts: dict[str, Counter[tuple[bool, bool]]] = {name: Counter() for name in ("missed", "wrongly stopped", "wrong")}
    for pair in pairs:
        is_bad = _is_bad(truths.get(pair.id), bad)
        if is_bad is None:
            continue
        wrong = ((pair.was in stopped) != is_bad, (pair.now in stopped) != is_bad)
        counts["missed" if is_bad else "wrongly stopped"][wrong] += 1
        counts["wrong"][wrong] += 1
    found = []
    for name, count in counts.items():
        both = _pairs(count)
        if both.rows:
            found.append(Error(name, both.rows, *_rates(both, level)))
    return found


def _is_bad(truth: object, bad: Collection[str]) -> bool | None:
    """Whether a truth is one of `bad`; without any, true and 1 are bad. None if unknown."""
    if truth is None or isinstance(truth, dict):
        return None
    text = _text(truth)
    if bad:
        return text in bad
    return {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}.get(text)


def _outcomes(trial: Trial) -> list[str]:
    """The candidate's outcomes in its policy's order, then those only in records."""
    return list(dict.fromkeys([*trial.outcomes, *sorted({pair.was for pair in trial.pairs})]))


def _stopped(trial: Trial) -> list[str]:
    """The policy's adverse outcomes; without any, all but its first."""
    return trial.adverse or trial.outcomes[1:]


def _flips(pairs: Sequence[Pair], level: float) -> Rate:
    return wilson(sum(pair.was != pair.now for pair in pairs), len(pairs), level)


def _shares(pairs: Sequence[Pair], outcomes: Iterable[str], level: float) -> list[Share]:
    found = []
    for outcome in outcomes:
        count = Counter((pair.was == outcome, pair.now == outcome) for pair in pairs)
        both = _pairs(count)
        if both.neither < both.rows:
            found.append(Share(outcome, *_rates(both, level)))
    return found


def _rates(pairs: Pairs, level: float) -> tuple[Rate, Rate, Rate]:
    """The rates of the first and the second question, and their difference."""
    was, now = (wilson(pairs.both + only, pairs.rows, level) for only in (pairs.first, pairs.second))
    return was, now, difference(pairs, level)


def _pairs(count: Counter[tuple[bool, bool]]) -> Pairs:
    return Pairs(count[True, True], count[True, False], count[False, True], count[False, False])


def _segments(trial: Trial, outcomes: Sequence[str], level: float) -> list[Segment]:
    """The largest segments, and all others as one."""
    columns = [_labels([pair.segment[index] for pair in trial.pairs]) for index in range(len(trial.fields))]
    by_values: dict[tuple[str, ...], list[Pair]] = {}
    for pair, values in zip(trial.pairs, zip(*columns, strict=True), strict=True):
        by_values.setdefault(values, []).append(pair)
    ordered = sorted(by_values.items(), key=lambda item: (-len(item[1]), item[0]))
    kept, rest = ordered[:SEGMENTS_MAX], ordered[SEGMENTS_MAX:]
    if rest:
        kept.append((_OTHERS, [pair for _, pairs in rest for pair in pairs]))
    return [Segment(values, len(pairs), _flips(pairs, level), _shares(pairs, outcomes, level)) for values, pairs in kept]


def _labels(values: Sequence[Any]) -> list[str]:
    """A label per value; numbers get their quantile range if there are more distinct ones than bins."""
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(set(numbers)) <= BINS:
        return [_text(value) for value in values]
    edges = np.unique(np.quantile(np.asarray(numbers, float), np.linspace(0, 1, BINS + 1)))
    return [
        _range(edges, float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else _text(value)
        for value in values
    ]


def _range(edges: Any, value: float) -> str:
    """The range of a value; ranges include their lower end, the last one both."""
    index = min(int(np.searchsorted(edges, value, side="right")) - 1, len(edges) - 2)
    return f"{edges[index]:.6g}..{edges[index + 1]:.6g}"


def _text(value: Any) -> str:
    if value is None:
        return "missing"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shift(pairs: Sequence[Pair], level: float) -> Shift | None:
    scored = [
        (pair.was_score, pair.now_score) for pair in pairs if pair.was_score is not None and pair.now_score is not None
    ]
    if not scored:
        return None
    was, now = np.asarray(scored, float).T
    moved = now - was
    return Shift(
        rows=len(scored),
        mean=mean_interval(moved.tolist(), level),
        quantiles={f"p{share * 100:g}": float(np.quantile(moved, share)) for share in _QUANTILES},
        largest=float(np.abs(moved).max()),
        psi=_psi(was, now),
        distance=_distance(was, now),
    )


def _psi(was: Any, now: Any) -> float:
    """Population stability index over deciles of `was`; an empty bin counts as half a row."""
    edges = np.unique(np.quantile(was, np.linspace(0, 1, _SCORE_BINS + 1)))[1:-1]
    bins = len(edges) + 1
    one, other = (np.bincount(np.searchsorted(edges, side, side="right"), minlength=bins) for side in (was, now))
    shares_one, shares_other = (np.maximum(side, 0.5) / len(was) for side in (one, other))
    return float(np.sum((shares_other - shares_one) * np.log(shares_other / shares_one)))


def _distance(was: Any, now: Any) -> float:
    """The largest gap between the two distribution functions."""
    at = np.concatenate([was, now])
    one, other = (np.searchsorted(np.sort(side), at, side="right") / len(side) for side in (was, now))
    return float(np.abs(one - other).max())
