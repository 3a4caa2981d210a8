"""A table of rows for a conversion: typed columns by name, from a file or from memory.

Numbers are float64 with NaN for missing, texts are objects with None, as in `flyball.decision.fit`. Must not know models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flyball.decision.fit.columns import Column, absent
from flyball.errors import InvalidInputError, MissingExtraError, needing
from flyball.rows.columns import table_of

Holds = Literal["bool", "int", "float", "string"]
ROWS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of equal length, and the type of each."""

    columns: dict[str, Column]
    holds: dict[str, Holds]
    infinite: int = 0
    """Skipped rows with an infinite number, which no request can contain."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def take(self, indices: Any) -> Table:
        """Select rows, in this order."""
        return Table({name: column[indices] for name, column in self.columns.items()}, self.holds)

    def only(self, names: Sequence[str]) -> Table:
        """Select columns, in this order."""
        return Table({name: self.columns[name] for name in names}, {name: self.holds[name] for name in names})

    def has_gaps(self, name: str) -> bool:
        """Whether a column has a missing value."""
        return bool(absent(self.columns[name]).any())

    def matrix(self) -> NDArray[np.float64]:
        """Rows × columns; all columns must be numeric."""
        return np.stack([self.columns[name].astype(np.float64) for name in self.columns], axis=1)

    def arrow(self) -> Any:
        """A pyarrow Table with the same columns; NaN is null."""
        import pyarrow as pa

        types = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64(), "string": pa.string()}
        return pa.table(
            {name: pa.array(column, from_pandas=True).cast(types[self.holds[name]]) for name, column in self.columns.items()}
        )

    def write(self, path: Path) -> None:
        """Write Parquet."""
        from pyarrow import parquet

        parquet.write_table(self.arrow(), path)

    def frame(self) -> Any:
        """A pandas DataFrame as `read_csv` returns it: integer and bool columns, NaN for missing values."""
        pandas = pandas_for("passing named columns to the model")
        return pandas.DataFrame({name: self._series(name, pandas) for name in self.columns})

    def _series(self, name: str, pandas: Any) -> Any:
        column, holds = self.columns[name], self.holds[name]
        if holds in ("int", "bool") and not np.isnan(column).any():
            return pandas.Series(column.astype(np.int64 if holds == "int" else np.bool_))
        if holds == "string":
            # Most of scikit-learn treats None as an ordinary text.
            texts = np.array([np.nan if text is None else text for text in column], dtype=object)
            return pandas.Series(texts, dtype=object)
        return pandas.Series(column)


def read_table(data: Any, *, target: str | None = None, rows_max: int = ROWS_MAX) -> Table:
    """Read a file (.csv, .parquet, .jsonl), a DataFrame, a pyarrow Table or a dict of columns; without the target.

    At most `rows_max` rows, evenly spread over the data.
    """
    where, whole = _arrow(data)
    if target is not None and target not in whole.column_names:
        raise InvalidInputError(f"{where} has no column {target!r}, the target", next_step=_columns_are(whole.column_names))
    if not whole.num_rows:
        raise InvalidInputError(f"{where} has no rows", next_step="pass rows like those the model was trained on")
    if whole.num_rows > rows_max:
        indices = np.linspace(0, whole.num_rows - 1, rows_max).astype(np.int64)
        whole = whole.take(indices)
    columns, holds = {}, {}
    for name in whole.column_names:
        if name != target:
            columns[name], holds[name] = _column(whole.column(name))
    return _finite(Table(columns, holds))


def is_arrays(data: Any) -> bool:
    """Whether data are named tensors instead of rows: a .npz, or a dict of arrays with more axes."""
    if isinstance(data, str | Path):
        return Path(data).suffix == ".npz"
    return isinstance(data, dict) and any(getattr(array, "ndim", 1) > 1 for array in data.values())


def arrays_of(data: Any) -> dict[str, NDArray[Any]]:
    """Named arrays of a .npz or a dict."""
    if not isinstance(data, str | Path):
        return dict(data)
    with np.load(data, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def chosen(table: Table, names: Sequence[str]) -> Table:
    """The model's columns in its order; reports missing ones with suggestions."""
    missing = [name for name in names if name not in table.columns]
    if not missing:
        return table.only(names)
    by_case = {name.lower(): name for name in table.columns}
    near = {name: by_case[name.lower()] for name in missing if name.lower() in by_case}
    shown = ", ".join(map(repr, missing[:8])) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
    raise InvalidInputError(
        f"the data has no column {shown}, which the model was trained on",
        next_step="; ".join(f"rename {theirs!r} to {name!r}" for name, theirs in near.items())
        or _columns_are(list(table.columns)),
    )


def named_columns(names: Sequence[str], table: Table, made_up: str) -> list[str]:
    """A booster's columns in the data: by name, or by position if training used only generated names."""
    # LightGBM replaces spaces in names by underscores.
    spaced = {name.replace(" ", "_"): name for name in table.columns}
    named = [name if name in table.columns else spaced.get(name, name) for name in names]
    nameless = named == [made_up.format(index) for index in range(len(named))]
    if not nameless or all(name in table.columns for name in named):
        return named
    return by_position(len(named), table)


def by_position(wanted: int, table: Table) -> list[str]:
    """The data's columns, for a model trained on unnamed ones."""
    if len(table.columns) != wanted:
        raise InvalidInputError(
            f"the model was trained on {wanted} unnamed columns, but the data has {len(table.columns)}",
            next_step="pass only these columns, in the order of training; name the target column with --target",
        )
    return list(table.columns)


def pandas_for(what: str) -> Any:
    """Import pandas, or fail with the command that installs it."""
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
    """A name for the data in errors, and the data as a pyarrow Table."""
    if isinstance(data, str | Path):
        path = Path(data)
        if path.suffix not in (".csv", ".parquet", ".jsonl"):
            raise InvalidInputError(f"{path} is not a supported file of rows", next_step="supported: .csv, .parquet, .jsonl")
        return str(path), table_of(path)
    with needing("rows need pyarrow", extra="rows"):
        import pyarrow
    if isinstance(data, pyarrow.Table):
        return "the data", data
    if hasattr(data, "columns") and hasattr(data, "dtypes"):
        named = data.rename(columns=str)
        return "the data", pyarrow.Table.from_pandas(named, preserve_index=False)
    if isinstance(data, np.ndarray) and data.ndim == 2:
        return "the data", pyarrow.table({f"f{index}": data[:, index] for index in range(data.shape[1])})
    if isinstance(data, dict):
        return "the data", pyarrow.table(data)
    raise InvalidInputError(
        f"cannot read rows from a {type(data).__name__}",
        next_step="pass the path of a .csv, .parquet or .jsonl file, a DataFrame, or a dict of columns",
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
    # Times and other types become text, as pandas reads them from a file; no model takes them unchanged.
    made[:] = [value if value is None or isinstance(value, str) else str(value) for value in held.to_pylist()]
    return made, "string"


def _numbers(held: Any) -> NDArray[np.float64]:
    import pyarrow as pa

    return np.asarray(held.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
