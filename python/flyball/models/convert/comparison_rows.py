"""The rows a conversion is compared on, with the original's answers: given rows and generated edge cases.

Built where the original model runs, before anything is served: whether it accepts unseen values decides whether its
decision does. Must not know how the converted model is run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flyball.decision.fit.columns import Column
from flyball.errors import InvalidInputError, ModelRefusedError
from flyball.models.convert.parts import Original, Parts
from flyball.models.convert.table import ROWS_MAX, Table
from flyball.models.equivalence.rows import like

UNSEEN = "flyball-has-not-seen-this"
_FEW_ROWS = 16
_EDGED_ROWS_MAX = 100_000
_FLOAT32_MAX = 3e38
_ANSWERS, _REST = "answers.npy", "examined.json"
_KIND, _EXPECTED, _ROUNDED = "flyball.kind", "flyball.expected", "flyball.expected_of_float32"


@dataclass(frozen=True, slots=True)
class Reference:
    """A model's parts, the comparison rows with their kinds, and the original's answers."""

    parts: Parts
    rows: Table
    kinds: list[str]
    expected: NDArray[np.float64]
    expected_of_float32: NDArray[np.float64]
    """The original's answers to columns rounded to float32, as the served model gets them."""
    optional: list[str]
    """Fields that may be missing, because the data has gaps there."""
    unseen: list[str]
    """Text fields in which the original accepts unseen values."""

    def write(self, folder: Path) -> None:
        """Write the parts and the answers as plain files, for another process."""
        self.parts.write(folder)
        np.save(folder / _ANSWERS, np.stack([self.expected, self.expected_of_float32]))
        (folder / _REST).write_text(json.dumps({"columns": list(self.rows.columns), "unseen": self.unseen}))

    def write_rows(self, path: Path) -> None:
        """Write the rows by the decision's fields, with the expected answers, for a later comparison."""
        import pyarrow as pa
        from pyarrow import parquet

        fields = self.parts.fields
        table = self.rows.only(list(fields.values())).arrow().rename_columns(list(fields))
        answers = {_KIND: self.kinds, _EXPECTED: self.expected, _ROUNDED: self.expected_of_float32}
        for name, column in answers.items():
            table = table.append_column(name, pa.array(column))
        parquet.write_table(table, path)

    @classmethod
    def read(cls, folder: Path, table: Table, rows_max: int | None) -> Reference:
        """Read such a folder and regenerate the rows. The files are not trusted."""
        try:
            parts = Parts.read(folder)
            rest = json.loads((folder / _REST).read_bytes())
            given = table.only([str(name) for name in rest["columns"]])
            unseen = [name for name in parts.fields if name in rest["unseen"]]
            rows, kinds, optional = _asked(parts, given, unseen, rows_max)
            answers = np.load(folder / _ANSWERS, allow_pickle=False)
            if answers.shape != (2, rows.rows) or answers.dtype != np.float64:
                raise ValueError(f"answers have shape {answers.shape}")
        except Exception as error:
            # Forged files can make any reader fail in any way.
            raise unreadable(error) from error
        return cls(parts, rows, kinds, answers[0], answers[1], optional, unseen)


def unreadable(why: Exception) -> ModelRefusedError:
    """The error for files that the loader process would not have written."""
    message = str(why).partition("\n")[0]
    return ModelRefusedError(
        f"cannot read the output of the model's process: {type(why).__name__}: {message}",
        next_step="do not trust the model file",
    )


def make_reference(original: Original, table: Table, *, rows_max: int | None = None) -> Reference:
    """Get the original's answers to rows of the data and to rows generated to reveal differences.

    Without `rows_max`, enough rows are generated to cover every threshold.
    """
    parts = original.parts
    given = table.only(original.columns)
    texts = [name for name, column in parts.fields.items() if given.holds[column] == "string"]
    unseen = [name for name in texts if _takes(original, _unseen(given, parts.fields[name]))]
    rows, kinds, optional = _asked(parts, given, unseen, rows_max)
    rounded = Table({name: _as_float32(parts, rows, name) for name in rows.columns}, rows.holds)
    return Reference(parts, rows, kinds, _answers(original, rows), _answers(original, rounded), optional, unseen)


