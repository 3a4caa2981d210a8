"""The common part of LightGBM's and XGBoost's boosters: codes of categories, the model's parts, the score.

Must not know which booster it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyball.errors import InvalidInputError
from flyball.models import attribution
from flyball.models.convert.optional_packages import versions
from flyball.models.convert.parts import Parts
from flyball.models.convert.table import Table


@dataclass(frozen=True, slots=True)
class Coding:
    """Transforms from categories to codes, the categories of each field as text, and the data columns that hold them."""

    transforms: list[dict[str, Any]] = field(default_factory=list)
    values: dict[str, list[str]] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)


def coded(
    fields: Mapping[str, str], table: Table, categories: Mapping[str, list[Any]], *, unknown: float | None = -1.0
) -> Coding:
    """The encoding of each column. `unknown` is the code of unseen values; None: the one after the last code."""
    coding = Coding()
    for name, column in fields.items():
        if column not in categories:
            _refuse_unless_numbers(table, column)
            continue
        values = [_text(column, value) for value in categories[column]]
        coding.values[name] = values
        if table.holds[column] != "string":
            coding.transforms.append({"op": "cast", "of": [name], "to": "text"})
        other = float(len(values)) if unknown is None else unknown
        coding.transforms.append({"op": "ordinal", "of": [name], "values": [values], "unknown": other})
        coding.columns.append(column)
    return coding


def booster_parts(
    booster: Any,
    kind: str,
    model: tuple[bytes, str, list[str]],
    fields: dict[str, str],
    coding: Coding,
    *,
    element: int,
    notes: Sequence[str] = (),
) -> Parts:
    """The parts of a booster; `model` is its ONNX, the name of its answer output, and the outputs removed."""
    content, output, cut = model
    return Parts(
        kind=kind,
        model=content,
        fields=fields,
        columns=list(fields),
        score=f"{output}[{element}]",
        probability=output == "probabilities",
        transforms=coding.transforms,
        categories=coding.values,
        trees=attribution.trees_sidecar(booster, element=element),
        cut=cut,
        notes=list(notes),
        packages=versions(kind, "onnxmltools", "onnx"),
    )


def score_of(answers: NDArray[np.float64], element: int, *, binary: bool) -> NDArray[np.float64]:
    """The score of each row; a binary booster returns only the second class's probability."""
    if answers.ndim == 2:
        return answers[:, element]
    return 1.0 - answers if binary and element == 0 else answers


def _text(column: str, value: Any) -> str:
    """A category as the `cast` transform prints it: whole numbers in decimal."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int) or (isinstance(value, float) and value.is_integer()):
        return str(int(value))
    raise InvalidInputError(
        f"the categories of {column!r} are neither text nor whole numbers, for example {value!r}",
        next_step="train the model with text categories",
    )


def _refuse_unless_numbers(table: Table, column: str) -> None:
    if table.holds[column] == "string":
        raise InvalidInputError(
            f"the column {column!r} holds text, but the model expects numbers",
            next_step="pass the data as the model was trained on it; convert the whole pipeline, not its last step",
        )
