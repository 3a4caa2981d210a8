"""Converts fitted scikit-learn steps to transforms with parameters, and gives the columns in the model's order.

Steps are identified by class name, so scikit-learn is not imported. Steps that a transform cannot reproduce exactly for
float64 input, and unknown steps, are refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flyball.errors import InvalidInputError

UNKNOWN = -1.0


@dataclass(frozen=True, slots=True)
class Translated:
    """Transforms in the form of the deployment's document, and their output columns in the pipeline's order."""

    transforms: list[dict[str, Any]]
    columns: list[str]


def from_sklearn(steps: Any, fields: Sequence[str]) -> Translated:
    """Translate a fitted Pipeline, ColumnTransformer or single step; `fields` are its input columns in order."""
    transforms: list[dict[str, Any]] = []
    wanted = getattr(steps, "n_features_in_", len(fields))
    if wanted != len(fields):
        raise InvalidInputError(f"{_name(steps)} has {wanted} input columns; {len(fields)} were given")
    return Translated(transforms, _convert(steps, list(fields), transforms))


def _convert(step: Any, names: list[str], out: list[dict[str, Any]]) -> list[str]:
    """Add a step's transforms to `out`; return the names of its output columns."""
    if step is None or step == "passthrough":
        return names
    if isinstance(step, str):
        raise InvalidInputError(f"unknown step {step!r}; allowed: 'passthrough', 'drop'")
    convert = _STEPS.get(_name(step)) if type(step).__module__.partition(".")[0] == "sklearn" else None
    if convert is None:
        known = ", ".join(sorted(_STEPS))
        raise InvalidInputError(
            f"{_name(step)} cannot be converted to transforms",
            next_step=f"supported: {known}; pass the pipeline without its model:  from_sklearn(pipeline[:-1], fields)",
        )
    return convert(step, names, out)


def _name(step: Any) -> str:
    return type(step).__name__


def _refused(step: Any, why: str) -> InvalidInputError:
    return InvalidInputError(f"{_name(step)}: {why}")


def _fitted(step: Any, attribute: str) -> Any:
    if not hasattr(step, attribute):
        raise _refused(step, "it is not fitted")
    return getattr(step, attribute)


def _floats(step: Any, values: Any) -> list[float]:
    made = [float(value) for value in values]
    if not all(math.isfinite(value) for value in made):
        raise _refused(step, "a fitted value is missing or infinite; was a column empty when it was fitted?")
    return made


def _pipeline(step: Any, names: list[str], out: list[dict[str, Any]]) -> list[str]:
    for _, inner in step.steps:
        names = _convert(inner, names, out)
    return names


def _column_transformer(step: Any, names: list[str], out: list[dict[str, Any]]) -> list[str]:
    known = list(getattr(step, "feature_names_in_", names))
    branches = [(label, inner, _picked(step, chosen, known)) for label, inner, chosen in _fitted(step, "transformers_")]
    branches = [(label, inner, indexes) for label, inner, indexes in branches if indexes and not _drops(inner)]
    made: list[str] = []
    owners: dict[int, str] = {}
    for label, inner, indexes in branches:
        before = len(out)
        made += _convert(inner, [names[index] for index in indexes], out)
        for index in indexes:
            # A transform replaces its column, so a second branch would not find its input.
            if index in owners and (len(out) > before or owners[index]):
                raise _refused(step, f"column {names[index]!r} is used by {owners[index] or label!r} and another branch")
            owners[index] = label if len(out) > before else owners.get(index, "")
    return made


def _drops(inner: Any) -> bool:
    return isinstance(inner, str) and inner == "drop"


def _picked(step: Any, chosen: Any, known: list[str]) -> list[int]:
    """The indexes of a branch's columns, from names, indexes, a slice or a mask."""
    if isinstance(chosen, str):
        chosen = [chosen]
    if isinstance(chosen, slice) and not isinstance(chosen.start, str) and not isinstance(chosen.stop, str):
        return list(range(len(known)))[chosen]
    if isinstance(chosen, slice) or callable(chosen):
        raise _refused(step, "columns are selected by a slice of names or a function; list them")
    listed = [chosen] if isinstance(chosen, int) else list(chosen)
    if listed and all(isinstance(one, bool | np.bool_) for one in listed):
        return [index for index, selected in enumerate(listed) if selected]
    return [known.index(one) if isinstance(one, str) else int(one) for one in listed]


