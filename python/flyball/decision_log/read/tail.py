"""Records as they come, for as long as somebody looks. Reads behind the writer and never holds it up.

Bounded: a chunk is asked for when the last one was taken, so a slow reader only comes later. Must not know the command line.
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
    """The last few records, then each one as it is written, without an end. Between looks it calls `pause`."""
    options = {"kinds": None if kinds is None else list(kinds), "decision": decision}
    earlier, at = _last(log, options, last)
    yield from earlier
    while True:
        lines, at, end = log.chunk(at, _CHUNK, options)
        yield from map(log.with_input, map(json.loads, lines.splitlines()))
        if end:
            pause(_PAUSE_S)


def _last(log: JournalLog, options: dict[str, Any], most: int) -> tuple[deque[dict[str, Any]], int]:
    """The last records that are wanted, and where to go on. Looks back further and further, until there are enough."""
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
