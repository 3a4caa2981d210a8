"""Options shared by the verbs of `flyball decisions`, and how they open the log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from flyball.cli.option import option
from flyball.errors import InvalidInputError, JournalRefusedError, UsageError

if TYPE_CHECKING:
    from flyball.decision_log.read.whole_log import WholeLog

FOLDER = Path("journal")
ID_WORDS = "A decision's id, the beginning of one, or last for the newest."

Folder = Annotated[
    Path, option("The journal's directory.", "--journal-folder", metavar="DIR", envvar="FLYBALL_JOURNAL_FOLDER")
]
Kek = Annotated[
    str | None,
    option(
        "Key that decrypts personal data: file:PATH, env:NAME or command:ARGV; by default the journal's.",
        "--journal-kek",
        metavar="SOURCE",
    ),
]
Key = Annotated[
    Path | None,
    option(
        "Key that signs the journal (the server's journal_key); by default the journal's.", "--journal-key", metavar="FILE"
    ),
]
Url = Annotated[
    str | None, option("The server that writes the journal; by default the folder is written directly.", "--url")
]
DecisionName = Annotated[
    str | None, option("The decision's name; by default read from the journal.", "--decision", metavar="NAME")
]
Reveal = Annotated[bool, option("Decrypt personal data with the --journal-kek key.", "--reveal")]


def open_log(folder: Path, kek: str | None = None, *, reveal: bool = False) -> WholeLog:
    """Open the log, compacted or not; personal data is decrypted only with `reveal`."""
    from flyball.decision_log.read.whole_log import WholeLog

    return WholeLog(folder, kek=kek, reveal=reveal)


def decision_named(decision_id: str, decision: str | None, recorded: str | None) -> str:
    """The decision's name: the journal's, or --decision without a journal. Both must agree."""
    if recorded is None:
        if decision is None:
            raise UsageError("without the journal, the decision's name is unknown", next_step="give it:  --decision NAME")
        return decision
    if decision not in (None, recorded):
        raise InvalidInputError(
            f"record {decision_id} belongs to decision {recorded!r}, not {decision!r}",
            next_step=f"check the id, or remove --decision {decision}",
        )
    return recorded


def log_if_available(folder: Path, url: str | None) -> WholeLog | None:
    """Open the log to check an annotation against; with `url`, a missing log is only a warning."""
    try:
        return open_log(folder)
    except JournalRefusedError:
        if url is None:
            raise
        sys.stderr.write(f"{folder} cannot be read, so the id was not checked against it\n")
        return None
