"""Bulk calls to a private server: concurrent, and retried while the server is busy.

Must not know the rows.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from flyball.decision.compile.bundle import bundle_of
from flyball.decision.compile.document import Compiled
from flyball.decision.local import LocalServer
from flyball.errors import OverloadedError

Item = TypeVar("Item")
Answer = TypeVar("Answer")

DEADLINE_MS = 600_000
QUEUE_WAIT_MS = 600_000
_ATTEMPTS_MAX = 100
_PAUSE_S = 0.05


def bulk_server(compiled: Compiled) -> LocalServer:
    """A private server for bulk calls: with long deadlines and queues, and without writing windows."""
    return LocalServer(bundle_of([compiled], queue_wait_ms_max=QUEUE_WAIT_MS), offline=True, deadline_ms=DEADLINE_MS)


def retry_when_busy(call: Callable[[], Answer]) -> Answer:
    """Make a call, and retry it while the server sheds load."""
    for attempt in range(_ATTEMPTS_MAX):
        try:
            return call()
        except OverloadedError as error:
            if attempt == _ATTEMPTS_MAX - 1:
                raise
            time.sleep(min(error.retry_after_s or _PAUSE_S, 1.0))
    raise AssertionError("the last attempt returns or raises")


def in_order(items: Iterable[Item], call: Callable[[Item], Answer]) -> Iterator[tuple[Item, Answer]]:
    """Yield items with their answers, in order; a bounded number of calls runs concurrently."""
    from flyball.native.machine import machine

    connections = 2 * machine().lanes
    pool = ThreadPoolExecutor(connections, thread_name_prefix="bulk")
    try:
        waiting: deque[tuple[Item, Any]] = deque()
        for item in items:
            waiting.append((item, pool.submit(call, item)))
            if len(waiting) > 2 * connections:
                first, answer = waiting.popleft()
                yield first, answer.result()
        for first, answer in waiting:
            yield first, answer.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
