"""The rows that a conversion is tried on: columns by name, each with what it holds, from a file or from memory.

Numbers are float64 with NaN for missing, texts are objects with None, as in `flyball.decision.fit`. Must not know models.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from flyball.decision.fit.columns import absent
from flyball.errors import InvalidInputError, MissingExtraError, needing
from flyball.rows.columns import table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from flyball.decision.fit.columns import Column

Holds = Literal["bool", "int", "float", "string"]
ROWS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of equal length, and what each of them holds."""

    columns: dict[str, Column]
    holds: dict[str, Holds]
    infinite: int = 0
    """Rows that were left out because they had an infinite number, which no request can carry."""

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(next(iter(self.columns.values()), ()))

    def take(self, places: Any) -> Table:
        """Some of the rows, in this order."""
        return Table({name: column[places] for name, column in self.columns.items()}, self.holds)

    def only(self, names: Sequence[str]) -> Table:
        """Some of the columns, in this order."""
        return Table({name: self.columns[name] for name in names}, {name: self.holds[name] for name in names})

    def has_gaps(self, name: str) -> bool:
        """Whether a column is missing in some row."""
        return bool(absent(self.columns[name]).any())

    def matrix(self) -> NDArray[np.float64]:
        """Rows × columns, where all columns are numbers."""
        return np.stack([self.columns[name].astype(np.float64) for name in self.columns], axis=1)

    def arrow(self) -> Any:
        """A pyarrow Table with the same columns; NaN is null."""
        import pyarrow as pa

        types = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "string": pa.string()}
        return pa.table(
            {name: pa.array(column, from_pandas=True).cast(types[self.holds[name]]) for name, column in self.columns.items()}
        )

    def write(self, path: Path) -> None:
        """As Parquet."""
        from pyarrow import parquet

        parquet.write_table(self.arrow(), path)

    def frame(self) -> Any:
        """A pandas DataFrame as `read_csv` would give it: whole columns of ints and bools, NaN for what is missing."""
        pandas = pandas_for("giving columns by their names to the model")
        return pandas.DataFrame({name: self._series(name, pandas) for name in self.columns})

    def _series(self, name: str, pandas: Any) -> Any:
        column, holds = self.columns[name], self.holds[name]
        if holds in ("int", "bool") and not np.isnan(column).any():
            return pandas.Series(column.astype(np.int64 if holds == "int" else np.bool_))
        if holds == "string":
            # None would be a text like any other to most of scikit-learn.
            texts = np.array([np.nan if text is None else text for text in column], dtype=object)
            return pandas.Series(texts, dtype=object)
        return pandas.Series(column)


def read_table(data: Any, *, target: str | None = None, rows_max: int = ROWS_MAX) -> Table:
    """Rows of a file (.csv, .parquet, .jsonl), a pandas DataFrame, a pyarrow Table or a dict of columns; without the target.

    Of more rows than `rows_max` some are taken, evenly over the whole.
    """
    where, whole = _arrow(data)
    if target is not None and target not in whole.column_names:
        raise InvalidInputError(f"{where} has no column {target!r}, the target", next_step=_columns_are(whole.column_names))
    if not whole.num_rows:
        raise InvalidInputError(f"{where} has no rows", next_step="give rows as the model was trained on")
    if whole.num_rows > rows_max:
        places = np.linspace(0, whole.num_rows - 1, rows_max).astype(np.int64)
        whole = whole.take(places)
    columns, holds = {}, {}
    for name in whole.column_names:
        if name != target:
            columns[name], holds[name] = _column(whole.column(name))
    return _finite(Table(columns, holds))


def is_arrays(data: Any) -> bool:
    """Whether data are tensors by name, of more axes than rows and columns have: a .npz, or a dict of arrays."""
    if isinstance(data, str | Path):
        return Path(data).suffix == ".npz"
    return isinstance(data, dict) and any(getattr(array, "ndim", 1) > 1 for array in data.values())


