"""Which old segments have to stay for younger decisions: those that say how a decision that stays was served.

A decision names its documents; the last `served` record of them before it is what replay and evidence start from.
Must not know times or holds.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from flyball.decision_log.read.parquet_log import ParquetLog
    from flyball.decision_log.read.whole_log import WholeLog

    # Decision, document, policy and schema.
    Documents = tuple[str, ...]
    Told = tuple[int, str, Documents]

_DOCUMENTS = ("decision", "document", "policy", "schema")
_KINDS = ["served", "decision", "failed"]
_MOST = 4096


def needed_by_younger(log: WholeLog, parquet: ParquetLog, going: set[int]) -> set[int]:
    """Those of the segments that cannot go. One that stays has decisions of its own, which need earlier ones."""
    if not any(kind == "served" for segment in going for _, kind, _ in _compacted(parquet, segment)):
        return set()
    wanted: set[Documents] = set()
    needed: set[int] = set()
    _walk_back(_live(log), wanted)
    for segment in sorted(parquet.entries, reverse=True):
        told = list(_compacted(parquet, segment))
        if segment in going:
            if not wanted & {documents for _, kind, documents in told if kind == "served"}:
                continue
            needed.add(segment)
        _walk_back(told, wanted)
    return needed


def _walk_back(told: Iterable[Told], wanted: set[Documents]) -> None:
    """What is wanted of earlier records, from what is wanted of these and before."""
    served: dict[Documents, float] = {}
    decided: dict[Documents, float] = {}
    for seq, kind, documents in told:
        first = served if kind == "served" else decided
        first[documents] = min(first.get(documents, math.inf), seq)
    wanted.difference_update(served)
    wanted.update(documents for documents, seq in decided.items() if seq < served.get(documents, math.inf))


def _compacted(parquet: ParquetLog, segment: int) -> Iterator[Told]:
    for part in parquet.parts(segment):
        names = ["seq", "kind", *_DOCUMENTS]
        table = pq.read_table(part, columns=names, partitioning=None, filters=[("kind", "in", _KINDS)])
        for seq, kind, *documents in zip(*(table[name].to_pylist() for name in names), strict=True):
            yield seq, kind, tuple(documents)


def _live(log: WholeLog) -> Iterator[Told]:
    """What still lies in segments, also what is not durable yet."""
    segments = log.segments()
    at, end = segments[0].first_seq if segments else 0, not segments
    while not end:
        lines, at, end = log.chunk(at, _MOST, {"kinds": _KINDS})
        for record in map(json.loads, lines.splitlines()):
            yield record["seq"], record["kind"], tuple(record[name] for name in _DOCUMENTS)
