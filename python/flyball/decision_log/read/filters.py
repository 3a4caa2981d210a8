"""Filters of log queries, without SQL: decision, time, outcome, subject, condition.

Must not know where rows come from: it builds a condition over the columns.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from flyball.errors import UsageError

_FIRST_NS, _LAST_NS = -(2**63), 2**63 - 1
_AGO = re.compile(r"(\d+)\s*(s|m|h|d|w)")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters combined with AND. `subject` is a token, not the text itself."""

    decision: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    outcome: str | None = None
    subject: str | None = None
    where: str | None = None

    def condition(self) -> str:
        """SQL over the columns of decisions."""
        parts = [
            *_equal("decision", self.decision),
            *([] if self.since_ns is None else [f'"at" >= {self.since_ns}']),
            *([] if self.until_ns is None else [f'"at" < {self.until_ns}']),
            *_equal("outcome", self.outcome),
            *_equal("subject", self.subject),
            *([] if self.where is None else [f"({self.where})"]),
        ]
        return " AND ".join(parts) or "true"


def instant(text: str, flag: str = "", *, now_ns: int | None = None) -> int:
    """Parse a time into ns since 1970: an age (90s, 15m, 2h, 1d, 1w), or ISO 8601, UTC without a zone.

    Messages name the `flag` that had it.
    """
    try:
        return _checked_ns(text, now_ns)
    except UsageError as error:
        raise UsageError(f"{flag}: {error.message}" if flag else error.message, next_step=error.next_step) from error


def _checked_ns(text: str, now_ns: int | None) -> int:
    unix_ns = _unix_ns(text, now_ns)
    if not _FIRST_NS <= unix_ns <= _LAST_NS:
        raise UsageError(f"{text!r} is out of range", next_step="give a time from 1677-09-22 to 2262-04-11")
    return unix_ns


def _unix_ns(text: str, now_ns: int | None) -> int:
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        now_ns = time.time_ns() if now_ns is None else now_ns
        return now_ns - int(ago[1]) * _UNITS_S[ago[2]] * 1_000_000_000
    try:
        time_ = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise UsageError(
            f"{text!r} is not a time", next_step="give an age, 15m, 2h or 1d, or a time: 2026-11-15T07:30"
        ) from error
    time_ = time_ if time_.tzinfo else time_.replace(tzinfo=UTC)
    since_1970 = time_ - datetime(1970, 1, 1, tzinfo=UTC)
    return (since_1970.days * 86_400 + since_1970.seconds) * 1_000_000_000 + since_1970.microseconds * 1000


def quoted(text: str) -> str:
    """Quote a text for SQL."""
    return "'" + text.replace("'", "''") + "'"


def _equal(column: str, value: str | None) -> list[str]:
    return [] if value is None else [f"{column} = {quoted(value)}"]
