"""Lists of rows to a private server, several at a time: nobody waits for an answer here, so a busy server is asked again.

Must not know what the rows are of.
"""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from flyball.errors import OverloadedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Item = TypeVar("Item")
Answer = TypeVar("Answer")

DEADLINE_MS = 600_000
QUEUE_WAIT_MS = 600_000
_ATTEMPTS_MAX = 100
_PAUSE_S = 0.05


def patiently(ask: Callable[[], Answer]) -> Answer:
    """What a call answers, made again while the server refuses for load."""
    for attempt in range(_ATTEMPTS_MAX):
        try:
            return ask()
        except OverloadedError as error:
            if attempt == _ATTEMPTS_MAX - 1:
                raise
            time.sleep(min(error.retry_after_s or _PAUSE_S, 1.0))
    raise AssertionError("the last attempt returns or raises")


def in_order(items: Iterable[Item], ask: Callable[[Item], Answer]) -> Iterator[tuple[Item, Answer]]:
    """Items with their answers, in their order; a bounded number of them is on its way at once."""
    from flyball.native.machine import machine

    connections = 2 * machine().lanes
    pool = ThreadPoolExecutor(connections, thread_name_prefix="ask")
    try:
        waiting: deque[tuple[Item, Any]] = deque()
        for item in items:
            waiting.append((item, pool.submit(ask, item)))
            if len(waiting) > 2 * connections:
                first, answer = waiting.popleft()
                yield first, answer.result()
        while waiting:
            first, answer = waiting.popleft()
            yield first, answer.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
