"""Refuses training rows that serving would reject, with the serving engine.

A model trained on such rows learns from values that no request can have. Must not know transforms or features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.decision.compile.columns import kinds
from flyball.decision.compile.document import bare_document, field_document
from flyball.decision.training.computed import ROWS_AT_ONCE, rows_of
from flyball.errors import Fault, InvalidInputError
from flyball.native import decisions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from flyball.decision.fit.columns import Columns
    from flyball.decision.spec.spec import Spec

_COUNTED_MAX = 1000  # each costs about a millisecond
_ROWS_AFTER_FAULT = 16  # doubled while no row is rejected: rows after a rejected one are read again


def refuse_rejected(spec: Spec, columns: Columns, categories: Mapping[str, list[str]], data: Path) -> None:
    """Raise if serving rejects a row. `columns` are the data's, without defaults."""
    fields = {name: column for name, column in columns.items() if name in spec.input}
    count = len(next(iter(fields.values()), ()))
    faults = _faults(spec, fields, categories, count)
    first = next(faults, None)
    if first is None:
        return
    row, name, allowed = first
    more = sum(1 for _, _ in zip(range(_COUNTED_MAX - 1), faults, strict=False))
    rejected = f"{_COUNTED_MAX:,} or more" if more == _COUNTED_MAX - 1 else f"{more + 1:,}"
    value = next(rows_of({name: fields[name]}, kinds(spec), range(row, row + 1))).get(name)
    shown = "personal data" if spec.input[name].pii and value is not None else value
    raise InvalidInputError(
        f"{data}: serving rejects {rejected} of {count:,} rows; the first is row {row + 1}",
        faults=[Fault(name, shown, allowed)],
        next_step=f"remove or correct these rows, or change input.{name} in the decision",
    )


def _faults(spec: Spec, fields: Columns, categories: Mapping[str, list[str]], count: int) -> Iterator[tuple[int, str, str]]:
    """Each rejected row in order: its number, its first invalid field, and what is allowed."""
    inputs = [field_document(name, spec.input[name], categories.get(name, [])) for name in fields]
    document = bare_document(spec.owner, spec.purpose, input=inputs)
    start, size = 0, ROWS_AT_ONCE
    while fields and start < count:
        which = range(start, min(count, start + size))
        try:
            decisions.compute_features(document, list(rows_of(fields, kinds(spec), which)))
            start, size = which.stop, min(2 * size, ROWS_AT_ONCE)
        except InvalidInputError as error:
            if error.row is None:
                raise
            start, size = start + error.row + 1, _ROWS_AFTER_FAULT
            yield start - 1, error.faults[0].path, error.faults[0].allowed
