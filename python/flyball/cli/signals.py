"""Signals that end or renew a server, as a queue that can be waited for with a limit.

`signal.sigtimedwait` cannot be used: where SIGSTOP and SIGCONT interrupt it and its time is over, it returns what happened
to be in memory instead of None, and a server would take that for SIGTERM. Here the C handler writes each signal's number to
a pipe, and `select` waits for that; its limit follows no wall clock.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import FrameType


class Signals:
    """Takes signals over once it is made. They are blocked except in `next`, so threads started later never see them."""

    def __init__(self, *numbers: signal.Signals) -> None:
        self._numbers = frozenset(numbers)
        signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)
        self._came, told = os.pipe()
        for end in (self._came, told):
            os.set_blocking(end, False)
        # A full pipe holds 65,536 signals; one more changes nothing.
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, _nothing)

    def next(self, timeout_s: float | None, among: Iterable[signal.Signals] | None = None) -> int | None:
        """The next signal, of `among` alone where that is given; None when the time is over."""
        wanted = self._numbers if among is None else frozenset(among)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, wanted)
        try:
            select.select([self._came], [], [], timeout_s)
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
        with contextlib.suppress(BlockingIOError):
            while came := os.read(self._came, 1):
                if came[0] in wanted:
                    return came[0]
        return None

    def pending(self, number: signal.Signals) -> bool:
        """Whether it came and was not taken yet."""
        return number in signal.sigpending()


def _nothing(number: int, frame: FrameType | None) -> None:
    """Python's part of the handler; the C part has written the number by then."""
