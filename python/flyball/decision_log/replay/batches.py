"""Sends rows to private servers in large, concurrent batches, and pairs each answer with its record.

Models whose scores depend on the batch run unbatched, so a batch changes no score. Must not know what is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flyball.client.decisions import ROWS_MAX
from flyball.decision.bulk_calls import retry_when_busy
from flyball.decision_log.replay.rows import NotReplayable, ReplayRow
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from flyball.client import Client, Decided

    Json = dict[str, Any]

Prepared = tuple["Json", ReplayRow | NotReplayable, "Target | None"]
"""A record, its row or why it cannot be replayed, and the server that decides it."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server that decides rows; rows of targets with the same key are sent together."""

    key: str
    decision: str
    client: Client


@dataclass(slots=True)
class _Batch:
    target: Target
    explain: bool
    records: list[Json] = field(default_factory=list)
    rows: list[ReplayRow] = field(default_factory=list)


def decided_again(
    prepared: Iterable[Prepared], between: Callable[[], None] = lambda: None
) -> Iterator[tuple[Json, Decided | NotReplayable]]:
    """Yield every record with its new decision, or why there is none; calls `between` while no request runs."""
    from flyball.native.machine import machine

    connections = 2 * machine().lanes
    with ThreadPoolExecutor(connections, thread_name_prefix="replay") as pool:
        full: list[_Batch] = []
        open_batches: dict[tuple[str, bool], _Batch] = {}
        for record, row, target in prepared:
            if isinstance(row, NotReplayable) or target is None:
                yield record, row if isinstance(row, NotReplayable) else NotReplayable("no server to decide it")
                continue
            batch = open_batches.setdefault((target.key, row.explain), _Batch(target, row.explain))
            batch.records.append(record)
            batch.rows.append(row)
            if len(batch.rows) == ROWS_MAX:
                full.append(open_batches.pop((target.key, row.explain)))
            if len(full) >= connections:
                yield from _send_all(pool, [*full, *open_batches.values()])
                full, open_batches = [], {}
                between()
        yield from _send_all(pool, [*full, *open_batches.values()])


def _send_all(pool: ThreadPoolExecutor, batches: list[_Batch]) -> Iterator[tuple[Json, Decided | NotReplayable]]:
    for batch, answers in zip(batches, pool.map(_send, batches), strict=True):
        yield from zip(batch.records, answers, strict=True)


def _send(batch: _Batch) -> list[Decided | NotReplayable]:
    target = batch.target
    values, routes = [row.values for row in batch.rows], [row.forced_route for row in batch.rows]
    try:
        rows = retry_when_busy(
            lambda: target.client.decide_rows(target.decision, values, forced_routes=routes, explain=batch.explain)
        )
    except FlyballError as error:
        return [NotReplayable(_text(error))] * len(batch.rows)  # a fault of the whole request is every row's
    return [row.decided or NotReplayable(_text(row.fault)) for row in rows]


def _text(fault: FlyballError | None) -> str:
    return str(fault).replace("\n", ";") if fault else "no answer"
