"""LightGBM: a Booster, or any of its scikit-learn classes. Categories of a DataFrame become codes as LightGBM makes them.

Thresholds are rounded down to float32 before conversion: a column is a float32 when it is compared, and one that lies
between a threshold and its nearest float would go another way. Must not know files or decisions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.documents.onnx_graph import answers_alone
from flyball.errors import InvalidInputError, ModelRefusedError
from flyball.models import attribution
from flyball.models.convert.category_codes import coded
from flyball.models.convert.optional_packages import OPSET, needed, quietly, versions
from flyball.models.convert.parts import Original, Parts, field_names, score_element
from flyball.models.convert.table import Table, chosen, named_columns, pandas_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ZERO_IS_MISSING = 4  # in the bits of `decision_type`


def original(model: Any, table: Table, *, name: str, element: int | None = None) -> Original:
    """The parts of a booster over the data's own columns."""
    booster = getattr(model, "booster_", model)
    text = booster.model_to_string()
    refuse_what_onnx_cannot_say(text)
    columns = named_columns(booster.feature_name(), table, "Column_{}")
    held = chosen(table, columns)
    fields = field_names(columns)
    coding = coded(fields, held, _pandas_categories(booster, columns, held))
    binary = _is_binary(text)
    element = score_element(2 if binary else booster.num_model_per_iteration(), element)
    model_bytes, output, cut = to_onnx(booster, name)
    parts = Parts(
        kind="lightgbm",
        model=model_bytes,
        fields=fields,
        columns=list(fields),
        score=f"{output}[{element}]",
        probability=output == "probabilities",
        transforms=coding.transforms,
        categories=coding.values,
        trees=attribution.trees_sidecar(booster, element=element),
        cut=cut,
        packages=versions("lightgbm", "onnxmltools", "onnx"),
    )
    flipped = binary and element == 0

    def predict(rows: Table) -> NDArray[np.float64]:
        answers = _predict(booster, rows.only(columns), coding.columns)
        return answers[:, element] if answers.ndim == 2 else 1.0 - answers if flipped else answers

    return Original(parts, predict, columns)


def to_onnx(booster: Any, name: str) -> tuple[bytes, str, list[str]]:
    """The booster as an ONNX file with one tensor `input`; the output with its answers, and those that were cut."""
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
            next_step="train it with an objective of ONNX's: binary, multiclass, regression, poisson, tweedie or ranking",
        ) from error
    return answers_alone(model, name)


def rounded_down(text: str) -> str:
    """LightGBM's text with each threshold as the largest float32 that is not above it; places of categories stay."""
    sizeless = re.sub(r"(?m)^tree_sizes=.*\n", "", text)  # they are bytes of each tree, and optional
    return re.sub(r"(?m)^threshold=(.*)$", lambda found: "threshold=" + " ".join(map(_floor, found[1].split())), sizeless)


def averaged(text: str) -> str:
    """LightGBM's text of a forest with leaves that add up to its mean; the converter would give their sum."""
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
    """What a converter would leave out without a word."""
    if re.search(r"(?m)^is_linear=1$", text):
        raise ModelRefusedError(
            "the model's leaves are linear models (linear_tree), which ONNX's trees do not have",
            next_step="train it without linear_tree",
        )
    kinds = (int(kind) for found in re.findall(r"(?m)^decision_type=(.*)$", text) for kind in found.split())
    if any(kind & 0b1100 == _ZERO_IS_MISSING for kind in kinds):
        raise ModelRefusedError(
            "the model takes zeros for missing values (zero_as_missing), which ONNX's trees do not",
            next_step="train it without zero_as_missing; what is missing stays NaN",
        )


def _is_binary(text: str) -> bool:
    return re.search(r"(?m)^objective=binary\b", text) is not None


def _pandas_categories(booster: Any, columns: list[str], table: Table) -> dict[str, list[Any]]:
    """The categories of those columns that were categories of a DataFrame; LightGBM keeps their lists without names."""
    lists: list[list[Any]] = booster.pandas_categorical or []
    told = booster.dump_model()["feature_infos"]
    named = [
        name for name, trained in zip(columns, booster.feature_name(), strict=True) if told.get(trained, {}).get("values")
    ]
    if len(named) != len(lists):
        # A column that is never split on is told as none, and one of ordered categories as numbers: texts are both.
        named = [name for name in columns if name in named or table.holds[name] == "string"]
    if lists and len(named) != len(lists):
        raise InvalidInputError(
            f"the model has {len(lists)} columns of categories, and {len(named)} were found: {', '.join(named) or 'none'}",
            next_step="give data in which just these columns hold texts, as in training",
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
