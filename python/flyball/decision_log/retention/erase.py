"""Erases a subject: deletes the key of their personal data. Records and their proofs stay.

The journal refuses subjects under a legal hold, and unknown ones. Must not know the command line.
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
_DEADLINE_MS = 600_000  # the whole log is read


@dataclass(frozen=True, slots=True)
class FeatureData:
    """A subject's data outside the journal: further keys, and stores to erase from without a server."""

    keys: list[str] = field(default_factory=list)
    features_folder: Path | None = None
    stores: list[Path] = field(default_factory=list)


def subject_of(fields: Sequence[str]) -> str:
    """The subject's identifier: its key fields in the document's order, joined."""
    if not all(fields):
        raise UsageError(
            "SUBJECT is empty; give the value of the key field",
            next_step="flyball decisions erase VALUE --by NAME --reason TEXT",
        )
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
    features: FeatureData | None = None,
) -> Erased:
    """Erase through the server that writes the journal, or directly without one."""
    features = features or FeatureData()
    try:
        if url is not None:
            from flyball.client import Client

            if features.features_folder is not None or features.stores:
                raise UsageError("--features-folder and --store cannot be combined with --url: the server has its own")
            with Client(url, deadline_ms=_DEADLINE_MS) as client:
                return client.erase(subject, by=by, why=why, keys=features.keys)
        if not (folder / "node.json").is_file():  # a new journal would have no subjects
            raise NotFoundError(f"no journal in {folder}", code="journal_refused", next_step="--journal-folder DIR")
        from flyball.native.journal import Journal

        with Journal(folder, kek=kek, key=key) as journal:
            counts = journal.erase(
                subject,
                by=by,
                why=why,
                keys=features.keys,
                features_folder=features.features_folder,
                stores=features.stores,
            )
        return Erased(**counts)
    except HeldError as error:
        raise HeldError(error.message, next_step="list the holds in force:  flyball decisions holds") from error
