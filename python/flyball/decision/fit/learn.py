"""Learns open parameters of transforms from rows, step by step: each step sees the output of those before it.

A step is a transform as in the deployment's document, without its open parameters, and with the author's options for
fitting: `by` (impute, encode), `range` (scale), `quantiles` (bucket), `smoothing` (encode). Uses only NumPy; ties are
broken by order, so that the same rows give the same parameters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from flyball.decision.fit.columns import OPS, Column, Columns, absent, apply, is_text, numbers, texts
from flyball.decision.fit.fitted import FITTED_KEYS, HOW_KEYS, Fitted
from flyball.errors import InvalidInputError

CATEGORIES_MAX = 10_000
SMOOTHING = 20.0
UNKNOWN = -1.0


def is_open(step: Mapping[str, Any]) -> bool:
    """Whether a step has open parameters."""
    keys = FITTED_KEYS.get(step["op"])
    return keys is not None and step.get(keys[0]) is None


def fit_transforms(steps: Sequence[Mapping[str, Any]], columns: Columns, *, target: Column | None = None) -> Fitted:
    """Fit the parameters of every open step."""
    rows = len(next(iter(columns.values()), ()))
    if not rows:
        raise InvalidInputError("no rows to fit on")
    found: list[dict[str, Any]] = []
    here = dict(columns)
    for index, step in enumerate(steps):
        whole = dict(step)
        if step["op"] not in OPS:
            raise InvalidInputError(f"transforms[{index}]: unknown transform {step['op']!r}")
        try:
            if is_open(step):
                parameters = _learn(step, here, target)
                found.append({"at": index, "op": step["op"], "of": list(step["of"]), **parameters})
                whole |= parameters
            here = apply(whole, here)
        except InvalidInputError as error:
            raise InvalidInputError(f"transforms[{index}]: {error.message}", next_step=error.next_step) from error
    return Fitted(rows, found)


def complete(steps: Sequence[Mapping[str, Any]], fitted: Fitted) -> list[dict[str, Any]]:
    """The steps for the deployment's document: with fitted parameters, without fitting options."""
    whole = []
    for index, step in enumerate(steps):
        parameters = fitted.at(index, step["op"], list(step["of"])) if is_open(step) else {}
        if parameters is None:
            raise InvalidInputError(
                f"transforms[{index}]: {step['op']} of {', '.join(step['of'])} was not fitted",
                next_step="fit it:  flyball fit SPEC --data rows.parquet",
            )
        whole.append({key: value for key, value in step.items() if key not in HOW_KEYS and value is not None} | parameters)
    return whole


def _learn(step: Mapping[str, Any], columns: Columns, target: Column | None) -> dict[str, Any]:
    held = []
    for name in step["of"]:
        if name not in columns:
            raise InvalidInputError(f"no column {name!r} to fit on", next_step=f"columns: {', '.join(columns)}")
        held.append((name, columns[name]))
    if step["op"] == "encode":
        return _learn_encode(step, held, target)
    return _LEARN[step["op"]](step, held)


Held = list[tuple[str, Column]]


def _learn_impute(step: Mapping[str, Any], held: Held) -> dict[str, Any]:
    return {"values": [_stand_in(step.get("by"), name, column) for name, column in held]}


def _stand_in(how: str | None, name: str, column: Column) -> Any:
    how = how or ("most_frequent" if is_text(column) else "median")
    there = column[~absent(column)]
    if not len(there):
        raise InvalidInputError(f"column {name!r} is missing in every row", next_step="give the replacement value")
    if how == "most_frequent":
        values, counts = np.unique(there.astype(str) if is_text(column) else there, return_counts=True)
        most = values[int(np.argmax(counts))]  # the first of equals, in order
        return str(most) if is_text(column) else float(most)
    values = numbers(name, there)
    if how == "mean":
        return float(np.mean(values))
    if how == "median":
        return float(np.median(values))
    raise InvalidInputError(f"impute by {how!r}; allowed: mean, median, most_frequent")


def _learn_scale(step: Mapping[str, Any], held: Held) -> dict[str, Any]:
    low, high = step.get("range") or (0.0, 1.0)
    factors, offsets = [], []
    for name, column in held:
        values = _there(name, column)
        least, most = float(values.min()), float(values.max())
        factor = (high - low) / _or_one(most - least)
        factors.append(factor)
        offsets.append(low - least * factor)
    return {"factor": factors, "offset": offsets}


