"""Decisions that wait for review, and the policies of recorded decisions. Must not know how they are shown."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flyball.decision_log.read.records import History
    from flyball.native.journal import JournalLog

    Json = dict[str, Any]

REVIEW = "review"


def waiting(
    log: JournalLog, outcome: str = REVIEW, *, decision: str | None = None, since_ns: int | None = None, most: int = 100
) -> tuple[list[Json], int]:
    """The oldest decisions with that outcome and without an override, and the total number."""
    overrides = log.records(kinds=["override"], decision=decision, since_ns=since_ns)
    settled = {(record["id"], record.get("decision")) for record in overrides}
    count = 0

    def open_ones() -> Iterator[Json]:
        nonlocal count
        for record in log.records(kinds=["decision"], decision=decision, since_ns=since_ns):
            if record["outcome"] == outcome and (record["id"], record["decision"]) not in settled:
                count += 1
                yield record

    # Lanes write concurrently, so the log is not strictly in time order.
    found = nsmallest(most, open_ones(), key=lambda record: (record["at"], record["seq"]))
    return found, count


def outcomes_of(log: JournalLog, record: Json) -> list[str] | None:
    """The outcomes of the policy that served; None if its document is no longer in the log."""
    policy = _policy(log, record)
    return None if policy is None else list(policy["outcomes"])


def reason_texts(log: JournalLog, history: History) -> tuple[dict[str, str], list[str | None]]:
    """Texts by reason code, and the code of each rule; empty if the deployment is no longer in the log."""
    record = next(document for document in history.documents if document["seq"] == history.decision.seq)
    policy = _policy(log, record) if record.get("reasons") or record.get("rules") else None
    if policy is None:
        return {}, []
    texts: dict[str, str] = (policy.get("reasons") or {}).get("texts") or {}
    return texts, [rule.get("reason") for rule in policy.get("rules") or ()]


def _policy(log: JournalLog, record: Json) -> Json | None:
    from flyball.decision_log.replay.deployments import Deployments, NotReplayableError

    try:
        policy: Json = Deployments(log).of(record).decision["policy"]
    except NotReplayableError:
        return None
    return policy
