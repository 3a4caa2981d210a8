"""Runs a model on all rows with the serving engine, batched if that changes no answer.

Must not know which model it is, nor what its answers are compared with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from flyball.native.model_runs import Model

    Floats = NDArray[np.float64]

_BYTES_AT_ONCE = 64 << 20  # a server's body limit; a few images, because a run holds each layer's result


def table_of(model: Model, output: str, inputs: Mapping[str, NDArray[Any]], *, rows_max: int | None = None) -> Floats:
    """An output's answers, one row per row; batched like a server by default."""
    rows = len(next(iter(inputs.values())))
    row_bytes = sum(array[:1].nbytes for array in inputs.values())
    # Beyond the probed batch size, rows may change one another's last bits: no server returns such answers.
    at_once = min(rows_max or model.facts.batching.rows_max, max(_BYTES_AT_ONCE // max(row_bytes, 1), 1))
    parts = []
    for index in range(0, rows, at_once):
        answers = model.run({name: array[index : index + at_once] for name, array in inputs.items()})[output]
        parts.append(np.asarray(answers, dtype=np.float64).reshape(len(answers), -1))
    return np.concatenate(parts)


def counted(table: Floats, element: int | None) -> Floats:
    """The score of each row if one element is selected or there is only one, else all elements."""
    if element is None:
        return table[:, 0] if table.shape[1] == 1 else table
    if element >= table.shape[1]:
        raise InvalidInputError(
            f"the output has {table.shape[1]} elements per row, and no element {element}",
            next_step="elements count from 0, as in  --score 'probabilities[1]'",
        )
    chosen: Floats = table[:, element]
    return chosen
