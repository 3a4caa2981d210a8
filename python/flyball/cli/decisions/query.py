"""`flyball decisions query`: queries the whole log by SQL or filters."""

from __future__ import annotations

import csv as csv_
import json as json_
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flyball.cli.decisions.options import FOLDER, Folder, Kek, Reveal, open_log
from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import console, counted, print_json
from flyball.cli.printable import printable
from flyball.errors import UsageError, needing

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from flyball.decision_log.read.filters import Filters
    from flyball.decision_log.read.query import Answer
    from flyball.native.journal import JournalLog

_Where = Annotated[str | None, option("SQL condition: \"score > 0.8 and input->>'country' = 'FR'\".", metavar="SQL")]


def query(
    sql: Annotated[str | None, argument("A SELECT over the views.", metavar="[SQL]")] = None,
    decision: Annotated[str | None, option("Only this decision.", metavar="NAME")] = None,
    since: Annotated[str | None, option("Since then: 15m, 2h, 1d, or 2026-11-15T07:30 (UTC).", metavar="TIME")] = None,
    until: Annotated[str | None, option("Before then.", metavar="TIME")] = None,
    outcome: Annotated[str | None, option("Only this outcome.", metavar="NAME")] = None,
    subject: Annotated[str | None, option("Only this subject; needs the --journal-kek key.", metavar="TEXT")] = None,
    where: _Where = None,
    limit: Annotated[int, option("Maximum rows in a table; JSON, CSV and files have all.", "--limit", "-n", min=1)] = 50,
    out: Annotated[Path | None, option("Write to a .parquet, .csv or .jsonl file.", "--out", metavar="FILE")] = None,
    csv: Annotated[bool, option("Print CSV.", "--csv")] = False,
    json: AsJson = False,
    columns: Annotated[bool, option("List the views and their columns.", "--columns")] = False,
    reveal: Reveal = False,
    kek: Kek = None,
    journal: Folder = FOLDER,
) -> None:
    """Query the log by filters, which are combined with AND, or by SQL (DuckDB's).

    Views: decisions (with truth, overrides and the final outcome), failures, outcomes, overrides, shadows, events, and
    records, which has all of them. Access JSON columns like this:  features->'spent_1h'->>'value'

        flyball decisions query --since 1d --outcome reject --where "score < 0.9"

        flyball decisions query "select decision, final, count(*) from decisions group by all"

    With --json each line is a row.
    """
    from flyball.decision_log.read.query import by_filters, by_sql

    if columns:
        _columns(json=json)
        return
    filters = {"decision": decision, "since": since, "until": until, "outcome": outcome, "subject": subject, "where": where}
    if sql is not None and any(value is not None for value in filters.values()):
        given = ", ".join(f"--{name}" for name, value in filters.items() if value is not None)
        raise UsageError(
            f"SQL cannot be combined with {given}",
            next_step="put it in the SQL:  … from decisions where decision = 'NAME' and \"time\" > now() - interval 1 day",
        )
    if csv and json:
        raise UsageError("give either --csv or --json")
    log = open_log(journal, kek, reveal=reveal or subject is not None)
    answer: AbstractContextManager[Answer]
    if sql is not None:
        answer = by_sql(log, sql, reveal=reveal)
    else:
        brief = not (json or csv or out)
        answer = by_filters(log, _filters(log, filters), brief=brief, reveal=reveal)
    with answer as found:
        _print(found, limit, out, csv=csv, json=json)


def _filters(log: JournalLog, given: dict[str, str | None]) -> Filters:
    from flyball.decision_log.read.filters import Filters, instant

    since, until, subject = given["since"], given["until"], given["subject"]
    return Filters(
        decision=given["decision"],
        since_ns=None if since is None else instant(since, "--since"),
        until_ns=None if until is None else instant(until, "--until"),
        outcome=given["outcome"],
        subject=None if subject is None else log.token(subject),
        where=given["where"],
    )


def _print(found: Answer, limit: int, out: Path | None, *, csv: bool, json: bool) -> None:
    if out is not None:
        rows = found.write(out)
        if json:
            print_json({"rows": rows, "file": str(out)})
        else:
            console().print(f"{counted(rows, 'row')}: {out}", markup=False)
    elif csv:
        writer = csv_.writer(sys.stdout, lineterminator="\n")
        writer.writerow(found.columns)
        writer.writerows(map(_cell, row.values()) for row in found.rows())
    elif json:
        sys.stdout.writelines(json_.dumps(row) + "\n" for row in found.rows())
    else:
        _table(found, limit)


def _table(found: Answer, limit: int) -> None:
    from rich.table import Table
    from rich.text import Text

    rows = list(found.rows(limit + 1))
    table = Table(*found.columns, box=None, pad_edge=False, header_style="dim")
    for row in rows[:limit]:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    out = console()
    out.print(table)
    if len(rows) > limit:
        out.print(f"first {limit:,} rows; use --limit, --json or --out FILE for more", style="dim", markup=False)
    elif not rows:
        out.print("no rows", style="dim")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return json_.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | bool) else printable(value)


def _columns(*, json: bool) -> None:
    from rich.table import Table

    from flyball.decision_log.read.views import JOINED, PARTS

    with needing("queries need DuckDB and pyarrow", extra="journal"):
        from flyball.decision_log.read.columns import COLUMNS
    if json:
        own = [("records", column.name, column.type, column.about) for column in COLUMNS]
        names = ("view", "name", "type", "about")
        print_json([dict(zip(names, row, strict=True)) for row in [*own, *(("decisions", *row) for row in JOINED)]])
        return
    table = Table("view", "column", "type", "meaning", box=None, pad_edge=False, header_style="dim")
    for column in COLUMNS:
        table.add_row("records", column.name, column.type, column.about)
    for name, kind, about in JOINED:
        table.add_row("decisions", name, kind, about)
    out = console()
    out.print(table)
    out.print(f"decisions also have the columns of records; other views: {', '.join(PARTS)}", style="dim")
