"""Runs a model in this process with the serving engine, in runs of bounded size.

Must not know what the answers are compared with.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.errors import InvalidInputError, ModelRefusedError
from flyball.native.model_runs import Model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

_RUN_BYTES_MAX = 8 << 20  # of inputs: a network's intermediate results are a multiple of them


@contextmanager
def session(model: bytes | Path) -> Iterator[Model]:
    """An engine session of a model; bytes are written to a temporary file."""
    if isinstance(model, Path):
        yield Model(model)
        return
    with tempfile.TemporaryDirectory(prefix="flyball-convert-") as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model)
        try:
            held = Model(path)
        except ModelRefusedError as error:
            raise ModelRefusedError(
                error.message.removeprefix(f"{path}: "),  # the temporary path helps nobody
                code=error.code,
                faults=error.faults,
                next_step=error.next_step or "export the model again, with operators of this ONNX Runtime",
            ) from error
        yield held


def answers_of(model: Model, inputs: Arrays) -> dict[str, NDArray[Any]]:
    """All outputs for all rows; a fixed first axis sets the rows per run."""
    rows = _rows(inputs)
    row_bytes = sum(array.nbytes for array in inputs.values()) // rows
    fixed = max((one.shape[0] for one in model.facts.inputs if one.shape), default=-1)
    at_once = fixed if fixed > 0 else max(1, _RUN_BYTES_MAX // max(row_bytes, 1))
    runs = [_run(model, inputs, range(begin, min(begin + at_once, rows)), fixed) for begin in range(0, rows, at_once)]
    return {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}


def _rows(inputs: Arrays) -> int:
    lengths = {name: len(array) if array.ndim else 0 for name, array in inputs.items()}
    if len(set(lengths.values())) > 1 or 0 in lengths.values():
        shown = ", ".join(f"{name} {rows}" for name, rows in lengths.items())
        raise InvalidInputError(
            f"the arrays have different numbers of rows: {shown}", next_step="pass the same number, one or more, in each"
        )
    return next(iter(lengths.values()))


def _run(model: Model, inputs: Arrays, rows: range, rows_min: int) -> dict[str, NDArray[Any]]:
    """The answers to some rows; the last row is repeated up to the model's minimum."""
    indices = np.minimum(np.arange(rows.start, rows.start + max(len(rows), rows_min)), rows.stop - 1)
    found = model.run({name: array[indices] for name, array in inputs.items()})
    for name, answer in found.items():
        if answer.shape[:1] != indices.shape:
            raise ModelRefusedError(
                f"the output {name!r} has shape {list(answer.shape)} for {len(indices)} rows, not one row each",
                next_step="export the model with a free row axis: dynamic_axes or dynamic_shapes of the first axis",
            )
    return {name: answer[: len(rows)] for name, answer in found.items()}
