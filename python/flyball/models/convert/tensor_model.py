"""Models without named columns, such as image models: served as tensors, without a decision.

Compared tensor by tensor with the serving engine. Must not know which package trained the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.errors import InvalidInputError, ModelRefusedError
from flyball.models.convert.compare import bounds_of
from flyball.models.convert.session import answers_of, session
from flyball.models.convert.table import arrays_of, is_arrays
from flyball.models.equivalence.comparison import Comparison, compare

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from flyball.models.convert.from_onnx import Loaded, SourceModel

_MADE_UP_ROWS = 8
_ANSWERS_SHOWN_MAX = 100


@dataclass(frozen=True, slots=True)
class TensorModel:
    """A model, input tensors to compare with, and the original's answers."""

    kind: str
    model: bytes
    inputs: dict[str, NDArray[Any]]
    expected: dict[str, NDArray[Any]]
    made_up: bool
    notes: list[str] = field(default_factory=list)
    packages: dict[str, str] = field(default_factory=dict)


def onnx_tensor_model(model: Loaded, source: SourceModel, data: Any) -> TensorModel:
    """An ONNX model over other tensors, compared with the unchanged file."""
    inputs = tensors(model, data)
    return TensorModel("onnx", model.content, inputs, source.answers(inputs), data is None, model.notes)


def tensors(model: Loaded, data: Any) -> dict[str, NDArray[Any]]:
    """Arrays for each input, from a .npz or a dict; generated if there is no data."""
    if data is None:
        with session(model.content) as made:
            return dict(made.made_up(_MADE_UP_ROWS))
    if isinstance(data, str | Path) and not is_arrays(data):
        raise InvalidInputError(
            f"the model takes tensors, not rows of columns: {_shapes(model)}",
            next_step="save arrays under the names of its inputs:  np.savez('rows.npz', …)  and  --data rows.npz",
        )
    arrays = arrays_of(data)
    absent = [one.name for one in model.inputs if one.name not in arrays]
    if absent:
        raise InvalidInputError(f"the data has no array {absent[0]!r}", next_step=f"the model takes {_shapes(model)}")
    return {one.name: np.asarray(arrays[one.name]) for one in model.inputs}


def compared(plain: TensorModel, bound: float | None) -> Comparison:
    """Compare all outputs with the serving engine's: floats within the bound, other types exactly."""
    with session(plain.model) as model:
        found = answers_of(model, plain.inputs)
    pairs = [_pair(name, answer, found[name]) for name, answer in plain.expected.items()]
    first, second = (np.concatenate(side, axis=1) for side in zip(*pairs, strict=True))
    kinds = ["random" if plain.made_up else "given"] * len(first)
    absolute, relative = bounds_of(bound, probability=False)
    comparison = compare(first, second, bound=absolute, relative=relative, kinds=kinds)
    # With several outputs the largest answer is no class; and nobody reads every pixel of an image.
    flips = comparison.flips if len(pairs) == 1 else []
    return comparison.model_copy(
        update={"flips": flips, "worst": comparison.worst if first.shape[1] <= _ANSWERS_SHOWN_MAX else []}
    )


def _pair(name: str, expected: NDArray[Any], found: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both answers to each row as flat numbers. A non-float answer that differs counts as missing."""
    if expected.shape != found.shape:
        raise ModelRefusedError(
            f"the output {name!r} has shape {list(found.shape)} instead of {list(expected.shape)}",
            next_step="export the model with a free row axis: dynamic_axes or dynamic_shapes of the first axis",
        )
    first, second = (answers.reshape(len(answers), -1) for answers in (expected, found))
    if first.dtype.kind == "f":
        return first.astype(np.float64), second.astype(np.float64)
    shown = np.zeros(first.shape) if first.dtype == object else first.astype(np.float64)
    return shown, np.where(first == second, shown, np.nan)


def _shapes(model: Loaded) -> str:
    return ", ".join(f"{one.name} {one.datatype} {list(one.shape)}" for one in model.inputs)
