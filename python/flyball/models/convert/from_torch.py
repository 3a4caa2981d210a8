"""Extracts PyTorch modules and `torch.export` programs (.pt2) with the graph-capturing exporter of `torch.onnx`.

The row axis is free, and the module is in eval mode. Over rows of columns it becomes a decision, over other tensors a
tensor model. Must not know files or decisions.
"""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyball.errors import InvalidInputError, ModelRefusedError
from flyball.models.convert.from_onnx import Loaded, loaded, table_parts
from flyball.models.convert.optional_packages import needed, quietly, versions
from flyball.models.convert.parts import Original
from flyball.models.convert.table import Table
from flyball.models.convert.tensor_model import TensorModel

OPSET = 18  # the exporter's own; conversion to an older one loses accuracy
_EXAMPLE_ROWS = 4
_PACKAGES = ("torch", "onnxscript", "onnx")


def is_torch(model: Any) -> bool:
    """Whether it is a module or an exported program; does not import torch."""
    names = {f"{kind.__module__}.{kind.__name__}" for kind in type(model).__mro__}
    return bool(names & {"torch.nn.modules.module.Module", "torch.export.exported_program.ExportedProgram"})


def original(model: Any, table: Table, *, name: str, element: int | None = None) -> Original:
    """The parts of a module over one tensor of rows and columns."""
    rows = _filled(table)
    made = _loaded(model, {_inputs(model)[0]: rows[:_EXAMPLE_ROWS]}, name)
    if not made.is_table or len(made.inputs) != 1:
        raise InvalidInputError(
            "the module takes more than one tensor of rows and columns",
            next_step="pass its arrays by name:  data={'image': array, …}, or --data arrays.npz",
        )
    parts = table_parts(made, table, name=name, element=element, kind="torch", packages=versions(*_PACKAGES))
    columns = list(parts.fields.values())
    chosen = int(parts.score.removesuffix("]").split("[")[1])

    def predict(given: Table) -> NDArray[np.float64]:
        answers = _answers(model, [given.only(columns).matrix().astype(np.float32)])
        return np.asarray(answers[0], dtype=np.float64).reshape(given.rows, -1)[:, chosen]

    return Original(parts, predict, columns)


def plain(model: Any, arrays: Mapping[str, NDArray[Any]], name: str) -> TensorModel:
    """A module over any tensors with rows along the first axis, by argument name."""
    names = _inputs(model)
    absent = [one for one in names if one not in arrays]
    if absent:
        raise InvalidInputError(f"the data has no array {absent[0]!r}", next_step=f"the module takes {', '.join(names)}")
    given = {one: np.asarray(arrays[one]) for one in names}
    made = _loaded(model, {one: array[:_EXAMPLE_ROWS] for one, array in given.items()}, name)
    answers = _answers(model, list(given.values()))
    inputs = dict(zip([one.name for one in made.inputs], given.values(), strict=True))
    expected = dict(zip([one.name for one in made.outputs], answers, strict=True))
    return TensorModel(
        "torch", made.content, inputs, expected, made_up=False, notes=made.notes, packages=versions(*_PACKAGES)
    )


def _loaded(model: Any, example: Mapping[str, NDArray[Any]], name: str) -> Loaded:
    torch = needed("torch", "torch")
    needed("onnxscript", "torch")
    given = tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in example.values())
    options: dict[str, Any] = {"dynamo": True, "opset_version": OPSET, "verbose": False}
    if _is_module(model):
        model.eval()
        options["input_names"] = list(example)
        options["dynamic_shapes"] = tuple({0: torch.export.Dim.DYNAMIC} for _ in given)
    try:
        # It prints its progress in any case.
        with quietly(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            program = torch.onnx.export(model, given if _is_module(model) else (), **options)
    except Exception as error:
        # torch's exporter wraps any error; the innermost cause names the operator or the line.
        raise ModelRefusedError(
            f"torch.onnx cannot export the module: {_cause(error)}",
            next_step="use exportable operators in forward; control flow must not depend on the rows",
        ) from error
    return loaded(program.model_proto, name)


def _answers(model: Any, arrays: list[NDArray[Any]]) -> list[NDArray[Any]]:
    torch = needed("torch", "torch")
    module = model.eval() if _is_module(model) else model.module()
    try:
        with torch.no_grad():
            answers = module(*(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays))
    except Exception as error:
        raise InvalidInputError(
            f"the program fails on {len(arrays[0])} rows: {_cause(error)}",
            next_step="export it with a free row axis:  torch.export.export(module, (example,),"
            " dynamic_shapes=({0: torch.export.Dim('rows')},))",
        ) from error
    several = answers if isinstance(answers, tuple | list) else [answers]
    return [np.asarray(one.numpy()) for one in several]


def _inputs(model: Any) -> list[str]:
    """The names of its inputs."""
    if _is_module(model):
        return list(inspect.signature(model.forward).parameters)
    return list(model.graph_signature.user_inputs)


def _is_module(model: Any) -> bool:
    return hasattr(model, "forward")


def _filled(table: Table) -> NDArray[np.float32]:
    texts = [column for column, held in table.holds.items() if held == "string"]
    if texts:
        raise InvalidInputError(
            f"the column {texts[0]!r} holds text, but the module takes a float tensor",
            next_step="pass the columns in the types that the module takes; name the target column with --target",
        )
    return np.nan_to_num(table.matrix()).astype(np.float32)


def _cause(error: BaseException) -> str:
    inner = error
    while inner.__cause__ is not None:
        inner = inner.__cause__
    lines = str(inner).strip().splitlines() or [type(inner).__name__]
    return lines[0][:300]
