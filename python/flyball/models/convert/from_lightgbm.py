"""Extracts LightGBM models: a Booster or its scikit-learn classes; DataFrame categories get LightGBM's codes.

Thresholds are rounded down to float32 before conversion: columns are compared as float32, and a value between a threshold
and its nearest float would take the other branch. Must not know files or decisions.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyball.documents.onnx_graph import answers_alone
from flyball.errors import InvalidInputError, ModelRefusedError
from flyball.models.convert.boosters import booster_parts, coded, score_of
from flyball.models.convert.optional_packages import OPSET, needed, quietly
from flyball.models.convert.parts import Original, field_names, score_element
from flyball.models.convert.table import Table, chosen, named_columns, pandas_for

_ZERO_IS_MISSING = 4  # in the bits of `decision_type`


def original(model: Any, table: Table, *, name: str, element: int | None = None) -> Original:
    """The parts of a booster over the data's columns."""
    booster = getattr(model, "booster_", model)
    text = booster.model_to_string()
    refuse_what_onnx_cannot_say(text)
    columns = named_columns(booster.feature_name(), table, "Column_{}")
    held = chosen(table, columns)
    fields = field_names(columns)
    coding = coded(fields, held, _pandas_categories(booster, columns, held))
    binary = _is_binary(text)
    element = score_element(2 if binary else booster.num_model_per_iteration(), element)
    parts = booster_parts(booster, "lightgbm", to_onnx(booster, name), fields, coding, element=element)

    def predict(rows: Table) -> NDArray[np.float64]:
        return score_of(_predict(booster, rows.only(columns), coding.columns), element, binary=binary)

    return Original(parts, predict, columns)


def to_onnx(booster: Any, name: str) -> tuple[bytes, str, list[str]]:
    """The booster as ONNX with one tensor `input`; the name of its answer output, and the outputs removed."""
    lightgbm = needed("lightgbm", "lightgbm")
    convert = needed("onnxmltools.convert", "lightgbm").convert_lightgbm
    types = needed("onnxmltools.convert.common.data_types", "lightgbm")
    rounded = lightgbm.Booster(model_str=rounded_down(averaged(booster.model_to_string())))
    inputs = [("input", types.FloatTensorType([None, booster.num_feature()]))]
    try:
        with quietly():
            model = convert(rounded, initial_types=inputs, zipmap=False, target_opset=OPSET - 2)
    except (NotImplementedError, RuntimeError, ValueError, KeyError) as error:
        raise ModelRefusedError(
            f"onnxmltools cannot convert this LightGBM model: {error}",
            next_step="train it with a supported objective: binary, multiclass, regression, poisson, tweedie or ranking",
        ) from error
    return answers_alone(model, name)


def rounded_down(text: str) -> str:
    """LightGBM's text with each threshold rounded down to float32; category indices stay."""
    sizeless = re.sub(r"(?m)^tree_sizes=.*\n", "", text)  # byte sizes of the trees, optional
    return re.sub(r"(?m)^threshold=(.*)$", lambda found: "threshold=" + " ".join(map(_floor, found[1].split())), sizeless)


def averaged(text: str) -> str:
    """A forest's text with leaves divided so that they add up to its mean; the converter would return their sum."""
    if not re.search(r"(?m)^average_output$", text):
        return text
    per_iteration = int(re.search(r"(?m)^num_tree_per_iteration=(\d+)$", text)[1])  # type: ignore[index]
    iterations = len(re.findall(r"(?m)^Tree=\d+$", text)) // per_iteration

    def shares(found: re.Match[str]) -> str:
        return "leaf_value=" + " ".join(repr(float(value) / iterations) for value in found[1].split())

    return re.sub(r"(?m)^leaf_value=(.*)$", shares, re.sub(r"(?m)^average_output\n", "", text))


def _floor(number: str) -> str:
    exact = float(number)
    near = np.float32(exact)
    below = near if float(near) <= exact else np.nextafter(near, np.float32(-np.inf))
    return repr(float(below))


def refuse_what_onnx_cannot_say(text: str) -> None:
    """Refuse features that the converter would silently drop."""
    if re.search(r"(?m)^is_linear=1$", text):
        raise ModelRefusedError(
            "the model's leaves are linear models (linear_tree), which ONNX trees do not support",
            next_step="train it without linear_tree",
        )
    kinds = (int(kind) for found in re.findall(r"(?m)^decision_type=(.*)$", text) for kind in found.split())
    if any(kind & 0b1100 == _ZERO_IS_MISSING for kind in kinds):
        raise ModelRefusedError(
            "the model treats zeros as missing (zero_as_missing), which ONNX trees do not support",
            next_step="train it without zero_as_missing; keep missing values as NaN",
        )


def _is_binary(text: str) -> bool:
    return re.search(r"(?m)^objective=binary\b", text) is not None


def _pandas_categories(booster: Any, columns: list[str], table: Table) -> dict[str, list[Any]]:
    """The categories of the categorical DataFrame columns; LightGBM stores the lists without names."""
    lists: list[list[Any]] = booster.pandas_categorical or []
    columns_info = booster.dump_model()["feature_infos"]
    named = [
        name
        for name, trained in zip(columns, booster.feature_name(), strict=True)
        if columns_info.get(trained, {}).get("values")
    ]
    if len(named) != len(lists):
        # The dump omits columns without splits and shows ordered categories as numbers; both hold text.
        named = [name for name in columns if name in named or table.holds[name] == "string"]
    if lists and len(named) != len(lists):
        raise InvalidInputError(
            f"the model has {len(lists)} categorical columns, but the data has {len(named)}: {', '.join(named) or 'none'}",
            next_step="pass data in which exactly these columns hold text, as in training",
        )
    return dict(zip(named, lists, strict=True)) if lists else {}


def _predict(booster: Any, table: Table, categories: list[str]) -> NDArray[np.float64]:
    if categories:
        frame = table.frame()
        pandas = pandas_for("giving categories to LightGBM")
        rows: Any = frame.assign(**{name: pandas.Categorical(frame[name]) for name in categories})
    else:
        rows = table.matrix()
    return np.asarray(booster.predict(rows), dtype=np.float64)