def _standard(step: Any, names: list[str], out: list[dict[str, Any]]) -> list[str]:
    _fitted(step, "n_samples_seen_")
    mean = _floats(step, step.mean_) if step.with_mean else [0.0] * len(names)
    scale = _floats(step, step.scale_) if step.with_std else [1.0] * len(names)
    out.append({"op": "standardize", "of": names, "mean": mean, "scale": scale})
    return names


def _min_max(step: Any, names: list[str], out: list[dict[str, Any]]) -> list[str]:
    factor = _floats(step, _fitted(step, "scale_"))
    out.append({"op": "scale", "of": names, "factor": factor, "offset": _floats(step, step.min_)})
    if step.clip:
        low, high = _floats(step, step.feature_range)
        out.append({"op": "clip", "of": names, "min": low, "max": high})
    return names


def _imputer(step: Any, names: list[str], out: list[dict[str, Any]]) -> list[str]:
    statistics = _fitted(step, "statistics_")
    if not (step.missing_values is None or (isinstance(step.missing_values, float) and math.isnan(step.missing_values))):
        raise _refused(step, f"missing_values is {step.missing_values!r}; allowed: NaN, None")
    values = [str(one) if isinstance(one, str) else _floats(step, [one])[0] for one in statistics]
    out.append({"op": "impute", "of": names, "values": values, "indicator": bool(step.add_indicator)})
    flagged = step.indicator_.features_ if step.add_indicator else []
    return [*names, *(f"{names[int(index)]}=missing" for index in flagged)]


def _texts(step: Any, name: str, categories: Any, out: list[dict[str, Any]]) -> list[str]:
    """Categories as text: whole numbers are cast, and a missing category gets its own text."""
    there = [value for value in categories if not _is_missing(value)]
    if there and all(isinstance(value, bool | np.bool_ | int | np.integer | float | np.floating) for value in there):
        if not all(float(value).is_integer() for value in there):
            raise _refused(step, f"the categories of {name!r} are fractional numbers; bin them first")
        out.append({"op": "cast", "of": [name], "to": "text"})
        there = [str(int(value)) for value in there]
    if not all(isinstance(value, str) for value in there):
        raise _refused(step, f"the categories of {name!r} are neither all text nor all whole numbers")
    if len(there) == len(categories):
        return [str(value) for value in there]
    if len(there) < len(categories) - 1:
        raise _refused(step, f"{name!r} has both None and NaN; use one of them")
    out.append({"op": "impute", "of": [name], "values": [_missing_text(there)], "indicator": False})
    return [*(str(value) for value in there), _missing_text(there)]  # missing is last, as scikit-learn sorts


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float | np.floating) and math.isnan(value))


def _missing_text(texts: Sequence[str]) -> str:
    """A text for missing values that is not a category."""
    return next(text for text in ("(missing)", "((missing))", "(((missing)))") if text not in texts)


def _missing_as_other(names: list[str], values: list[list[str]], out: list[dict[str, Any]]) -> None:
    """Impute columns that were never missing in fitting: the step treats a missing value as unknown."""
    filled = {name for step in out if step["op"] == "impute" for name in step["of"]}
    for name, texts in zip(names, values, strict=True):
        if name not in filled:
            out.append({"op": "impute", "of": [name], "values": [_missing_text(texts)], "indicator": False})


def _values(step: Any, names: list[str], out: list[dict[str, Any]]) -> list[list[str]]:
    categories = _fitted(step, "categories_")
    if getattr(step, "min_frequency", None) is not None or getattr(step, "max_categories", None) is not None:
        raise _refused(step, "infrequent categories are grouped; fit it without min_frequency and max_categories")
    return [_texts(step, name, values, out) for name, values in zip(names, categories, strict=True)]


def _one_hot(step: Any, names: list[str], out: list[dict[str, Any]]) -> list[str]:
    values = _values(step, names, out)
    dropped = step.drop_idx_ if step.drop_idx_ is not None else [None] * len(names)
    out.append({"op": "one_hot", "of": names, "values": values})
    return [
        f"{name}={value}"
        for name, listed, drop in zip(names, values, dropped, strict=True)
        for index, value in enumerate(listed)
        if index != drop
    ]


def _ordinal(step: Any, names: list[str], out: list[dict[str, Any]]) -> list[str]:
    named = step.handle_unknown == "use_encoded_value"
    unknown = _floats(step, [step.unknown_value])[0] if named else UNKNOWN
    if any(_is_missing(value) for values in _fitted(step, "categories_") for value in values):
        return _ordinal_with_missing(step, names, unknown, out)
    values = _values(step, names, out)
    if named:
        _missing_as_other(names, values, out)
    out.append({"op": "ordinal", "of": names, "values": values, "unknown": unknown})
    return names


