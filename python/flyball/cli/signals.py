"""Signals that end or reload a server, as a queue with a timed wait.

`signal.sigtimedwait` cannot be used: if SIGSTOP and SIGCONT interrupt it after its timeout, it returns whatever was in
memory instead of None, and a server would take that for SIGTERM. Here the C handler writes each signal's number to a
pipe, and `select` waits for that; its timeout does not depend on the wall clock.
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
    """Takes over signals when constructed. They are blocked except in `next`, so later threads never receive them."""

    def __init__(self, *numbers: signal.Signals) -> None:
        self._numbers = frozenset(numbers)
        signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)
        self._received, wakeup = os.pipe()
        for end in (self._received, wakeup):
            os.set_blocking(end, False)
        # A full pipe holds 65,536 signals; one more changes nothing.
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for number in numbers:
            signal.signal(number, _ignore)

    def next(self, timeout_s: float | None, among: Iterable[signal.Signals] | None = None) -> int | None:
        """Return the next signal, only one of `among` if given; None after the timeout."""
        wanted = self._numbers if among is None else frozenset(among)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, wanted)
        try:
            select.select([self._received], [], [], timeout_s)
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
        with contextlib.suppress(BlockingIOError):
            while received := os.read(self._received, 1):
                if received[0] in wanted:
                    return received[0]
        return None

    def pending(self, number: signal.Signals) -> bool:
        """Whether the signal was received and not handled yet."""
        return number in signal.sigpending()


def _ignore(number: int, frame: FrameType | None) -> None:
    """Python's part of the handler; the C part has written the number by then."""
