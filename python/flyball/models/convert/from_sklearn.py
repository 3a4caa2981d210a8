"""Extracts scikit-learn pipelines and estimators, also with a LightGBM or XGBoost class as last step.

Known steps become transforms, which the data plane computes from named fields; the last step becomes the model. With an
unknown step the whole pipeline becomes one ONNX graph with one tensor per column. Must not know decisions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyball.decision.fit.columns import apply
from flyball.decision.fit.sklearn_steps import Translated, from_sklearn
from flyball.errors import InvalidInputError, ModelRefusedError, UsageError
from flyball.models import attribution
from flyball.models.convert import skl2onnx_calls
from flyball.models.convert.optional_packages import needed, quietly, versions
from flyball.models.convert.parts import Original, Parts, field_names, score_element
from flyball.models.convert.table import Table, by_position, chosen

_PACKAGES = ("scikit-learn", "skl2onnx", "onnxmltools", "lightgbm", "xgboost", "onnx")
_TEXT_OPS = ("one_hot", "ordinal", "encode")


@dataclass(frozen=True, slots=True)
class _Request:
    """A conversion's data columns, their fields, the model's name and the score's element."""

    held: Table
    fields: dict[str, str]
    name: str
    element: int


@dataclass(frozen=True, slots=True)
class _Last:
    """The estimator at the end, as a model of its own."""

    model: bytes
    output: str
    cut: list[str]
    probability: bool


def original(model: Any, table: Table, *, name: str, element: int | None = None) -> Original:
    """The parts of a fitted pipeline or estimator over the data's columns."""
    model = getattr(model, "best_estimator_", model)  # of a search
    last = model[-1] if hasattr(model, "steps") else model
    if not hasattr(last, "predict"):
        raise InvalidInputError(
            f"the last step is a {type(last).__name__}, which does not predict",
            next_step="convert a pipeline that ends with an estimator",
        )
    columns = _columns(model, table)
    held = chosen(table, columns)
    fields = field_names(columns)
    classes = [str(one) for one in getattr(last, "classes_", [])]
    element = score_element(len(classes), element, classes)
    request = _Request(held, fields, name, element)
    translated, rest, why = _split(model, fields, held)
    if translated is None:
        parts = _whole(model, request, why)
    else:
        parts = _by_transforms(rest, translated, request, why)
        if why is not None:
            parts.notes.append(f"the last {len(rest.steps)} steps are inside the model, because {why.message}")
    return Original(parts, lambda rows: _predict(model, rows.only(columns), element), columns)


def _split(model: Any, fields: dict[str, str], held: Table) -> tuple[Translated | None, Any, InvalidInputError | None]:
    """The steps that become transforms, the remaining ones, and why more than one remains."""
    steps = len(model.steps) - 1 if hasattr(model, "steps") else 0
    why: InvalidInputError | None = None
    for count in range(steps, -1, -1):
        try:
            translated = from_sklearn(model[:count], list(fields)) if count else Translated([], list(fields))
            _refuse_texts(translated, fields, held)
        except InvalidInputError as error:
            why = why or error
        else:
            return translated, (model[count:] if count < steps else model[-1] if steps else model), why
    return None, model, why


def _by_transforms(last: Any, translated: Translated, request: _Request, why: InvalidInputError | None) -> Parts:
    """Transforms, and a model of the remaining steps over their columns."""
    held, element = request.held, request.element
    made = _model(last, len(translated.columns), request.name, why.message if why else None)
    used = {field for step in translated.transforms for field in step["of"]} | set(translated.columns)
    fields = {field: column for field, column in request.fields.items() if field in used}
    trees, block, notes = _explained(last, translated, held, fields, element)
    return Parts(
        kind="scikit-learn",
        model=made.model,
        fields=fields,
        columns=translated.columns,
        score=_score(last, made.output, element),
        probability=made.probability,
        rounded_to_nearest=hasattr(last, "_predictors"),
        transforms=translated.transforms,
        categories=_categories(translated, fields),
        trees=trees,
        explain=block,
        cut=made.cut,
        notes=notes,
        packages=versions(*_PACKAGES),
    )


def _whole(model: Any, request: _Request, why: InvalidInputError | None) -> Parts:
    """The pipeline as one graph. A missing text is passed as `nan`, which skl2onnx treats as missing."""
    message = why.message if why is not None else "it has no steps"
    held, fields = request.held, request.fields
    content, output, cut, tensors = skl2onnx_calls.whole_pipeline(model, held, request.name, message)
    texts = [field for field, column in fields.items() if held.holds[column] == "string"]
    gaps = [field for field in texts if held.has_gaps(fields[field])]
    block = None
    if not texts:
        block = attribution.ablation_block(held.only(list(fields.values())).matrix())
    notes = [f"the whole pipeline is inside the model, because {message}; the decision sees no intermediate columns"]
    if texts:
        notes.append("its answers are not explained: text goes into the model itself")
    return Parts(
        kind="scikit-learn",
        model=content,
        fields=fields,
        columns={tensor: [field] for tensor, field in zip(tensors, fields, strict=True)},
        transforms=[{"op": "impute", "of": gaps, "values": ["nan"] * len(gaps), "indicator": False}] if gaps else [],
        score=_score(model, output, request.element),
        probability=hasattr(model, "predict_proba"),
        explain=block,
        cut=cut,
        notes=notes,
        packages=versions(*_PACKAGES),
    )


