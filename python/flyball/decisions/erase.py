"""Erases a subject: deletes the key that what is personal was encrypted under. The records stay, and so does their proof.

Refused while a legal hold names a record of the subject. Must not know the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.decisions.holds import Hold, holds_in_force
from flyball.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from flyball.decisions.whole_log import WholeLog

SEPARATOR = "\u001f"


def subject_of(fields: Sequence[str]) -> str:
    """The text that a subject goes by: its key fields in the document's order, joined."""
    if not all(fields):
        raise UsageError("a subject is the value of its key field", next_step="flyball decisions erase VALUE --by … --why …")
    return SEPARATOR.join(fields)


def erase(
    subject: str, *, by: str, why: str, url: str | None, folder: Path, kek: str | None = None, key: Path | None = None
) -> None:
    """Through the server that holds the journal, or straight where none does."""
    from flyball.decisions.whole_log import WholeLog

    if not folder.is_dir():
        raise UsageError(
            f"{folder} is not here, and legal holds stand in the journal",
            next_step="run it where the journal is:  --journal FOLDER",
        )
    holds = holds_in_force(WholeLog(folder))
    # Only the key tells whose records are whose, so it is needed here too, but only where something is held.
    holds = holds_on(WholeLog(folder, kek=kek, reveal=True), holds, subject) if holds else []
    if holds:
        told = "; ".join(f"{hold.name} by {hold.by}: {hold.why}" for hold in holds)
        raise RefusedError(
            f"records of this subject are under a legal hold ({told})",
            code="held",
            next_step=f"once it may go:  flyball decisions release {holds[0].name} --by … --why …",
        )
    if url is not None:
        from flyball.client import Client

        with Client(url) as client:
            client.erase(subject, by=by, why=why)
        return
    from flyball.journal import Journal

    with Journal(folder, kek=kek, key=key) as journal:
        journal.erase(subject, by=by, why=why)


def holds_on(log: WholeLog, holds: list[Hold], subject: str) -> list[Hold]:
    """Those of the holds that a record of this subject is under."""
    token = log.token(subject)
    starts = [hold.from_ns for hold in holds]
    since = min((start for start in starts if start is not None), default=None) if None not in starts else None
    found: dict[str, Hold] = {}
    for record in log.records(since_ns=since):
        if record.get("subject") == token:
            found |= {hold.name: hold for hold in holds if hold.names(record)}
    return list(found.values())
