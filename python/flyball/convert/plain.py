"""Models that take no rows of named columns, pictures say: served by their tensors, without a decision.

Compared tensor by tensor, by the engine that serves. Must not know which package trained the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.convert.of_onnx import session
from flyball.equivalence.comparison import Comparison, compare
from flyball.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from flyball.convert.of_onnx import Loaded

    Arrays = Mapping[str, NDArray[Any]]

_MADE_UP_ROWS = 8
BOUND = 1e-4
"""Of answers up to 1; sums of many floats in another order lie further apart than those of trees."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A model, tensors to try it with, and what the original answers to them."""

    kind: str
    model: bytes
    inputs: dict[str, NDArray[Any]]
    expected: dict[str, NDArray[Any]]
    made_up: bool
    notes: list[str] = field(default_factory=list)
    packages: dict[str, str] = field(default_factory=dict)


def plain_onnx(model: Loaded, as_it_came: bytes, data: Any) -> Plain:
    """A model of another shape; it is compared with itself as it came."""
    inputs = tensors(model, data)
    with session(as_it_came) as before:
        expected = dict(before.run(inputs))
    return Plain("onnx", model.content, inputs, expected, data is None, model.notes)


def tensors(model: Loaded, data: Any) -> dict[str, NDArray[Any]]:
    """Arrays for each input, from a .npz or a dict of them; without data they are made up."""
    if data is None:
        with session(model.content) as made:
            return dict(made.made_up(_MADE_UP_ROWS))
    if isinstance(data, str | Path):
        if Path(data).suffix != ".npz":
            raise InvalidInputError(
                f"the model takes tensors, not rows of columns: {_shapes(model)}",
                next_step="give arrays by the names of its inputs:  np.savez('rows.npz', …)  and  --data rows.npz",
            )
        with np.load(data, allow_pickle=False) as file:
            data = {name: file[name] for name in file.files}
    absent = [one.name for one in model.inputs if one.name not in data]
    if absent:
        raise InvalidInputError(f"the data has no array {absent[0]!r}", next_step=f"the model takes {_shapes(model)}")
    return {one.name: np.asarray(data[one.name]) for one in model.inputs}


def compared(plain: Plain, bound: float | None) -> Comparison:
    """All outputs of all rows, as the engine that serves gives them."""
    with session(plain.model) as model:
        found = model.run(plain.inputs)
    first, second = (_table(answers, plain.expected) for answers in (plain.expected, found))
    largest = float(np.abs(first[np.isfinite(first)]).max(initial=1.0))
    kinds = ["random" if plain.made_up else "given"] * len(first)
    return compare(first, second, bound=BOUND * largest if bound is None else bound, kinds=kinds)


def _table(answers: Arrays, names: Arrays) -> NDArray[np.float64]:
    """Each row's answers one after the other; of texts whether they are there is all that is compared."""
    numbers = [answers[name] for name in names if answers[name].dtype != object]
    return np.concatenate([np.asarray(one, dtype=np.float64).reshape(len(one), -1) for one in numbers], axis=1)


def _shapes(model: Loaded) -> str:
    return ", ".join(f"{one.name} {one.datatype} {list(one.shape)}" for one in model.inputs)
