"""Rows to private servers in long lists, several lists at a time, and each row's answer back beside its record.

A model that minds the batch has batching off, so a list changes no score. Must not know what is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flyball.client.decisions import ROWS_MAX
from flyball.decision.bulk_calls import patiently
from flyball.decision_log.replay.rows import AgainRow, Unready
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from flyball.client import Client, Decided

    Json = dict[str, Any]

Prepared = tuple["Json", AgainRow | Unready, "Target | None"]
"""A record, its row or why there is none, and who decides it again."""


@dataclass(frozen=True, slots=True)
class Target:
    """Who decides rows again; targets of one key are asked together."""

    key: str
    decision: str
    client: Client


@dataclass(slots=True)
class _Lot:
    target: Target
    explain: bool
    records: list[Json] = field(default_factory=list)
    rows: list[AgainRow] = field(default_factory=list)


def decided_again(
    prepared: Iterable[Prepared], between: Callable[[], None] = lambda: None
) -> Iterator[tuple[Json, Decided | Unready]]:
    """Every record with its decision, or with why there is none. `between` is called while no server is being asked."""
    from flyball.native.machine import machine

    connections = 2 * machine().lanes
    with ThreadPoolExecutor(connections, thread_name_prefix="replay") as pool:
        full: list[_Lot] = []
        open_lots: dict[tuple[str, bool], _Lot] = {}
        for record, row, target in prepared:
            if isinstance(row, Unready) or target is None:
                yield record, row if isinstance(row, Unready) else Unready("nobody is there to decide it")
                continue
            lot = open_lots.setdefault((target.key, row.explain), _Lot(target, row.explain))
            lot.records.append(record)
            lot.rows.append(row)
            if len(lot.rows) == ROWS_MAX:
                full.append(open_lots.pop((target.key, row.explain)))
            if len(full) >= connections:
                yield from _asked(pool, [*full, *open_lots.values()])
                full, open_lots = [], {}
                between()
        yield from _asked(pool, [*full, *open_lots.values()])


def _asked(pool: ThreadPoolExecutor, lots: list[_Lot]) -> Iterator[tuple[Json, Decided | Unready]]:
    for lot, answers in zip(lots, pool.map(_ask, lots), strict=True):
        yield from zip(lot.records, answers, strict=True)


def _ask(lot: _Lot) -> list[Decided | Unready]:
    target = lot.target
    values, ways = [row.values for row in lot.rows], [row.way for row in lot.rows]
    try:
        rows = patiently(lambda: target.client.decide_rows(target.decision, values, ways=ways, explain=lot.explain))
    except FlyballError as error:
        return [Unready(_told(error))] * len(lot.rows)  # where no row of a list is decided, the list's fault is theirs
    return [row.decided or Unready(_told(row.fault)) for row in rows]


def _told(fault: FlyballError | None) -> str:
    return str(fault).replace("\n", ";") if fault else "no answer"
