"""Follows the log: yields records as they are written, without slowing the writer.

Bounded: it reads the next chunk only after the last one was consumed. Must not know the command line.
"""

from __future__ import annotations

import json
import time
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flyball.native.journal import JournalLog

_CHUNK = 1024
_PAUSE_S = 0.2


def follow(
    log: JournalLog,
    *,
    kinds: Sequence[str] | None = None,
    decision: str | None = None,
    last: int = 10,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[dict[str, Any]]:
    """Yield the last records, then each new one, without end. Calls `pause` between polls."""
    options = {"kinds": None if kinds is None else list(kinds), "decision": decision}
    earlier, at = last_records(log, options, last)
    yield from earlier
    while True:
        lines, at, end = log.chunk(at, _CHUNK, options)
        yield from map(log.with_input, map(json.loads, lines.splitlines()))
        if end:
            pause(_PAUSE_S)


def last_records(log: JournalLog, options: dict[str, Any], most: int) -> tuple[deque[dict[str, Any]], int]:
    """The last matching records, and where to continue. Looks back further until there are enough."""
    segments = log.segments()
    first = segments[0].first_seq if segments else 0
    end_seq = max((facts.first_seq + facts.frames for facts in segments), default=first)
    if not most:
        return deque(), end_seq
    back = 4 * most
    while True:
        start = at = max(first, end_seq - back)
        found, end = deque[dict[str, Any]](maxlen=most), False
        while not end:
            lines, at, end = log.chunk(at, _CHUNK, options)
            found.extend(map(log.with_input, map(json.loads, lines.splitlines())))
        if len(found) == most or start == first:
            return found, at
        back *= 8
