"""The deadline of one call over all its attempts, and the pause between attempts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from flyball.errors import DeadlineError

if TYPE_CHECKING:
    from collections.abc import Callable

ATTEMPTS_MAX = 3
"""Attempts of one call, the first included: enough for a restart or a burst, too few to cause a burst."""

_BACKOFF_S = 0.05


class Deadline:
    """A point in time that no attempt of a call may pass."""

    def __init__(self, total_ms: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.total_ms = total_ms
        self._clock = clock
        self._end = clock() + total_ms / 1000

    def left_s(self) -> float:
        """Seconds left; raises once there are none."""
        left = self._end - self._clock()
        if left <= 0:
            raise self.passed()
        return left

    def left_ms(self) -> int:
        """Whole milliseconds left, at least 1, for the server."""
        return max(1, int(self.left_s() * 1000))

    def allows(self, pause_s: float) -> bool:
        """Whether there is time for a pause and another attempt."""
        return self._end - self._clock() > pause_s

    def passed(self) -> DeadlineError:
        """The error of a passed deadline."""
        return DeadlineError(
            f"no answer within {self.total_ms:g} ms",
            next_step="raise deadline_ms, or check the server's load",
        )


def pause_before(attempt: int) -> float:
    """Seconds to wait before an attempt after a failed connection; attempts count from 1."""
    return _BACKOFF_S * float(2 ** (attempt - 2))
