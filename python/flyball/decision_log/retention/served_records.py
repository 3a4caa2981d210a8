"""Finds expired segments that younger decisions need, for their `served` records.

A decision references its documents; replay and evidence packs need the last `served` record of them before it. Must not
know times or holds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from flyball.decision_log.read.parquet_log import ParquetLog
    from flyball.decision_log.read.whole_log import WholeLog

    # Decision, document, policy and schema.
    Documents = tuple[str, ...]
    # Sequence number, kind and documents.
    Reference = tuple[int, str, Documents]

_DOCUMENTS = ("decision", "document", "policy", "schema")
_KINDS = ["served", "decision", "failed"]


def needed_by_younger(log: WholeLog, parquet: ParquetLog, expired: set[int]) -> set[int]:
    """The expired segments that must stay. The decisions of one that stays may need earlier ones."""
    if not any(kind == "served" for segment in expired for _, kind, _ in _compacted(parquet, segment)):
        return set()
    wanted: set[Documents] = set()
    needed: set[int] = set()
    _walk_back(_live(log), wanted)
    for segment in sorted(parquet.entries, reverse=True):
        references = list(_compacted(parquet, segment))
        if segment in expired:
            if not wanted & {documents for _, kind, documents in references if kind == "served"}:
                continue
            needed.add(segment)
        _walk_back(references, wanted)
    return needed


def _walk_back(references: Iterable[Reference], wanted: set[Documents]) -> None:
    """Update the documents wanted from earlier records by these records."""
    served: dict[Documents, float] = {}
    decided: dict[Documents, float] = {}
    for seq, kind, documents in references:
        first = served if kind == "served" else decided
        first[documents] = min(first.get(documents, math.inf), seq)
    wanted.difference_update(served)
    wanted.update(documents for documents, seq in decided.items() if seq < served.get(documents, math.inf))


def _compacted(parquet: ParquetLog, segment: int) -> Iterator[Reference]:
    for part in parquet.parts(segment):
        names = ["seq", "kind", *_DOCUMENTS]
        table = pq.read_table(part, columns=names, partitioning=None, filters=[("kind", "in", _KINDS)])
        for seq, kind, *documents in zip(*(table[name].to_pylist() for name in names), strict=True):
            yield seq, kind, tuple(documents)


def _live(log: WholeLog) -> Iterator[Reference]:
    """References in segments, also of records not yet durable."""
    for record in log.live_records(_KINDS):
        yield record["seq"], record["kind"], tuple(record[name] for name in _DOCUMENTS)
