"""`flyball decisions outcome`: records true outcomes, for one decision or for the rows of a file."""

from __future__ import annotations

import csv
import json as json_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flyball.cli.decisions.options import (
    FOLDER,
    ID_WORDS,
    DecisionName,
    Folder,
    Kek,
    Key,
    Url,
    decision_named,
    log_if_available,
)
from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import console, print_json
from flyball.cli.progress import progress_on
from flyball.errors import InvalidInputError, UsageError

if TYPE_CHECKING:
    Json = dict[str, Any]

_COLUMNS = {"id", "decision", "truth", "when", "source"}


def outcome(
    decision_id: Annotated[str | None, argument(ID_WORDS, metavar="[ID]")] = None,
    truth: Annotated[str | None, option("The true outcome: true, false, a number or text.", metavar="VALUE")] = None,
    when: Annotated[str | None, option("When it became known: 2026-11-15T07:30Z.", metavar="TIME")] = None,
    source: Annotated[str | None, option("The source of the truth.", metavar="NAME")] = None,
    data: Annotated[
        Path | None, option("CSV with id and truth; optional: decision, when and source.", metavar="FILE")
    ] = None,
    decision: DecisionName = None,
    url: Url = None,
    journal: Folder = FOLDER,
    kek: Kek = None,
    key: Key = None,
    json: AsJson = False,
) -> None:
    """Record true outcomes of decisions. They may come late and more than once; the last one counts.

    flyball decisions outcome 0192f6c1 --truth true --source chargebacks

    flyball decisions outcome --data chargebacks.csv --decision card-fraud
    """
    from flyball.decision_log.annotations import outcome_document, record_outcomes
    from flyball.decision_log.read.records import find

    if (data is None) == (decision_id is None) or (decision_id is not None and truth is None):
        raise UsageError(
            "give one ID with --truth, or --data",
            next_step="flyball decisions outcome ID --truth fraud   or   --data outcomes.csv",
        )
    if data is not None:
        outcomes = _read(data, decision, when, source)
    else:
        log = log_if_available(journal, url)
        found = None if log is None else find(log, str(decision_id)).decision
        wanted = str(decision_id) if found is None else found.id
        named = decision_named(wanted, decision, None if found is None else found.decision)
        outcomes = [outcome_document(named, wanted, _truth(str(truth)), when, source)]
    with progress_on(console(stderr=True)) as progress:
        step = progress.begin("outcomes", 1.0)
        count = record_outcomes(
            outcomes,
            url=url,
            folder=journal,
            kek=kek,
            key=key,
            progress=lambda done, total: step.update(done / total, f"{done:,} of {total:,}"),
        )
        step.end(f"{count:,} recorded")
    if json:
        print_json({"recorded": count})


def _read(file: Path, decision: str | None, when: str | None, source: str | None) -> list[Json]:
    """Read all rows first, so that one invalid row records nothing; options fill missing columns."""
    from flyball.decision_log.annotations import outcome_document

    found: list[Json] = []
    with file.open(newline="", encoding="utf-8-sig") as text:
        rows = csv.DictReader(text)
        columns = set(rows.fieldnames or ())
        if not {"id", "truth"} <= columns <= _COLUMNS:
            raise InvalidInputError(
                f"{file} has the columns {', '.join(sorted(columns))}; allowed: id, decision, truth, when, source"
            )
        for row in rows:
            try:
                named = row.get("decision") or decision
                if not named:
                    raise InvalidInputError("no decision; add a column decision, or --decision NAME")
                optional = (row.get("when") or when, row.get("source") or source)
                found.append(outcome_document(named, row["id"], _truth(row["truth"]), *optional))
            except InvalidInputError as error:
                raise InvalidInputError(f"line {rows.line_num} of {file}: {error.message}") from error
    if not found:
        raise InvalidInputError(f"{file} has no rows")
    return found


def _truth(text: str) -> Any:
    """Parse true, false and numbers; all else is text."""
    try:
        value = json_.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text
