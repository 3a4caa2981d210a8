"""Extracts XGBoost models: a Booster or its scikit-learn classes; DataFrame categories get XGBoost's codes.

XGBoost compares floats with `<`, as ONNX trees can, so nothing is rounded. Must not know files or decisions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyball.decision.fit.columns import Column, absent
from flyball.documents.onnx_graph import answers_alone
from flyball.errors import ModelRefusedError
from flyball.models.attribution.from_xgboost import answering, best_rounds
from flyball.models.convert.boosters import booster_parts, coded, score_of
from flyball.models.convert.optional_packages import OPSET, needed, quietly
from flyball.models.convert.parts import Original, field_names, score_element
from flyball.models.convert.table import Table, chosen, named_columns, pandas_for


def original(model: Any, table: Table, *, name: str, element: int | None = None) -> Original:
    """The parts of a booster over the data's columns."""
    booster, notes = booster_of(model)
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    _refuse_what_onnx_cannot_say(learner)
    names = booster.feature_names or [f"f{index}" for index in range(booster.num_features())]
    columns = named_columns(names, table, "f{}")
    held = chosen(table, columns)
    fields = field_names(columns)
    categories = _categories(booster, columns)
    _refuse_lost_categories(categories, held)
    coding = coded(fields, held, categories, unknown=None)
    binary = str(learner["objective"]["name"]).startswith("binary")
    element = score_element(2 if binary else int(learner["learner_model_param"]["num_class"]), element)
    parts = booster_parts(booster, "xgboost", to_onnx(booster, name), fields, coding, element=element, notes=notes)
    predicting = _Predicting(booster, categories, element, binary)
    return Original(parts, lambda rows: predicting(rows.only(columns)), columns)


def to_onnx(booster: Any, name: str) -> tuple[bytes, str, list[str]]:
    """The booster as ONNX with one tensor `input`; the name of its answer output, and the outputs removed."""
    needed("xgboost", "xgboost")
    convert = needed("onnxmltools.convert", "xgboost").convert_xgboost
    types = needed("onnxmltools.convert.common.data_types", "xgboost")
    nameless = booster.copy()
    nameless.feature_names = None  # the converter knows columns only by index
    # The converter's dump has no condition for a bool split; it has one for a number.
    nameless.feature_types = ["c" if kind == "c" else "q" for kind in booster.feature_types or []] or None
    if _objective(booster).startswith("rank:"):
        nameless.set_param({"objective": "reg:squarederror"})  # the same trees; the converter mistakes ranking for classes
    inputs = [("input", types.FloatTensorType([None, booster.num_features()]))]
    try:
        with quietly():
            model = convert(nameless, initial_types=inputs, target_opset=OPSET - 2)
    except Exception as error:
        # The converter can raise anything, including KeyError.
        raise ModelRefusedError(
            f"onnxmltools cannot convert this XGBoost model: {type(error).__name__}: {error}",
            next_step="train it with the booster gbtree and a supported objective: binary:logistic, multi:softprob or a"
            " regression",
        ) from error
    return answers_alone(model, name)


def _objective(booster: Any) -> str:
    return str(json.loads(booster.save_config())["learner"]["objective"]["name"])


def booster_of(model: Any) -> tuple[Any, list[str]]:
    """The booster that predicts, and notes about early stopping."""
    missing = getattr(model, "missing", np.nan)
    if missing is not None and not np.isnan(missing):
        raise ModelRefusedError(
            f"the model treats {missing} as missing, which ONNX trees do not support",
            next_step="train it with missing=nan, and mark missing values as NaN",
        )
    booster, best = answering(model), best_rounds(model)
    if best is None:
        return booster, []
    if hasattr(model, "get_booster"):
        return booster, [f"training stopped early: the first {best} rounds are used"]
    return booster, [
        f"training stopped early: the first {best} of {booster.num_boosted_rounds()} rounds are best, but a Booster"
        f" predicts with all of them, and so does this model. To use the best alone convert  booster[:{best}]"
    ]


