"""Decision ids as people type them: whole, the beginning of one, or `last`. Must not know what records mean."""

from __future__ import annotations

import re
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING
from uuid import UUID

from flyball.decision_log.read.tail import last_records
from flyball.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flyball.native.journal import JournalLog

LAST = "last"
"""The word for the newest decision."""
_KINDS = ["decision", "failed"]
_BEGIN = re.compile(r"[0-9a-f]{4,31}")
_TIME_DIGITS = 12  # of 32: Unix milliseconds
_CLOCK_MS = 3_600_000
_LISTED_MAX = 3


def full_id(log: JournalLog, text: str) -> str:
    """The id that is meant; raises `NotFoundError` if no decision has it, or if several ids begin like this."""
    if text.strip() == LAST:
        return _newest(log)
    try:
        return str(UUID(text.strip()))
    except ValueError:
        digits = text.strip().lower().replace("-", "")
    if not _BEGIN.fullmatch(digits):
        raise _not_found(log, f"{text!r} is not a decision id") from None
    found = list(islice(_beginning(log, digits), _LISTED_MAX + 1))
    if not found:
        raise _not_found(log, f"the journal in {log.folder} has no decision whose id begins with {text!r}")
    if len(found) > 1:
        shown = ", ".join(found[:_LISTED_MAX]) + ", …" * (len(found) > _LISTED_MAX)
        raise NotFoundError(
            f"several ids begin with {text!r}: {shown}", code="record_not_found", next_step="give more digits of the id"
        )
    return found[0]


def query_step(log: JournalLog) -> str:
    """The command that lists the decisions of a log."""
    folder = "" if str(log.folder) == "journal" else f" --journal-folder {log.folder}"
    return f"list ids:  flyball decisions query{folder}"


def _newest(log: JournalLog) -> str:
    found, _ = last_records(log, {"kinds": _KINDS}, 1)
    found = found or deque(log.records(kinds=_KINDS), maxlen=1)  # all were moved to Parquet
    if not found:
        raise NotFoundError(
            f"the journal in {log.folder} has no decisions yet",
            code="record_not_found",
            next_step="a server records them:  flyball serve --decision FILE --journal-folder DIR",
        )
    return str(found[0]["id"])


def _beginning(log: JournalLog, digits: str) -> Iterator[str]:
    """The ids that begin with these digits, each once. An id begins with its time, so only that time is read."""
    first, last = (int(digits[:_TIME_DIGITS].ljust(_TIME_DIGITS, fill), 16) for fill in "0f")
    since_ns, until_ns = (first - _CLOCK_MS) * 1_000_000, (last + _CLOCK_MS) * 1_000_000
    seen: set[str] = set()
    for record in log.records(kinds=_KINDS, since_ns=_bound(since_ns), until_ns=_bound(until_ns)):
        identity = str(record["id"])
        if identity.replace("-", "").startswith(digits) and identity not in seen:
            seen.add(identity)
            yield identity


def _bound(ns: int) -> int | None:
    """A limit of a read; none where no record has such a time."""
    return ns if 0 <= ns < 2**63 else None


def _not_found(log: JournalLog, message: str) -> NotFoundError:
    return NotFoundError(message, code="record_not_found", next_step=query_step(log))