def chosen(table: Table, names: Sequence[str]) -> Table:
    """The columns that a model wants, in its order; says which are not there, and what may be meant."""
    missing = [name for name in names if name not in table.columns]
    if not missing:
        return table.only(names)
    by_case = {name.lower(): name for name in table.columns}
    near = {name: by_case[name.lower()] for name in missing if name.lower() in by_case}
    shown = ", ".join(map(repr, missing[:8])) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
    raise InvalidInputError(
        f"the data has no column {shown}, which the model was trained on",
        next_step="; ".join(f"{theirs!r} is there: rename it to {name!r}" for name, theirs in near.items())
        or _columns_are(list(table.columns)),
    )


def named_columns(told: Sequence[str], table: Table, made_up: str) -> list[str]:
    """A booster's columns in the data: by name, or by place where training gave them none but `made_up`."""
    # LightGBM puts an underscore where a name has a space.
    spaced = {name.replace(" ", "_"): name for name in table.columns}
    named = [name if name in table.columns else spaced.get(name, name) for name in told]
    nameless = named == [made_up.format(place) for place in range(len(named))]
    if not nameless or all(name in table.columns for name in named):
        return named
    return by_place(len(named), table)


def by_place(wanted: int, table: Table) -> list[str]:
    """The data's own columns, for a model that was trained on so many without names."""
    if len(table.columns) != wanted:
        raise InvalidInputError(
            f"the model was trained on {wanted} columns without names, and the data has {len(table.columns)}",
            next_step="give just these columns, in the order of training; name the target's column with --target",
        )
    return list(table.columns)


def pandas_for(what: str) -> Any:
    """The package, or how to get it."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError(f"{what} needs pandas ({error})", next_step="install it:  pip install pandas") from error
    return pandas


def _finite(table: Table) -> Table:
    infinite = np.zeros(table.rows, dtype=np.bool_)
    for column in table.columns.values():
        if column.dtype != object:
            infinite |= np.isinf(column)
    return Table(table.take(~infinite).columns, table.holds, int(infinite.sum())) if infinite.any() else table


def _columns_are(names: Sequence[str]) -> str:
    return f"its columns are {', '.join(map(repr, names[:20]))}" + (f" and {len(names) - 20} more" * (len(names) > 20))


def _arrow(data: Any) -> tuple[str, Any]:
    """What to call the data in errors, and the data as a pyarrow Table."""
    if isinstance(data, str | Path):
        path = Path(data)
        if path.suffix not in (".csv", ".parquet", ".jsonl"):
            raise InvalidInputError(
                f"{path} is no file of rows by its name", next_step="rows come from .csv, .parquet, .jsonl"
            )
        return str(path), table_of(path)
    with needing("rows need pyarrow", extra="rows"):
        import pyarrow
    if isinstance(data, pyarrow.Table):
        return "the data", data
    if hasattr(data, "columns") and hasattr(data, "dtypes"):
        named = data.rename(columns=str)
        return "the data", pyarrow.Table.from_pandas(named, preserve_index=False)
    if isinstance(data, np.ndarray) and data.ndim == 2:
        return "the data", pyarrow.table({f"f{place}": data[:, place] for place in range(data.shape[1])})
    if isinstance(data, dict):
        return "the data", pyarrow.table(data)
    raise InvalidInputError(
        f"rows cannot be taken from a {type(data).__name__}",
        next_step="give the path of a .csv, .parquet or .jsonl file, a DataFrame, or a dict of columns",
    )


def _column(held: Any) -> tuple[Column, Holds]:
    import pyarrow as pa

    kind = held.type
    if pa.types.is_dictionary(kind):
        return _column(held.cast(kind.value_type))
    if pa.types.is_boolean(kind):
        return _numbers(held.cast(pa.int8())), "bool"
    if pa.types.is_integer(kind):
        return _numbers(held), "int"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return _numbers(held), "float"
    made = np.empty(len(held), dtype=object)
    # Times and whatever else there is are texts, as pandas would read them from a file; no model takes them as they are.
    made[:] = [value if value is None or isinstance(value, str) else str(value) for value in held.to_pylist()]
    return made, "string"


def _numbers(held: Any) -> NDArray[np.float64]:
    import pyarrow as pa

    return np.asarray(held.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
