"""Extracts foreign ONNX models: frees the row axis, turns class maps into tensors, removes unused outputs.

A model over one float table, or over one tensor per column, becomes a decision; any other is served as a tensor model
(`tensor_model`). Must not know which package wrote the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyball.documents.onnx_graph import maps_taken_off, tidied, without_maps
from flyball.errors import InvalidInputError, ModelRefusedError
from flyball.models import attribution
from flyball.models.convert.optional_packages import needed, versions
from flyball.models.convert.parts import Original, Parts, field_names, score_element
from flyball.models.convert.session import answers_of, session
from flyball.models.convert.table import Table, chosen
from flyball.native import models
from flyball.native.model_documents import TensorSpec, scores

_FEW_ROWS = 256
_DTYPES = {"FP32": np.float32, "FP64": np.float64, "INT64": np.int64, "INT32": np.int32, "BOOL": np.bool_}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model's bytes with a free row axis and only tensors, and the engine's description of it."""

    content: bytes
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    notes: list[str]

    @property
    def is_table(self) -> bool:
        """Whether it takes rows of columns: one tensor for all of them, or one each."""
        wide = [one for one in self.inputs if len(one.shape) == 2 and one.datatype in (*_DTYPES, "BYTES")]
        single = [one for one in wide if one.shape[1] in (1, -1)]
        return len(wide) == len(self.inputs) and (len(wide) == 1 or len(single) == len(wide))


@dataclass(frozen=True, slots=True)
class SourceModel:
    """The model of a file as its author left it, for comparison.

    The engine reads the file itself. It does not return class maps, so a model with maps is read from a copy in which
    each map is replaced by its source tensor, and nothing else is changed.
    """

    model: Path | bytes
    tensors: dict[str, str]
    """The tensor that replaces each map, by the map's name."""

    def answers(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """All outputs, by their names in the file."""
        with session(self.model) as held:
            found = answers_of(held, inputs)
        names = {tensor: name for name, tensor in self.tensors.items()}
        return {names.get(name, name): answer for name, answer in found.items()}


def source_model(path: Path, model: Any) -> SourceModel:
    """A file and the model read from it, which is not changed."""
    copy = type(model)()
    copy.CopyFrom(model)
    tensors = maps_taken_off(copy)
    return SourceModel(copy.SerializeToString() if tensors else path, tensors)


def read_onnx(path: Path) -> Any:
    """Read a model with all its weights, after the engine's scan accepted their locations."""
    models.scan_model(path)
    return needed("onnx", "sklearn").load(path)


def loaded(model: Any, name: str) -> Loaded:
    """A model ready to serve; refused like a server would."""
    notes = []
    if without_maps(model):
        notes.append("its class maps (ZipMap) became one tensor of probabilities")
    made = tidied(model, name)
    with session(made) as held:
        return Loaded(made, held.facts.inputs, held.facts.outputs, notes)


def original(model: Loaded, source: SourceModel, table: Table, *, name: str, element: int | None = None) -> Original:
    """The parts of a model over rows of columns, compared with the unchanged file."""
    parts = table_parts(model, table, name=name, element=element, kind="onnx")
    columns = list(parts.fields.values())
    output, chosen_element = parts.score.removesuffix("]").split("[")

    def predict(rows: Table) -> NDArray[np.float64]:
        answers = source.answers(_tensors(model.inputs, rows.only(columns)))
        return np.asarray(answers[output], dtype=np.float64).reshape(rows.rows, -1)[:, int(chosen_element)]

    return Original(parts, predict, columns)


def table_parts(
    model: Loaded, table: Table, *, name: str, element: int | None, kind: str, packages: dict[str, str] | None = None
) -> Parts:
    """The parts of a model over rows of columns, by the data's columns."""
    columns, wide = _columns(model.inputs, table)
    held = chosen(table, columns)
    fields = field_names(columns)
    output, size = _scores(model.outputs)
    element = score_element(size, element) if size > 0 or element is None else element
    texts = [column for column in columns if held.holds[column] == "string"]
    onnx = needed("onnx", "sklearn")
    cut = [one.name for one in model.outputs if one.name != output]
    return Parts(
        kind=kind,
        model=tidied(onnx.load_from_string(model.content), name, {output}),
        fields=fields,
        columns=list(fields)
        if wide
        else dict(zip([one.name for one in model.inputs], [[one] for one in fields], strict=True)),
        score=f"{output}[{element}]",
        probability=_is_probability(model, held, output),
        explain=None if texts else attribution.ablation_block(held.matrix()),
        cut=cut,
        notes=model.notes,
        packages=packages or versions("onnx"),
    )


def _is_probability(model: Loaded, held: Table, output: str) -> bool:
    """Decided from its answers: a name says little about a tensor's content."""
    with session(model.content) as made:
        answers = answers_of(made, _tensors(model.inputs, held.take(slice(0, _FEW_ROWS))))[output]
    known = answers[~np.isnan(answers)]
    return bool(len(known)) and bool(((known >= 0) & (known <= 1)).all())


def _columns(inputs: list[TensorSpec], table: Table) -> tuple[list[str], bool]:
    """The data's columns in the model's order, and whether one tensor holds them all."""
    if len(inputs) > 1:
        spaced = {column.replace(" ", "_"): column for column in table.columns}
        return [one.name if one.name in table.columns else spaced.get(one.name, one.name) for one in inputs], False
    wanted = inputs[0].shape[1]
    if wanted not in (-1, len(table.columns)):
        raise InvalidInputError(
            f"the model takes {wanted} columns, but the data has {len(table.columns)}: {', '.join(table.columns)}",
            next_step="pass only the model's columns, in its order; name the target column with --target",
        )
    for column, held in table.holds.items():
        if (held == "string") != (inputs[0].datatype == "BYTES"):
            raise InvalidInputError(
                f"the column {column!r} holds {'text' if held == 'string' else 'numbers'}, but the model takes"
                f" {inputs[0].datatype}",
                next_step="pass the columns in the types that the model takes",
            )
    return list(table.columns), True


def _scores(outputs: list[TensorSpec]) -> tuple[str, int]:
    """The score's output, and its number of elements per row."""
    found = scores([one for one in outputs if len(one.shape) <= 2])
    if found is None:
        shown = ", ".join(f"{one.name} {one.datatype}" for one in outputs)
        raise ModelRefusedError(
            f"the model has no float output that could be a score: {shown}",
            next_step="serve it as it is:  flyball serve",
        )
    return found.name, found.shape[1] if len(found.shape) == 2 else 1


def _tensors(inputs: list[TensorSpec], rows: Table) -> dict[str, NDArray[Any]]:
    if len(inputs) == 1:
        parts = [(inputs[0], np.stack([_cells(column) for column in rows.columns.values()], axis=1))]
    else:
        parts = [(one, _cells(column).reshape(-1, 1)) for one, column in zip(inputs, rows.columns.values(), strict=True)]
    return {one.name: cells if one.datatype == "BYTES" else cells.astype(_DTYPES[one.datatype]) for one, cells in parts}


def _cells(column: NDArray[Any]) -> NDArray[Any]:
    """A missing text becomes empty, as in the data plane."""
    return np.array(["" if text is None else text for text in column], dtype=object) if column.dtype == object else column
