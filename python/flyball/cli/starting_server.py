"""Waits for a server that is still starting: while it refuses connections or loads models, a call is tried again.

`flyball serve … &` and the next command are often pasted together. Must not know what is sent.
"""

from __future__ import annotations

from time import monotonic, sleep
from typing import TYPE_CHECKING, TypeVar

from flyball.errors import UnavailableError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

WAIT_S = 3.0
"""A cold start takes about 0.5 s on an idle machine."""
_PAUSE_S = 0.1
# Refused by a port, or no socket file yet. An unknown host or a silent network does not get better by waiting.
_NOT_LISTENING = ("connection refused", "no such file")
_LOADING = "being loaded"


def once_ready(call: Callable[[], T]) -> T:
    """Call, and call again while the server is starting; the last error is raised after `WAIT_S`."""
    end = monotonic() + WAIT_S
    while True:
        try:
            return call()
        except UnavailableError as error:
            if not _starting(error) or monotonic() >= end:
                raise
        sleep(_PAUSE_S)


def _starting(error: UnavailableError) -> bool:
    message = error.message.lower()
    if isinstance(error, UnreachableError):
        return not error.maybe_served and any(words in message for words in _NOT_LISTENING)
    return _LOADING in message
