"""Legal holds: records that must be kept though their time is over, and subjects that must not be erased meanwhile.

A hold and its release are records of the log; what is in force follows from them. Must not know how records are removed.
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
    """In force since record `seq`. None: every decision, from the first record, without an end."""

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
        """From its record."""
        limits = record.get("decision"), record.get("from"), record.get("to")
        return cls(record["name"], record["by"], record["why"], record["seq"], record["segment"], *limits)

    def touches(self, oldest_ns: int, newest_ns: int) -> bool:
        """Whether records of this time may be under it."""
        return (self.from_ns is None or newest_ns >= self.from_ns) and (self.to_ns is None or oldest_ns < self.to_ns)

    def names(self, record: dict[str, Any]) -> bool:
        """Whether a record of a decision is under it. Without a time it cannot be told apart, so it is."""
        at = record.get("at")
        in_time = at is None or self.touches(at, at)
        return in_time and (self.decision is None or record.get("decision") in (None, self.decision))


def holds_in_force(log: WholeLog) -> list[Hold]:
    """Those that were not released, oldest first."""
    return in_force(log.records(kinds=_KINDS))


def in_force(records: Iterable[dict[str, Any]]) -> list[Hold]:
    """The same, from the records of holds and releases in their order."""
    holds: dict[str, Hold] = {}
    for record in records:
        if record["kind"] == "hold":
            holds[record["name"]] = Hold.of(record)
        else:
            holds.pop(record["name"], None)
    return list(holds.values())
