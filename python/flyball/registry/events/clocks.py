"""Whether an event's time can be believed: clocks of writers differ, and one that was ahead drags all that follow along.

Order is never in doubt, since it is that of the sequence. Must not know how events are kept.
"""

from __future__ import annotations

from flyball.registry.events.event import text_of

AHEAD_US_MAX = 5 * 60 * 1_000_000


def too_late(at: int, now: int) -> str | None:
    """What to tell where the last event is later than a clock may be wrong by."""
    if at - now <= AHEAD_US_MAX:
        return None
    return (
        f"the last event is of {text_of(at)}, {(at - now) // 60_000_000:,} minutes ahead of this clock, and until then "
        "every event gets that time; set the clocks right, and go by the sequence of what lies between, not by its time"
    )
