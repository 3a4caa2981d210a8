"""The options that the verbs of `flyball decisions` share, and how they open the log."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flyball.errors import InvalidInputError, JournalRefusedError, UsageError

if TYPE_CHECKING:
    from flyball.decision_log.read.whole_log import WholeLog

FOLDER = Path("journal")

Folder = Annotated[Path, typer.Option("--journal", metavar="FOLDER", envvar="FLYBALL_JOURNAL", help="The journal's folder.")]
Kek = Annotated[
    str | None,
    typer.Option(
        "--kek",
        metavar="PLACE",
        help="What opens personal values: file:PATH, env:NAME or command:ARGV; the folder's own if not given.",
        show_default=False,
    ),
]
Key = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help="What signs the journal, as the server's journal_key names it; the folder's own if not given.",
        show_default=False,
    ),
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url", help="The server that holds the journal; without it the folder is written to.", show_default=False
    ),
]
DecisionName = Annotated[
    str | None,
    typer.Option(
        "--decision",
        metavar="NAME",
        help="The decision's name; the journal tells it where it is at hand.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Reveal = Annotated[bool, typer.Option("--reveal", help="Open what is personal, by the key that --kek names.")]


def open_log(folder: Path, kek: str | None = None, *, reveal: bool = False) -> WholeLog:
    """The log, compacted or not; personal values are opened only where that was asked for."""
    from flyball.decision_log.read.whole_log import WholeLog

    return WholeLog(folder, kek=kek, reveal=reveal)


def decision_named(decision_id: str, decision: str | None, recorded: str | None) -> str:
    """The name to report under: the journal's, or --decision where no journal is available. Both must agree."""
    if recorded is None:
        if decision is None:
            raise UsageError(
                "the journal is not at hand, and does not tell which decision this is", next_step="--decision NAME"
            )
        return decision
    if decision not in (None, recorded):
        raise InvalidInputError(
            f"record {decision_id} is of decision {recorded!r}, not {decision!r}",
            next_step=f"check the id, or leave out --decision {decision}",
        )
    return recorded


def log_at_hand(folder: Path, url: str | None) -> WholeLog | None:
    """The log to check against before something is told; none, and a word on that, where only the server has it."""
    try:
        return open_log(folder)
    except JournalRefusedError:
        if url is None:
            raise
        sys.stderr.write(f"{folder} is not at hand: what is told was not checked against it\n")
        return None
