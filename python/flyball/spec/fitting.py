"""Fits what a decision's transforms leave open, on rows that are read as its schema reads requests.

Must not know files of its own: the caller names the rows and where the result goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flyball.errors import InvalidInputError
from flyball.fit import fit_transforms, is_open, read_columns
from flyball.fit.columns import absent, is_text
from flyball.spec.columns import kinds, open_steps
from flyball.spec.faults import refusal
from flyball.spec.files import Files

if TYPE_CHECKING:
    from pathlib import Path

    from flyball.fit import Column, Fitted
    from flyball.spec.faults import Origin
    from flyball.spec.fields import Feature, Field
    from flyball.spec.root import Spec


def fit_spec(spec: Spec, base: Path, origin: Origin, data: Path, *, target: str | None = None) -> Fitted:
    """The parameters of every open transform."""
    steps = open_steps(spec)
    if not any(is_open(step) for step in steps):
        raise InvalidInputError(
            f"{spec.decision}: no transform leaves anything open", next_step="leave parameters out of the ones to be fitted"
        )
    taken = {name for step in steps for name in step["of"]}
    wanted = {name: kind for name, kind in kinds(spec).items() if name in taken}
    columns, truth = read_columns(data, wanted, target=target)
    files = Files(base, origin)
    for name, column in columns.items():
        part: Field | Feature = spec.input[name] if name in spec.input else spec.features[name]
        columns[name] = _as_read(name, part, column, files)
    if files.faults:
        raise refusal(origin, files.faults)
    return fit_transforms(steps, columns, target=truth)


def _as_read(name: str, part: Field | Feature, column: Column, files: Files) -> Column:
    """A column with what the schema puts in the place of unknown and missing values."""
    values = part.values or []
    if part.values_file is not None:
        where = "input" if hasattr(part, "required") else "features"
        values = files.values((where, name, "values_file"), part.values_file)
    if values and part.unknown is not None and is_text(column):
        known = {*values, None}
        column = np.array([value if value in known else part.unknown for value in column], dtype=object)
    default = getattr(part, "default", None)
    if default is not None and column.dtype.kind != "M":
        column = column.copy()
        column[absent(column)] = default
    return column