def _ordinal_with_missing(step: Any, names: list[str], unknown: float, out: list[dict[str, Any]]) -> list[str]:
    """Ordinal encoding with a missing category: NaN stays NaN, or gets the step's code."""
    if _is_missing(step.encoded_missing_value):
        kept = [[value for value in values if not _is_missing(value)] for values in step.categories_]
        texts = [_texts(step, name, values, out) for name, values in zip(names, kept, strict=True)]
        out.append({"op": "ordinal", "of": names, "values": texts, "unknown": unknown})
        return names
    code = _floats(step, [step.encoded_missing_value])[0]
    values = _values(step, names, out)
    maps = [dict(zip(texts, map(float, range(len(texts))), strict=True)) for texts in values]
    for codes, known, categories in zip(maps, values, step.categories_, strict=True):
        codes.update({known[-1]: code} if _is_missing(categories[-1]) else {})
    _missing_as_other(names, values, out)
    out.append({"op": "encode", "of": names, "maps": maps, "default": [unknown] * len(names)})
    return names


def _bins(step: Any, names: list[str], out: list[dict[str, Any]]) -> list[str]:
    edges = _fitted(step, "bin_edges_")
    if step.encode != "ordinal":
        raise _refused(step, f"encode is {step.encode!r}; allowed: 'ordinal'")
    for name, own in zip(names, edges, strict=True):
        out.append({"op": "bucket", "of": [name], "edges": _floats(step, own[1:-1])})
    return names


def _target(step: Any, names: list[str], out: list[dict[str, Any]]) -> list[str]:
    encodings = _fitted(step, "encodings_")
    if step.target_type_ not in ("binary", "continuous"):
        raise _refused(step, f"the target is {step.target_type_}; allowed: binary, continuous")
    values = [_texts(step, name, categories, out) for name, categories in zip(names, step.categories_, strict=True)]
    maps = [dict(zip(texts, _floats(step, encoded), strict=True)) for texts, encoded in zip(values, encodings, strict=True)]
    _missing_as_other(names, values, out)
    default = _floats(step, [step.target_mean_]) * len(names)
    out.append({"op": "encode", "of": names, "maps": maps, "default": default})
    return names


def _robust(step: Any, names: list[str], out: list[dict[str, Any]]) -> list[str]:
    center = _floats(step, _fitted(step, "center_")) if step.with_centering else [0.0] * len(names)
    scale = _floats(step, _fitted(step, "scale_")) if step.with_scaling else [1.0] * len(names)
    out.append({"op": "standardize", "of": names, "mean": center, "scale": scale})
    return names


def _max_abs(step: Any, names: list[str], out: list[dict[str, Any]]) -> list[str]:
    scale = _floats(step, _fitted(step, "scale_"))
    out.append({"op": "standardize", "of": names, "mean": [0.0] * len(names), "scale": scale})
    return names


def _function(step: Any, names: list[str], out: list[dict[str, Any]]) -> list[str]:
    if step.func is None:
        return names
    op = {np.log1p: "log1p", np.log: "log"}.get(step.func)
    if op is None or step.kw_args:
        raise _refused(
            step, f"{getattr(step.func, '__name__', step.func)} is not supported; allowed: numpy.log1p, numpy.log"
        )
    out.append({"op": op, "of": names})
    return names


def _selected(step: Any, names: list[str], _: list[dict[str, Any]]) -> list[str]:
    return [name for name, kept in zip(names, step.get_support(), strict=True) if kept]


_SELECTORS = ("RFE", "RFECV", "SelectFromModel", "SelectKBest", "SelectPercentile", "VarianceThreshold")
_STEPS: dict[str, Callable[[Any, list[str], list[dict[str, Any]]], list[str]]] = {
    "Pipeline": _pipeline,
    "ColumnTransformer": _column_transformer,
    "StandardScaler": _standard,
    "MinMaxScaler": _min_max,
    "RobustScaler": _robust,
    "MaxAbsScaler": _max_abs,
    "SimpleImputer": _imputer,
    "OneHotEncoder": _one_hot,
    "OrdinalEncoder": _ordinal,
    "KBinsDiscretizer": _bins,
    "TargetEncoder": _target,
    "FunctionTransformer": _function,
    **dict.fromkeys(_SELECTORS, _selected),
}