def _refuse_what_onnx_cannot_say(learner: dict[str, Any]) -> None:
    kind = learner["gradient_booster"]["name"]
    if kind == "dart":
        raise ModelRefusedError(
            "the booster is DART, which onnxmltools does not support: its trees have weights",
            next_step="train it with the booster gbtree; a lower learning rate and subsample replace dropped trees",
        )
    if kind != "gbtree":
        raise ModelRefusedError(f"the booster is {kind}; only gbtree is supported", next_step="train it with gbtree")
    objective = learner["objective"]["name"]
    if objective == "multi:softmax":
        raise ModelRefusedError(
            "the objective is multi:softmax, which returns a class and no probabilities",
            next_step="change it, the trees stay:  booster.set_param({'objective': 'multi:softprob'})",
        )


def _categories(booster: Any, columns: list[str]) -> dict[str, list[Any]]:
    """The categories of the categorical DataFrame columns, in the order of their codes."""
    if "c" not in (booster.feature_types or []) or not hasattr(booster, "get_categories"):  # stored since 3.1
        return {}
    held = booster.get_categories(export_to_arrow=True).to_arrow()
    return {column: _values(values) for column, (_, values) in zip(columns, held, strict=True) if values is not None}


def _values(stored: Any) -> list[Any]:
    try:
        return list(stored.to_pylist())
    except UnicodeDecodeError:
        return [bytes(value).decode(errors="replace") for value in stored.cast("binary").to_pylist()]


def _refuse_lost_categories(categories: dict[str, list[Any]], table: Table) -> None:
    """Raise if XGBoost damaged text that is not ASCII, as it does up to 3.2 with categories of pandas.

    It cuts their UTF-8 bytes by lengths in characters (github.com/dmlc/xgboost/pull/12371), in the model and in each
    prediction: the model's own answers cannot be trusted, and the lost bytes cannot be restored.
    """
    for column, known in categories.items():
        if table.holds[column] != "string":
            continue
        given = {text for text in table.columns[column] if text is not None}
        strange = [text for text in known if isinstance(text, str) and text not in given]
        lost = sorted(text for text in given.difference(known) if not text.isascii())
        if strange and lost and not all(text.isascii() for text in known):
            raise ModelRefusedError(
                f"XGBoost has damaged the categories of {column!r}, which are not ASCII: the data has {_some(lost)},"
                f" the model {_some(strange)}",
                next_step="train with ASCII names or whole numbers as categories, or with an XGBoost newer than 3.2",
            )


def _some(texts: list[str]) -> str:
    return ", ".join(map(repr, texts[:3])) + ", …" * (len(texts) > 3)


@dataclass(frozen=True, slots=True)
class _Predicting:
    """XGBoost's own answers. It refuses unseen text, so those rows get a code outside all sets."""

    booster: Any
    categories: dict[str, list[Any]]
    element: int
    binary: bool

    def __call__(self, table: Table) -> NDArray[np.float64]:
        codes = Table({name: self._codes(name, column) for name, column in table.columns.items()}, table.holds)
        answers = self._answers(codes.matrix().astype(np.float32))
        seen = np.ones(table.rows, dtype=np.bool_)
        for name, values in self.categories.items():
            seen &= codes.columns[name] != len(values)
        if self.categories and seen.any():
            answers[seen] = self._answers(self._frame(table.take(seen)))
        return answers

    def _codes(self, name: str, column: Column) -> Column:
        if name not in self.categories:
            return column
        codes = {value: float(index) for index, value in enumerate(self.categories[name])}
        gone = absent(column)
        return np.array(
            [np.nan if missing else codes.get(value, len(codes)) for value, missing in zip(column, gone, strict=True)],
            dtype=np.float64,
        )

    def _frame(self, table: Table) -> Any:
        """In another order than in training: XGBoost assigns the codes itself."""
        frame, pandas = table.frame(), pandas_for("giving categories to XGBoost")
        made = {name: pandas.Categorical(frame[name], categories=values[::-1]) for name, values in self.categories.items()}
        return frame.assign(**made)

    def _answers(self, rows: Any) -> NDArray[np.float64]:
        xgboost, booster = needed("xgboost", "xgboost"), self.booster
        named = {"feature_names": booster.feature_names, "feature_types": booster.feature_types}
        data = xgboost.DMatrix(rows, enable_categorical=True, **(named if isinstance(rows, np.ndarray) else {}))
        answers = np.asarray(booster.predict(data, validate_features=False), dtype=np.float64)
        return score_of(answers, self.element, binary=self.binary)
