"""Legal holds: records kept past their retention, whose subjects must not be erased.

Holds and releases are records of the log; the holds in force follow from them. Must not know how records are removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flyball.decision_log.read.whole_log import WholeLog

_KINDS = ("hold", "release")


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold since record `seq`. None means every decision, no start, no end."""

    name: str
    by: str
    why: str
    seq: int
    segment: int
    decision: str | None = None
    from_ns: int | None = None
    to_ns: int | None = None

    @classmethod
    def of(cls, record: dict[str, Any]) -> Hold:
        """Build it from its record."""
        limits = record.get("decision"), record.get("from"), record.get("to")
        return cls(record["name"], record["by"], record["why"], record["seq"], record["segment"], *limits)

    def touches(self, oldest_ns: int, newest_ns: int) -> bool:
        """Whether it may cover records of this period."""
        return (self.from_ns is None or newest_ns >= self.from_ns) and (self.to_ns is None or oldest_ns < self.to_ns)

    def names(self, record: dict[str, Any]) -> bool:
        """Whether it covers a record. A record without a time counts as covered."""
        at = record.get("at")
        in_time = at is None or self.touches(at, at)
        return in_time and (self.decision is None or record.get("decision") in (None, self.decision))


def holds_in_force(log: WholeLog) -> list[Hold]:
    """The holds that were not released, oldest first."""
    return in_force(log.records(kinds=_KINDS))


def in_force(records: Iterable[dict[str, Any]]) -> list[Hold]:
    """The holds in force after these hold and release records, in order."""
    holds: dict[str, Hold] = {}
    for record in records:
        if record["kind"] == "hold":
            holds[record["name"]] = Hold.of(record)
        else:
            holds.pop(record["name"], None)
    return list(holds.values())
