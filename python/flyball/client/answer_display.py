"""How answers look in a shell and in a notebook. Must not know transports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.rows.html_table import html_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flyball.client.decisions import Decided, DecidedRow

ROWS_SHOWN_MAX = 20
FAULT_CHARACTERS_MAX = 60
_HEAD = ("outcome", "score", "reasons")


def decided_text(decided: Decided) -> str:
    """One line: the outcome, the score, the codes of the reasons."""
    parts = [decided.outcome, *([f"score {decided.score:.4g}"] if decided.score is not None else [])]
    if decided.reasons:
        parts.append(f"reasons {', '.join(reason.code for reason in decided.reasons)}")
    if decided.remedy is not None:
        parts.append(f"remedy {decided.remedy.used}")
    return ", ".join(parts)


def row_text(row: DecidedRow) -> str:
    """One line: the decision, or the fault."""
    if row.decided is not None:
        return decided_text(row.decided)
    message = row.fault.message if row.fault else ""
    return f"not decided: {message if len(message) <= FAULT_CHARACTERS_MAX else message[:FAULT_CHARACTERS_MAX] + '…'}"


def decided_html(decided: Decided) -> str:
    """A table of one row."""
    return html_table(_HEAD, [_cells(decided)])


def rows_html(rows: Sequence[DecidedRow]) -> str:
    """A table of the first rows; a row that was not decided shows its fault."""
    lines = [
        (row.id or "", *(("not decided", "", str(row.fault)) if row.decided is None else _cells(row.decided)))
        for row in rows[:ROWS_SHOWN_MAX]
    ]
    more = f"<p>{len(rows) - ROWS_SHOWN_MAX} more rows</p>" if len(rows) > ROWS_SHOWN_MAX else ""
    return html_table(("row", *_HEAD), lines) + more


def _cells(decided: Decided) -> tuple[str, ...]:
    score = "" if decided.score is None else f"{decided.score:.4g}"
    reasons = [f"{reason.code} {reason.text}" if reason.text else reason.code for reason in decided.reasons]
    return decided.outcome, score, "; ".join(reasons)
