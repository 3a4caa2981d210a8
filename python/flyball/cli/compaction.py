"""Compaction on a schedule beside `flyball serve`: its options, and the child process that does it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from flyball.errors import UsageError

if TYPE_CHECKING:
    from flyball.decision_log.retention.background import Schedule

_EVERY = re.compile(r"([1-9]\d{0,5})(s|m|h|d)")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

CompactEvery = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Move sealed segments of the journal into Parquet this often, in a niced child process: 1h, 15m.",
        show_default=False,
    ),
]
Keep = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="And remove records that are older: 25mo, 90d, 7y.", show_default=False),
]


def schedule_of(journal: str | None, every: str | None, keep: str | None) -> Schedule | None:
    """What the options ask for; none: nothing."""
    if every is None:
        if keep is not None:
            raise UsageError("--keep needs --compact-every", next_step="flyball serve --compact-every 1h --keep 25mo")
        return None
    match = _EVERY.fullmatch(every)
    if match is None:
        raise UsageError(f"--compact-every {every!r} is no time", next_step="write it as 90s, 15m, 1h or 1d")
    if journal is None:
        raise UsageError("--compact-every needs a journal", next_step="say where it is:  --journal-folder FOLDER")
    from pathlib import Path

    from flyball.decision_log.retention.background import Schedule, compact_command

    if keep is not None:
        from datetime import UTC, datetime

        from flyball.decision_log.retention.retire import oldest_kept

        oldest_kept(keep, datetime.now(UTC))  # a wrong word is refused now, not by the first child
    return Schedule(compact_command(Path(journal), keep), int(match[1]) * _UNITS_S[match[2]])
