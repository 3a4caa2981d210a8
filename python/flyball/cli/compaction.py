"""Scheduled compaction beside `flyball serve`: its options, and the child process that runs it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from flyball.cli.option import option
from flyball.errors import UsageError

if TYPE_CHECKING:
    from flyball.decision_log.retention.background import Schedule

_EVERY = re.compile(r"([1-9]\d{0,5})(s|m|h|d)")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

CompactEvery = Annotated[
    str | None,
    option("Compact sealed journal segments to Parquet this often, in a low-priority child: 1h, 15m.", metavar="DURATION"),
]
Keep = Annotated[str | None, option("Also delete records older than this: 25mo, 90d, 7y.", metavar="DURATION")]


def schedule_of(journal: str | None, every: str | None, keep: str | None) -> Schedule | None:
    """Build the compaction schedule; None without --compact-every."""
    if every is None:
        if keep is not None:
            raise UsageError("--keep needs --compact-every", next_step="flyball serve --compact-every 1h --keep 25mo")
        return None
    match = _EVERY.fullmatch(every)
    if match is None:
        raise UsageError(f"--compact-every: {every!r} is not a duration", next_step="write it as 90s, 15m, 1h or 1d")
    if journal is None:
        raise UsageError("--compact-every needs a journal", next_step="give one:  --journal-folder DIR")
    from pathlib import Path

    from flyball.decision_log.retention.background import Schedule, compact_command

    if keep is not None:
        from datetime import UTC, datetime

        from flyball.decision_log.retention.retire import oldest_kept

        oldest_kept(keep, datetime.now(UTC))  # an invalid value fails now, not in the first child
    return Schedule(compact_command(Path(journal), keep), int(match[1]) * _UNITS_S[match[2]])