def _learn_standardize(_: Mapping[str, Any], held: Held) -> dict[str, Any]:
    values = [_there(name, column) for name, column in held]
    return {"mean": [float(np.mean(one)) for one in values], "scale": [_or_one(float(np.std(one))) for one in values]}


def _or_one(spread: float) -> float:
    """1 for a column with a single value: it is shifted, not scaled."""
    return spread if spread > 0 else 1.0


def _there(name: str, column: Column) -> Column:
    values = numbers(name, column)
    values = values[~np.isnan(values)]
    if not len(values):
        raise InvalidInputError(f"column {name!r} is missing in every row")
    if not np.isfinite(values).all():
        raise InvalidInputError(f"column {name!r} has infinite values", next_step="clip it first")
    return values


def _learn_bucket(step: Mapping[str, Any], held: Held) -> dict[str, Any]:
    if len(held) != 1:
        raise InvalidInputError("quantiles need one column; give each column its own bucket step")
    count = step.get("quantiles")
    if type(count) is not int or not 2 <= count <= 1000:
        raise InvalidInputError(f"quantiles is {count!r}; allowed: 2 to 1000")
    name, column = held[0]
    shares = np.arange(1, count) / count
    return {"edges": [float(edge) for edge in np.unique(np.quantile(_there(name, column), shares))]}


def _categories(name: str, column: Column) -> list[str]:
    values = sorted({value for value in texts(name, column) if value is not None})
    if not values:
        raise InvalidInputError(f"column {name!r} is missing in every row")
    if len(values) > CATEGORIES_MAX:
        raise InvalidInputError(
            f"column {name!r} has {len(values)} categories; allowed: {CATEGORIES_MAX}", next_step="hash it"
        )
    return values


def _learn_one_hot(_: Mapping[str, Any], held: Held) -> dict[str, Any]:
    return {"values": [_categories(name, column) for name, column in held]}


def _learn_ordinal(step: Mapping[str, Any], held: Held) -> dict[str, Any]:
    unknown = step.get("unknown")
    return {**_learn_one_hot(step, held), "unknown": UNKNOWN if unknown is None else float(unknown)}


def _learn_encode(step: Mapping[str, Any], held: Held, target: Column | None) -> dict[str, Any]:
    by = step.get("by")
    if by == "frequency":
        return {"maps": [_shares(name, column) for name, column in held], "default": [0.0] * len(held)}
    if by != "target":
        raise InvalidInputError(f"encode by {by!r}; allowed: target, frequency")
    if target is None:
        raise InvalidInputError("encode by target needs the target column", next_step="add --target NAME")
    truth = numbers("the target", target)
    if not np.isfinite(truth).all():
        raise InvalidInputError("the target is missing or infinite in some rows", next_step="remove those rows")
    smoothing = float(SMOOTHING if step.get("smoothing") is None else step["smoothing"])
    if smoothing < 0:
        raise InvalidInputError(f"smoothing is {smoothing:g}; allowed: 0 or more")
    mean = float(np.mean(truth))
    maps = [_means(name, column, truth, mean, smoothing) for name, column in held]
    return {"maps": maps, "default": [mean] * len(held)}


def _shares(name: str, column: Column) -> dict[str, float]:
    return {value: float(count / len(column)) for value, count in _counts(name, column).items()}


def _counts(name: str, column: Column) -> dict[str, int]:
    counts = Counter(column)
    return {value: counts[value] for value in _categories(name, column)}


def _means(name: str, column: Column, truth: Column, mean: float, smoothing: float) -> dict[str, float]:
    """The mean target of each category, smoothed by `smoothing` extra rows with the overall mean."""
    counts, sums = _counts(name, column), dict.fromkeys(_categories(name, column), 0.0)
    for value, true in zip(column, truth, strict=True):
        if value is not None:
            sums[value] += float(true)
    return {value: (sums[value] + smoothing * mean) / (count + smoothing) for value, count in counts.items()}


_LEARN: dict[str, Callable[[Mapping[str, Any], Held], dict[str, Any]]] = {
    "impute": _learn_impute,
    "scale": _learn_scale,
    "standardize": _learn_standardize,
    "bucket": _learn_bucket,
    "one_hot": _learn_one_hot,
    "ordinal": _learn_ordinal,
}