def _asked(parts: Parts, given: Table, unseen: list[str], rows_max: int | None) -> tuple[Table, list[str], list[str]]:
    """The comparison rows, their kinds, and the optional fields; deterministic."""
    optional = [name for name, column in parts.fields.items() if given.has_gaps(column)]
    made = like(
        given.columns,
        rows=ROWS_MAX if rows_max is None else rows_max,
        rows_max=_EDGED_ROWS_MAX if rows_max is None else 0,
        thresholds=_thresholds(parts),
        gaps=[parts.fields[name] for name in optional],
        unseen={parts.fields[name]: UNSEEN for name in unseen},
        known={parts.fields[name]: _known(parts, given, name) for name in parts.categories},
    )
    rows = Table({name: _whole(column, given.holds[name]) for name, column in made.columns.items()}, given.holds)
    return rows, [str(kind) for kind in made.kinds], optional


def _known(parts: Parts, given: Table, name: str) -> list[str] | list[float]:
    """All categories of a field in the data's type, including those absent from the data."""
    # A placeholder for missing values is no category: nobody sends it, and the original does not know it.
    stand_ins = [
        value
        for step in parts.transforms
        if step["op"] == "impute"
        for field, value in zip(step["of"], step["values"], strict=True)
        if field == name
    ]
    texts = [text for text in parts.categories[name] if text not in stand_ins]
    match given.holds[parts.fields[name]]:
        case "string":
            return texts
        case "bool":
            return []  # both values are ends of its range
        case _:
            return [float(text) for text in texts]


def _answers(original: Original, rows: Table) -> NDArray[np.float64]:
    try:
        answers = np.asarray(original.predict(rows), dtype=np.float64).reshape(-1)
    except InvalidInputError:
        raise
    except Exception as error:
        # A trained model can raise anything about these rows; its own message is the best explanation.
        raise InvalidInputError(
            f"the original model fails on these rows: {type(error).__name__}: {error}",
            next_step="pass rows like those the model was trained on, with the same columns and types",
        ) from error
    if len(answers) != rows.rows:
        raise InvalidInputError(f"the model returned {len(answers)} answers for {rows.rows} rows")
    return answers


def _takes(original: Original, rows: Table) -> bool:
    try:
        original.predict(rows)
    except Exception:
        return False
    return True


def _whole(column: Column, holds: str) -> Column:
    """Keep integer columns integer, also next to a threshold."""
    return np.rint(column) if holds in ("int", "bool") else column


def _as_float32(parts: Parts, table: Table, name: str) -> Column:
    """A column as the served model gets it; one step lower if thresholds may have been rounded up."""
    column = table.columns[name]
    if table.holds[name] != "float":
        return column
    near = column.astype(np.float32)
    below = np.nextafter(near, np.float32(-np.inf)) if parts.rounded_to_nearest else near
    return below.astype(np.float64)


def _thresholds(parts: Parts) -> dict[str, list[float]]:
    """The thresholds of each data column that the trees read unchanged."""
    if parts.trees is None or isinstance(parts.columns, dict):
        return {}
    touched = {name for step in parts.transforms for name in step["of"]}
    found: dict[str, list[float]] = {}
    for tree in json.loads(parts.trees)["trees"]:
        categories = tree.get("categories", {})
        for index, (column, threshold) in enumerate(zip(tree["feature"], tree["threshold"], strict=True)):
            name = parts.columns[column]
            if (
                name in parts.fields
                and name not in touched
                and str(index) not in categories
                and abs(threshold) < _FLOAT32_MAX
            ):
                found.setdefault(parts.fields[name], []).append(threshold)
    return found


def _unseen(given: Table, column: str) -> Table:
    few = given.take(slice(0, _FEW_ROWS))
    return Table({**few.columns, column: np.full(few.rows, UNSEEN, dtype=object)}, few.holds)
