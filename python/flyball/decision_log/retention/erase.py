"""Erases a subject: deletes the key that what is personal was encrypted under. The records stay, and so does their proof.

The journal itself refuses what is under a legal hold, and what it does not know. Must not know the command line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flyball.client.annotations import Erased
from flyball.errors import HeldError, NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SEPARATOR = "\u001f"
_DEADLINE_MS = 600_000  # all of the log is read


@dataclass(frozen=True, slots=True)
class Beside:
    """What is kept of a subject beside the journal: by these keys too, and in these places where no server runs."""

    keys: list[str] = field(default_factory=list)
    features_folder: Path | None = None
    stores: list[Path] = field(default_factory=list)


def subject_of(fields: Sequence[str]) -> str:
    """The text that a subject goes by: its key fields in the document's order, joined."""
    if not all(fields):
        raise UsageError("a subject is the value of its key field", next_step="flyball decisions erase VALUE --by … --why …")
    return SEPARATOR.join(fields)


def erase(
    subject: str,
    *,
    by: str,
    why: str,
    url: str | None,
    folder: Path,
    kek: str | None = None,
    key: Path | None = None,
    beside: Beside | None = None,
) -> Erased:
    """Through the server that holds the journal, or straight where none does."""
    beside = beside or Beside()
    try:
        if url is not None:
            from flyball.client import Client

            if beside.features_folder is not None or beside.stores:
                raise UsageError("--features-folder and --store go without --url: a server knows its own")
            with Client(url, deadline_ms=_DEADLINE_MS) as client:
                return client.erase(subject, by=by, why=why, keys=beside.keys)
        if not (folder / "node.json").is_file():  # a new one would know nobody
            raise NotFoundError(f"there is no journal in {folder}", code="journal_refused", next_step="--journal FOLDER")
        from flyball.native.journal import Journal

        with Journal(folder, kek=kek, key=key) as journal:
            counts = journal.erase(
                subject, by=by, why=why, keys=beside.keys, features_folder=beside.features_folder, stores=beside.stores
            )
        return Erased(**counts)
    except HeldError as error:
        raise HeldError(error.message, next_step="the holds in force:  flyball decisions holds") from error
