"""DataFrames of pandas and Polars, and tables of Arrow: their columns, and new ones of the same library.

None of the libraries is imported: a type is recognised by its module and name, and only a caller that has the library
has such a value. Must not know models.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from flyball.errors import InvalidInputError
from flyball.rows.casts import is_missing

if TYPE_CHECKING:
    from flyball.rows.tensors import Array


class Columns(Protocol):
    """Columns of one length, with names."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""

    @property
    def count(self) -> int:
        """The number of rows."""

    def cells(self, index: int) -> list[Any]:
        """A column as Python values."""


class Frame(Columns, Protocol):
    """A table of pandas, Polars or Arrow."""

    def array(self, index: int) -> Array:
        """A column as an array; missing numbers are NaN."""

    def like(self, columns: Mapping[str, Any], kinds: Mapping[str, type]) -> Any:
        """A table of the same library; `kinds` has the types of columns that may have no value at all."""


@dataclass(frozen=True, slots=True)
class _Pandas:
    native: Any

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(str(name) for name in self.native.columns)

    @property
    def count(self) -> int:
        return len(self.native)

    def array(self, index: int) -> Array:
        return np.asarray(self.native.iloc[:, index].to_numpy())

    def cells(self, index: int) -> list[Any]:
        return list(self.native.iloc[:, index].tolist())

    def like(self, columns: Mapping[str, Any], kinds: Mapping[str, type]) -> Any:
        pandas, index = sys.modules["pandas"], self.native.index
        typed = {
            name: pandas.Series(values, index=index, dtype="float64" if kinds.get(name) is float else None)
            for name, values in columns.items()
        }
        return pandas.DataFrame(typed, index=index)


@dataclass(frozen=True, slots=True)
class _Polars:
    native: Any

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.native.columns)

    @property
    def count(self) -> int:
        return int(self.native.height)

    def array(self, index: int) -> Array:
        return np.asarray(self.native.to_series(index).to_numpy())

    def cells(self, index: int) -> list[Any]:
        return list(self.native.to_series(index).to_list())

    def like(self, columns: Mapping[str, Any], kinds: Mapping[str, type]) -> Any:
        polars: Any = sys.modules["polars"]
        types: dict[Any, Any] = {str: polars.String, float: polars.Float64}
        return polars.DataFrame(
            [polars.Series(name, _listed(values), types.get(kinds.get(name))) for name, values in columns.items()]
        )


@dataclass(frozen=True, slots=True)
class _Arrow:
    native: Any

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.native.schema.names)

    @property
    def count(self) -> int:
        return int(self.native.num_rows)

    def array(self, index: int) -> Array:
        return _of_arrow(self.native.column(index))

    def cells(self, index: int) -> list[Any]:
        try:
            return list(self.native.column(index).to_pylist())
        except ValueError as error:  # times in nanoseconds, which Python's do not have
            raise InvalidInputError(f"column {self.names[index]!r} has a type that cannot be sent: {error}") from error

    def like(self, columns: Mapping[str, Any], kinds: Mapping[str, type]) -> Any:
        arrow: Any = sys.modules["pyarrow"]
        types: dict[Any, Any] = {str: arrow.string(), float: arrow.float64()}
        made = [arrow.array(_listed(values), types.get(kinds.get(name))) for name, values in columns.items()]
        return type(self.native).from_arrays(made, names=list(columns))


@dataclass(frozen=True, slots=True)
class _Named:
    """A dict of columns, or a structured array of NumPy."""

    columns: Mapping[str, Any]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.columns)

    @property
    def count(self) -> int:
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise InvalidInputError(f"the columns have different lengths: {shown}")
        return next(iter(lengths.values()), 0)

    def cells(self, index: int) -> list[Any]:
        return cells_of(self.columns[self.names[index]])


_KINDS: dict[tuple[str, str], Callable[[Any], Frame]] = {
    ("pandas", "DataFrame"): _Pandas,
    ("polars", "DataFrame"): _Polars,
    ("pyarrow", "Table"): _Arrow,
    ("pyarrow", "RecordBatch"): _Arrow,
}


def frame_of(value: object) -> Frame | None:
    """The value as a frame; None if it is none."""
    names = _names_of(value)
    if ("polars", "LazyFrame") in names:
        raise InvalidInputError("a LazyFrame has no rows yet", next_step="collect it:  frame.collect()")
    kind = next((_KINDS[name] for name in names if name in _KINDS), None)
    return None if kind is None else kind(value)


def columns_of(value: object) -> Columns | None:
    """Columns by name that are no DataFrame: a dict of columns, or a structured array. None for anything else."""
    if isinstance(value, np.ndarray) and value.dtype.names:
        return _Named({name: value[name] for name in value.dtype.names})
    if isinstance(value, Mapping) and value and all(is_column(item) for item in value.values()):
        return _Named({str(name): _read(item) for name, item in value.items()})
    return None


def is_column(value: object) -> bool:
    """Whether a value holds several values in order."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return (
        is_series(value)
        or isinstance(value, Iterator)
        or (isinstance(value, Sequence) and not isinstance(value, str | bytes))
    )


def is_series(value: object) -> bool:
    """Whether a value is one column of pandas, Polars or Arrow."""
    return any(
        name in (("pandas", "Series"), ("polars", "Series"), ("pyarrow", "ChunkedArray"), ("pyarrow", "Array"))
        for name in _names_of(value)
    )


def row_of(value: object) -> dict[str, Any] | None:
    """A pandas Series as one row, by its labels; None for anything else."""
    if ("pandas", "Series") not in _names_of(value):
        return None
    series: Any = value
    return {str(label): cell for label, cell in zip(series.index, series.tolist(), strict=True)}


def array_of(value: object) -> Any:
    """What NumPy can read: a series as an array, an iterator as a list, anything else as it is."""
    if ("pyarrow", "Array") in _names_of(value) or ("pyarrow", "ChunkedArray") in _names_of(value):
        return _of_arrow(value)
    if is_series(value):
        series: Any = value
        return np.asarray(series.to_numpy())
    if (
        isinstance(value, Iterable)
        and not isinstance(value, Sequence | Mapping | np.ndarray)
        and not hasattr(value, "__array__")
    ):
        return list(value)
    return value


def cells_of(column: Any) -> list[Any]:
    """A column's Python values."""
    if isinstance(column, np.ndarray):
        # Python has no nanoseconds: tolist() would make whole numbers of such times.
        return list((column.astype("datetime64[us]") if column.dtype.kind == "M" else column).tolist())
    for name in ("to_pylist", "to_list"):
        if is_series(column) and hasattr(column, name):
            return list(getattr(column, name)())
    return list(column)


def _read(column: Any) -> Any:
    return list(column) if isinstance(column, Iterator) else column


def _of_arrow(column: Any) -> Array:
    chunked = ("pyarrow", "ChunkedArray") in _names_of(column)
    return np.asarray(column.to_numpy() if chunked else column.to_numpy(zero_copy_only=False))


def _listed(values: Any) -> Any:
    """Texts as a list with None where there is none: Polars and Arrow do not read NumPy's arrays of objects."""
    if isinstance(values, np.ndarray) and values.dtype == object:
        return [None if is_missing(item) else item for item in values.tolist()]
    return values


def _names_of(value: object) -> list[tuple[str, str]]:
    """The packages and names of a value's type and its bases."""
    return [(kind.__module__.partition(".")[0], kind.__name__) for kind in type(value).__mro__]
