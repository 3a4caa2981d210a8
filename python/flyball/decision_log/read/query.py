"""Queries of a log: SQL over its views, or filters over decisions; results as rows or a file.

Must not know the command line; `views` defines what SQL sees.
"""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from flyball.decision_log.read import views
from flyball.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flyball.decision_log.read.filters import Filters
    from flyball.native.journal import JournalLog

SUFFIXES = (".parquet", ".csv", ".jsonl")
BRIEF = 'id, "time", decision, outcome, score, route, final, truth'
_ROWS = 4096


class Answer:
    """The rows of a query, read lazily."""

    def __init__(self, relation: Any) -> None:
        self._relation = relation
        self.columns: list[str] = relation.columns
        self._json = [str(kind) == "JSON" for kind in relation.types]

    def rows(self, most: int | None = None) -> Iterator[dict[str, Any]]:
        """Each row as column names to values; JSON is parsed, times are ISO 8601."""
        relation = self._relation if most is None else self._relation.limit(most)
        with _errors_converted():
            for batch in relation.to_arrow_reader(_ROWS):
                for row in batch.to_pylist():
                    yield {
                        name: _plain(value, is_json) for (name, value), is_json in zip(row.items(), self._json, strict=True)
                    }

    def write(self, path: Path) -> int:
        """Write all rows to a file readable by its owner only, in the format of its suffix; return their number."""
        if path.suffix not in SUFFIXES:
            raise UsageError(f"--out: {path} has an unknown suffix", next_step=f"use one of {', '.join(SUFFIXES)}")
        with _errors_converted(), _private(path) as temporary:
            if path.suffix == ".parquet":
                self._relation.write_parquet(str(temporary))
            elif path.suffix == ".csv":
                self._relation.write_csv(str(temporary))
            else:
                with temporary.open("w", encoding="utf-8") as file:
                    file.writelines(json.dumps(row) + "\n" for row in self.rows())
            return int(self._relation.count("*").fetchall()[0][0])


@contextmanager
def by_sql(log: JournalLog, sql: str, *, reveal: bool = False) -> Iterator[Answer]:
    """Run a SELECT over the views."""
    with views.opened(log, reveal=reveal) as connection, _errors_converted():
        import duckdb

        if [statement.type for statement in connection.extract_statements(sql)] != [duckdb.StatementType.SELECT]:
            raise UsageError("the query must be a single SELECT", next_step="to write rows to a file, use --out")
        yield Answer(connection.sql(sql))


@contextmanager
def by_filters(log: JournalLog, filters: Filters, *, brief: bool = False, reveal: bool = False) -> Iterator[Answer]:
    """Decisions that match all filters, oldest first; with `brief`, only a few columns."""
    with views.opened(log, since_ns=filters.since_ns, reveal=reveal) as connection, _errors_converted():
        names = BRIEF + (", revealed" if reveal else "") if brief else "*"
        yield Answer(connection.sql(f"SELECT {names} FROM decisions WHERE {filters.condition()} ORDER BY seq"))  # noqa: S608


@contextmanager
def _private(path: Path) -> Iterator[Path]:
    """A temporary path for a file that nobody else can read at any time: DuckDB cannot set a mode."""
    try:
        with TemporaryDirectory(dir=path.absolute().parent, prefix=f".{path.name}.") as folder:
            temporary = Path(folder) / path.name
            yield temporary
            temporary.chmod(0o600)
            temporary.replace(path)
    except OSError as error:
        raise RefusedError(f"{path} cannot be written: {error.strerror}", next_step="give another file") from error


@contextmanager
def _errors_converted() -> Iterator[None]:
    """Convert DuckDB's errors to our own."""
    import duckdb

    try:
        yield
    except duckdb.IOException as error:
        raise RefusedError(f"the rows cannot be read or written: {_first_line(error)}") from error
    except duckdb.Error as error:
        raise UsageError(
            f"invalid query: {_first_line(error)}",
            next_step="list views and columns:  flyball decisions query --columns",
        ) from error


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].removeprefix("Binder Error: ").removeprefix("Parser Error: ") if lines else type(error).__name__


def _plain(value: Any, is_json: bool) -> Any:
    if value is None:
        return None
    if is_json:
        return json.loads(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, bool | int | float | str | list | dict) else str(value)
