"""Reason codes and texts of the policy that decided. Must not know how they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.decision_log.replay.deployments import Deployments, NotReplayableError

if TYPE_CHECKING:
    from flyball.decision_log.read.records import History
    from flyball.native.journal import JournalLog


def reason_texts(log: JournalLog, history: History) -> tuple[dict[str, str], list[str | None]]:
    """Texts by code, and the code of each rule; empty if the deployment is no longer in the log."""
    record = next(document for document in history.documents if document["seq"] == history.decision.seq)
    if not record.get("reasons") and not record.get("rules"):
        return {}, []
    try:
        deployment = Deployments(log).of(record)
    except NotReplayableError:
        return {}, []
    policy = deployment.decision["policy"]
    texts: dict[str, str] = (policy.get("reasons") or {}).get("texts") or {}
    return texts, [rule.get("reason") for rule in policy.get("rules") or ()]