def _model(last: Any, columns: int, name: str, why: str | None) -> _Last:
    """The last step as ONNX, by its package's converter."""
    match type(last).__module__.partition(".")[0]:
        case "lightgbm":
            from flyball.models.convert import from_lightgbm

            booster = last.booster_
            from_lightgbm.refuse_what_onnx_cannot_say(booster.model_to_string())
            _refuse_other_columns(last, booster.num_feature(), columns, booster.pandas_categorical)
            return _Last(*from_lightgbm.to_onnx(booster, name), probability=hasattr(last, "classes_"))
        case "xgboost":
            from flyball.models.convert import from_xgboost

            booster, _ = from_xgboost.booster_of(last)
            _refuse_other_columns(last, booster.num_features(), columns, "c" in (booster.feature_types or []))
            return _Last(*from_xgboost.to_onnx(booster, name), probability=hasattr(last, "classes_"))
        case _:
            return _Last(*skl2onnx_calls.estimator(last, columns, name, why), probability=hasattr(last, "predict_proba"))


def _refuse_other_columns(last: Any, wanted: int, found: int, categories: Any) -> None:
    if categories or wanted != found:
        raise ModelRefusedError(
            f"{type(last).__name__} was trained on {wanted} columns, including pandas categories, inside a pipeline"
            if categories
            else f"{type(last).__name__} was trained on {wanted} columns, but the steps before it produce {found}",
            next_step="encode categories in a pipeline step, for example OrdinalEncoder(handle_unknown="
            "'use_encoded_value', unknown_value=-1)",
        )


def _columns(model: Any, table: Table) -> list[str]:
    """The column names from fitting, else the data's own in order."""
    named = getattr(model, "feature_names_in_", None)
    if named is not None:
        return [str(name) for name in named]
    return by_position(getattr(model, "n_features_in_", len(table.columns)), table)


def _score(last: Any, output: str, element: int) -> str:
    """A binary classifier without probabilities has one score, for the second class."""
    alone = not hasattr(last, "predict_proba") and len(getattr(last, "classes_", [])) == 2
    return f"{output}[{0 if alone else element}]"


def _predict(model: Any, rows: Table, element: int) -> NDArray[np.float64]:
    named = hasattr(model, "feature_names_in_") or any(held == "string" for held in rows.holds.values())
    given = rows.frame() if named else rows.matrix()
    joblib = needed("joblib", "sklearn")
    method = next(name for name in ("predict_proba", "decision_function", "predict") if hasattr(model, name))
    # The sandbox forbids new processes, so jobs run sequentially. Warnings about unnamed columns do not matter here.
    with quietly(), joblib.parallel_config(backend="sequential"):
        answers = np.asarray(getattr(model, method)(given), dtype=np.float64)
    if answers.ndim == 2:
        return answers[:, element]
    return -answers if method == "decision_function" and element == 0 else answers


def _refuse_texts(translated: Translated, fields: dict[str, str], held: Table) -> None:
    """Text that no step encodes can only go into the model itself."""
    coded = {name for step in translated.transforms if step["op"] in _TEXT_OPS for name in step["of"]}
    for field in translated.columns:
        if field in fields and held.holds[fields[field]] == "string" and field not in coded:
            raise InvalidInputError(f"the column {fields[field]!r} holds text, and no step turns it into numbers")


def _explained(
    last: Any, translated: Translated, held: Table, fields: dict[str, str], element: int
) -> tuple[bytes | None, dict[str, Any] | None, list[str]]:
    """Trees of a tree model, coefficients of a linear one, a baseline for any other."""
    named = {field: held.columns[column] for field, column in fields.items()}
    for step in translated.transforms:
        named = apply(step, named)
    rows = np.stack([named[name].astype(np.float64) for name in translated.columns], axis=1)
    if hasattr(last, "coef_"):
        return None, attribution.linear_block(last, rows, element=element), []
    try:
        return attribution.trees_sidecar(last, element=element), None, []
    except (UsageError, ModelRefusedError) as error:
        block = attribution.ablation_block(rows)
        if "is no additive tree model" in error.message:
            return None, block, []
        return None, block, [f"{error.message}; explained by ablation instead"]


def _categories(translated: Translated, fields: dict[str, str]) -> dict[str, list[str]]:
    """The categories known to the steps, by field, as text."""
    known: dict[str, list[str]] = {}
    for step in translated.transforms:
        if step["op"] not in _TEXT_OPS:
            continue
        lists = step["values"] if "values" in step else [list(texts) for texts in step["maps"]]
        for name, values in zip(step["of"], lists, strict=True):
            if name in fields:
                known[name] = values
    return known
