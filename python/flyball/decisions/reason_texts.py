"""The texts of reason codes, as the author of the decision wrote them when it was made. Must not know how they are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.decisions.replay_served import CannotError, Deployments

if TYPE_CHECKING:
    from flyball.decisions.records import History
    from flyball.journal import JournalLog


def reason_texts(log: JournalLog, history: History) -> dict[str, str]:
    """By code; none where the log does not have the deployment any more."""
    record = next(document for document in history.documents if document["seq"] == history.decision.seq)
    if not record.get("reasons"):
        return {}
    try:
        deployment = Deployments(log).of(record)
    except CannotError:
        return {}
    texts: dict[str, str] = (deployment.decision["policy"].get("reasons") or {}).get("texts") or {}
    return texts
