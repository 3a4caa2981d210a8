"""Questions to a log: SQL over its views, or filters over decisions, and the answer as rows or as a file.

Must not know the command line; `views` has what SQL sees.
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
    """The rows of a query, read as they are wanted."""

    def __init__(self, relation: Any) -> None:
        self._relation = relation
        self.columns: list[str] = relation.columns
        self._json = [str(kind) == "JSON" for kind in relation.types]

    def rows(self, most: int | None = None) -> Iterator[dict[str, Any]]:
        """Each row by the names of its columns; JSON is opened, times are ISO 8601."""
        relation = self._relation if most is None else self._relation.limit(most)
        with _told():
            for batch in relation.to_arrow_reader(_ROWS):
                for row in batch.to_pylist():
                    yield {
                        name: _plain(value, opened) for (name, value), opened in zip(row.items(), self._json, strict=True)
                    }

    def write(self, path: Path) -> int:
        """All rows to a file for its owner alone, by its suffix; how many they are."""
        if path.suffix not in SUFFIXES:
            raise UsageError(f"{path} is no file of rows by its name", next_step=f"rows go to {', '.join(SUFFIXES)}")
        with _told(), _private(path) as making:
            if path.suffix == ".parquet":
                self._relation.write_parquet(str(making))
            elif path.suffix == ".csv":
                self._relation.write_csv(str(making))
            else:
                with making.open("w", encoding="utf-8") as file:
                    file.writelines(json.dumps(row) + "\n" for row in self.rows())
            return int(self._relation.count("*").fetchall()[0][0])


@contextmanager
def by_sql(log: JournalLog, sql: str, *, reveal: bool = False) -> Iterator[Answer]:
    """What a SELECT gives, over the views."""
    with views.opened(log, reveal=reveal) as connection, _told():
        import duckdb

        if [statement.type for statement in connection.extract_statements(sql)] != [duckdb.StatementType.SELECT]:
            raise UsageError("this is not one SELECT", next_step="a query only reads; rows go to a file by --out")
        yield Answer(connection.sql(sql))


@contextmanager
def by_filters(log: JournalLog, filters: Filters, *, brief: bool = False, reveal: bool = False) -> Iterator[Answer]:
    """Decisions for which all filters hold, oldest first; `brief`: a few columns only."""
    with views.opened(log, since_ns=filters.since_ns, reveal=reveal) as connection, _told():
        names = BRIEF + (", revealed" if reveal else "") if brief else "*"
        yield Answer(connection.sql(f"SELECT {names} FROM decisions WHERE {filters.condition()} ORDER BY seq"))  # noqa: S608


@contextmanager
def _private(path: Path) -> Iterator[Path]:
    """Where to write a file that nobody else can read at any time, wherever it goes: DuckDB takes no mode."""
    try:
        with TemporaryDirectory(dir=path.absolute().parent, prefix=f".{path.name}.") as folder:
            making = Path(folder) / path.name
            yield making
            making.chmod(0o600)
            making.replace(path)
    except OSError as error:
        raise RefusedError(f"{path} cannot be written: {error.strerror}", next_step="name another file") from error


@contextmanager
def _told() -> Iterator[None]:
    """What DuckDB refuses, in our own words."""
    import duckdb

    try:
        yield
    except duckdb.IOException as error:
        raise RefusedError(f"the rows cannot be read or written: {_first_line(error)}") from error
    except duckdb.Error as error:
        raise UsageError(
            f"the query is not understood: {_first_line(error)}",
            next_step="what there is:  flyball decisions query --columns",
        ) from error


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].removeprefix("Binder Error: ").removeprefix("Parser Error: ") if lines else type(error).__name__


def _plain(value: Any, opened: bool) -> Any:
    if value is None:
        return None
    if opened:
        return json.loads(value)
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, bool | int | float | str | list | dict) else str(value)
