"""Detects a wrong clock: an event from a clock that was ahead delays the times of all later events.

The order of events is never in doubt: it is the sequence. Must not know how events are stored.
"""

from __future__ import annotations

from flyball.registry.events.event import text_of

AHEAD_US_MAX = 5 * 60 * 1_000_000


def too_late(at: int, now: int) -> str | None:
    """A warning if the last event is further ahead than clocks may differ."""
    if at - now <= AHEAD_US_MAX:
        return None
    return (
        f"the last event is of {text_of(at)}, {(at - now) // 60_000_000:,} minutes ahead of this clock, and until then "
        "every event gets that time; correct the clocks, and trust the sequence of these events, not their times"
    )
