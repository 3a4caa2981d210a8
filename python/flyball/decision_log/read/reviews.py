"""Decisions that wait for a person: those with an outcome such as `review` that nobody has settled since.

Must not know how they are shown.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flyball.native.journal import JournalLog

    Json = dict[str, Any]

REVIEW = "review"


def waiting(
    log: JournalLog, outcome: str = REVIEW, *, decision: str | None = None, since_ns: int | None = None, most: int = 100
) -> tuple[list[Json], int]:
    """The oldest of the decisions with that outcome and without an override, and how many there are in all."""
    told = log.records(kinds=["override"], decision=decision, since_ns=since_ns)
    settled = {(record["id"], record.get("decision")) for record in told}
    count = 0

    def open_ones() -> Iterator[Json]:
        nonlocal count
        for record in log.records(kinds=["decision"], decision=decision, since_ns=since_ns):
            if record["outcome"] == outcome and (record["id"], record["decision"]) not in settled:
                count += 1
                yield record

    # Lanes write beside each other, so that the log's order is not quite that of time.
    found = nsmallest(most, open_ones(), key=lambda record: (record["at"], record["seq"]))
    return found, count


def outcomes_of(log: JournalLog, record: Json) -> list[str] | None:
    """What may be decided instead, by the policy that served; none where its document is not beside the log any more."""
    from flyball.decision_log.replay.deployments import CannotError, Deployments

    try:
        return list(Deployments(log).of(record).decision["policy"]["outcomes"])
    except CannotError:
        return None
