"""What a caller passes for a decision, as rows of named fields: one mapping, many, or a table. Must not know transports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flyball.client.fields import Plain, plain, plain_row
from flyball.errors import Fault, InvalidInputError
from flyball.rows.frames import cells_of, columns_of, frame_of, row_of

if TYPE_CHECKING:
    from flyball.client.decisions import DecidedRow
    from flyball.rows.frames import Columns, Frame

_UNKNOWN = "a field of the input"  # how the server describes what is allowed in place of an unknown field


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Rows, and the form in which they came."""

    rows: list[dict[str, Plain]]
    single: bool = False
    """Whether they came as one mapping, so that the answer is one decision."""
    columns: tuple[str, ...] = ()
    """The columns' names, if every row has the same fields."""
    frame: Frame | None = None


def rows_of(given: object) -> GivenRows:
    """Read one row or many; the error names the row and the field that cannot be sent."""
    frame = frame_of(given)
    table = frame or columns_of(given)
    if table is not None:
        return GivenRows(_from_columns(table), columns=table.names, frame=frame)
    row = given if isinstance(given, Mapping) else row_of(given)
    if row is not None:
        return GivenRows([plain_row(row)], single=True)
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise _no_row(given)
    items = cells_of(given)
    return GivenRows([_numbered(index, item) for index, item in enumerate(items)])


def refuse_columns(given: GivenRows, decision: str, answered: list[DecidedRow]) -> None:
    """Raise one error for columns that no row can be decided with: unknown ones, and required ones that are absent.

    The server answers each row by itself, so the first row shows them.
    """
    if not given.columns or not answered or answered[0].fault is None:
        return
    faults = [
        Fault(fault.path, "a column" if fault.path in given.columns else "no column", fault.allowed)
        for fault in answered[0].fault.faults
        if fault.path not in given.columns or fault.allowed.startswith(_UNKNOWN)
    ]
    if faults:
        raise InvalidInputError(
            f"the columns are not those of the decision {decision!r}: {', '.join(given.columns)}",
            code="fields_invalid",
            faults=faults,
        )


def _from_columns(table: Columns) -> list[dict[str, Plain]]:
    twice = next((name for name in table.names if table.names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"duplicate column {twice!r}; a decision's fields have one value each")
    rows: list[dict[str, Plain]] = [{} for _ in range(table.count)]
    for place, name in enumerate(table.names):
        for index, cell in enumerate(table.cells(place)):
            try:
                rows[index][name] = plain(name, cell)
            except InvalidInputError as error:
                raise _at(index, error) from error
    return rows


def _numbered(index: int, item: object) -> dict[str, Plain]:
    row = item if isinstance(item, Mapping) else row_of(item)
    if row is None:
        raise _at(index, _no_row(item))
    try:
        return plain_row(row)
    except InvalidInputError as error:
        raise _at(index, error) from error


def _at(index: int, error: InvalidInputError) -> InvalidInputError:
    return InvalidInputError(f"row {index}: {error.message}", next_step=error.next_step)


def _no_row(given: object) -> InvalidInputError:
    return InvalidInputError(
        f"a row is a mapping of fields, not {type(given).__name__}",
        next_step='name the fields:  {"amount": 12.5}, a list of such rows, or a DataFrame',
    )
