"""The offline twin: rows of a file through the very same server and API, chunk by chunk over several connections.

Windows are never written; features come with the rows. Must not know the command line.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flyball.decision.bulk_calls import DEADLINE_MS, QUEUE_WAIT_MS, in_order, patiently
from flyball.decision.compile.bundle import bundle_of
from flyball.decision.compile.columns import kinds
from flyball.decision.local import LocalServer
from flyball.decision.score.files import Chunk, RowsIn, field_value, open_out
from flyball.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from flyball.client import Client, DecidedRow
    from flyball.decision.decision import Decision

ADDED = {
    "outcome": "text",
    "band": "text",
    "score": "number",
    "route": "text",
    "reasons": "text",
    "remedy": "text",
    "fault": "text",
}
"""The columns of results. Reasons are JSON; a row that was not decided has only its fault."""

_CHUNK_ROWS = 256


@dataclass(slots=True)
class Scored:
    """How many rows there were, and what became of them."""

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
    told: Callable[[int, int], None] | None = None,
) -> Scored:
    """Decide every row of a file; `told` hears how many rows are done, of how many."""
    if target.exists() and source.exists() and target.samefile(source):
        raise RefusedError(f"{target} holds the rows themselves", next_step="write elsewhere:  --out scored" + source.suffix)
    checked = decision.check()
    rows = RowsIn(source)
    wanted = _wanted(decision, rows, source)
    added = {f"{prefix}{name}": kind for name, kind in ADDED.items()}
    _refuse_clashes(rows, added, source)
    scored = Scored()
    bundle = bundle_of([checked.compiled], queue_wait_ms_max=QUEUE_WAIT_MS)
    server = LocalServer(bundle, offline=True, deadline_ms=DEADLINE_MS)
    try:
        with _whole(target) as beside, closing(open_out(beside, rows, added)) as out:
            ask = _Asking(server.client, decision.name, wanted, explain)
            for chunk, decided in in_order(rows.chunks(_CHUNK_ROWS), ask):
                out.write(chunk, [_result(row, prefix, scored) for row in decided])
                if told is not None:
                    told(scored.rows, rows.count)
    finally:
        server.close()
    return scored


@contextmanager
def _whole(target: Path) -> Iterator[Path]:
    """Where to write so that what has the target's name is whole, or what it was."""
    beside = target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
        yield beside
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _Asking:
    client: Client
    decision: str
    wanted: dict[str, str]
    explain: bool

    def __call__(self, chunk: Chunk) -> list[DecidedRow]:
        """A chunk's decisions."""
        rows = [self._row(row) for row in chunk.rows]
        return patiently(lambda: self.client.decide_rows(self.decision, rows, explain=self.explain))

    def _row(self, cells: dict[str, Any]) -> dict[str, Any]:
        values = {name: field_value(kind, cells.get(name)) for name, kind in self.wanted.items()}
        return {name: value for name, value in values.items() if value is not None}


def _result(row: DecidedRow, prefix: str, scored: Scored) -> dict[str, Any]:
    scored.rows += 1
    if row.decided is None:
        scored.faults += 1
        told = str(row.fault).replace("\n", ";") if row.fault else "no answer"
        return {f"{prefix}fault": told}
    decided = row.decided
    scored.outcomes[decided.outcome] += 1
    remedy = decided.remedy
    scored.remedied += remedy is not None
    reasons = [{key: value for key, value in _said(reason).items() if value is not None} for reason in decided.reasons]
    result = {
        "outcome": decided.outcome,
        "band": decided.band,
        "score": decided.score,
        "route": decided.route,
        "reasons": json.dumps(reasons, ensure_ascii=False) if reasons else None,
        "remedy": f"{remedy.cause} at {remedy.stage}: {remedy.used}" if remedy else None,
    }
    return {f"{prefix}{name}": value for name, value in result.items() if value is not None}


def _said(reason: Any) -> dict[str, Any]:
    return {"code": reason.code, "text": reason.text, "field": reason.field, "contribution": reason.contribution}


def _wanted(decision: Decision, rows: RowsIn, source: Path) -> dict[str, str]:
    """The columns that are sent, with their types: fields, and features that the file must bring along."""
    spec, typed = decision.spec, kinds(decision.spec)
    given = [name for name, feature in spec.features.items() if feature.compute is None]
    required = [name for name, part in spec.input.items() if part.required]
    absent = [name for name in [*required, *given] if name not in rows.columns]
    if absent:
        features = [name for name in absent if name in spec.features]
        raise RefusedError(
            f"{source} has no column {', '.join(map(repr, absent))}",
            next_step=f"features come with the rows: add {', '.join(features)} as of each row's time"
            if features
            else "its columns are named as the input's fields",
        )
    return {name: kind for name, kind in typed.items() if name in rows.columns and (name in spec.input or name in given)}


def _refuse_clashes(rows: RowsIn, added: dict[str, str], source: Path) -> None:
    clash = [name for name in added if name in rows.columns]
    if clash:
        raise RefusedError(
            f"{source} has a column {', '.join(map(repr, clash))} already",
            next_step="name the new ones otherwise:  --prefix new_",
        )
