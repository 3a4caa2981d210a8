"""Offline scoring: sends the rows of a file to a local server, in chunks over several connections.

Windows are never written; rows have their features. Must not know the command line.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from flyball.decision.bulk_calls import bulk_server, in_order, retry_when_busy
from flyball.decision.compile.columns import kinds
from flyball.decision.score.files import Chunk, RowsIn, field_value, open_out, out_suffix
from flyball.errors import RefusedError
from flyball.rows.columns import named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from flyball.client import DecidedRow
    from flyball.decision.decision import Decision

ADDED = {**dict.fromkeys(("outcome", "band", "score", "route", "reasons", "remedy", "fault"), "text"), "score": "number"}
"""The result columns. Reasons are JSON; a row that was not decided has only its fault."""

_CHUNK_ROWS = 256


@dataclass(slots=True)
class Scored:
    """Counts of rows and results."""

    rows: int = 0
    faults: int = 0
    remedied: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)


def score_file(
    decision: Decision,
    source: Path,
    target: Path,
    *,
    prefix: str = "",
    explain: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Scored:
    """Decide every row of a file; `progress` gets (done, total)."""
    if target.exists() and source.exists() and target.samefile(source):
        raise RefusedError(
            f"--out: {target} is the input file", next_step="give another file:  --out scored" + source.suffix
        )
    out_suffix(target)
    compiled = decision.check().compiled
    rows = RowsIn(source)
    wanted = _wanted(decision, rows, source)
    added = {f"{prefix}{name}": kind for name, kind in ADDED.items()}
    _refuse_clashes(rows, added, source)
    scored = Scored()
    with closing(bulk_server(compiled)) as server, _atomically(target) as temporary:

        def decide(chunk: Chunk) -> list[DecidedRow]:
            sent = [_row(cells, wanted) for cells in chunk.rows]
            return retry_when_busy(lambda: server.client.decide_rows(decision.name, sent, explain=explain))

        with closing(open_out(temporary, rows, added)) as out:
            for chunk, decided in in_order(rows.chunks(_CHUNK_ROWS), decide):
                out.write(chunk, [_result(row, prefix, scored) for row in decided])
                if progress is not None:
                    progress(scored.rows, rows.count)
    return scored


@contextmanager
def _atomically(target: Path) -> Iterator[Path]:
    """A temporary path that replaces the target on success."""
    temporary = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _row(cells: dict[str, Any], wanted: dict[str, str]) -> dict[str, Any]:
    values = {name: field_value(kind, cells.get(name)) for name, kind in wanted.items()}
    return {name: value for name, value in values.items() if value is not None}


def _result(row: DecidedRow, prefix: str, scored: Scored) -> dict[str, Any]:
    scored.rows += 1
    if row.decided is None:
        scored.faults += 1
        return {f"{prefix}fault": str(row.fault).replace("\n", ";") if row.fault else "no answer"}
    decided = row.decided
    scored.outcomes[decided.outcome] += 1
    remedy = decided.remedy
    scored.remedied += remedy is not None
    reasons = [{key: value for key, value in asdict(reason).items() if value is not None} for reason in decided.reasons]
    result = {
        "outcome": decided.outcome,
        "band": decided.band,
        "score": decided.score,
        "route": decided.route,
        "reasons": json.dumps(reasons, ensure_ascii=False) if reasons else None,
        "remedy": f"{remedy.cause} at {remedy.stage}: {remedy.used}" if remedy else None,
    }
    return {f"{prefix}{name}": value for name, value in result.items() if value is not None}


def _wanted(decision: Decision, rows: RowsIn, source: Path) -> dict[str, str]:
    """The columns to send, with their types: fields, and features that the file must have."""
    spec, typed = decision.spec, kinds(decision.spec)
    given = [name for name, feature in spec.features.items() if feature.compute is None]
    required = [name for name, part in spec.input.items() if part.required]
    absent = [name for name in [*required, *given] if name not in rows.columns]
    if absent:
        features = [name for name in absent if name in spec.features]
        raise RefusedError(
            f"{source} has no column {', '.join(map(repr, absent))}; it has {named(rows.columns)}",
            next_step=f"rows need their features: add {', '.join(features)} as of each row's time"
            if features
            else "name the columns after the input's fields",
        )
    return {name: kind for name, kind in typed.items() if name in rows.columns and (name in spec.input or name in given)}


def _refuse_clashes(rows: RowsIn, added: dict[str, str], source: Path) -> None:
    clash = [name for name in added if name in rows.columns]
    if clash:
        raise RefusedError(
            f"{source} already has a column {', '.join(map(repr, clash))}",
            next_step="give the new columns a prefix:  --prefix new_",
        )
