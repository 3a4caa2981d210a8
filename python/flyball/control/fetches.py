"""Fetches packages from the artifact store in two threads, so that compilation does not wait.

A rollback of one name must not wait for another name's download. Must not know registries or snapshots.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from queue import SimpleQueue
from typing import TYPE_CHECKING

from flyball.errors import FlyballError

if TYPE_CHECKING:
    from collections.abc import Callable

FETCHING = "fetching"
PATIENCE_S = 0.25
"""Total wait for new packages: most are small and arrive at once."""
_THREADS = 2


class FetchingError(FlyballError):
    """The files are being fetched; retry when they have arrived."""

    code = FETCHING


class Fetches:
    """Running downloads by root. `done` is called from another thread whenever one ends."""

    def __init__(self, done: Callable[[], None]) -> None:
        self._done = done
        self._wanted: SimpleQueue[tuple[Future[object], Callable[[], object]] | None] = SimpleQueue()
        self._futures: dict[str, Future[object]] = {}
        self._awaited: set[str] = set()
        self._until, self._closed = 0.0, False
        for _ in range(_THREADS):  # daemon threads instead of a pool: an ending process does not wait for a download
            threading.Thread(target=self._work, name="flyball-fetch", daemon=True).start()

    def begin(self) -> None:
        """Restart the wait budget, which a rollback can afford."""
        self._until = time.monotonic() + PATIENCE_S

    def want(self, root: str, fetch: Callable[[], object], what: str) -> None:
        """Start a download, and raise `FetchingError` until it is complete; raises its error once."""
        future = self._futures.get(root)
        if future is None:
            future = self._futures[root] = Future()
            future.add_done_callback(lambda _: self._done())
            self._wanted.put((future, fetch))
            wait([future], max(0.0, self._until - time.monotonic()))
        if not future.done():
            self._awaited.add(root)
            raise FetchingError(f"the files of {what} are being fetched", next_step="wait, or look at the artifact store")
        del self._futures[root]
        self._awaited.discard(root)
        future.result()

    def ended(self) -> bool:
        """Whether an awaited download ended since the last call."""
        ended = {root for root in self._awaited if self._futures[root].done()}
        self._awaited -= ended
        return bool(ended)

    def wait(self) -> None:
        """Wait until an awaited download ends."""
        wait([self._futures[root] for root in self._awaited], return_when=FIRST_COMPLETED)

    def close(self) -> None:
        """Start no more downloads; running ones end by themselves or with the process."""
        self._closed = True
        for _ in range(_THREADS):
            self._wanted.put(None)

    def _work(self) -> None:
        while (wanted := self._wanted.get()) is not None and not self._closed:
            future, fetch = wanted
            try:
                future.set_result(fetch())
            except BaseException as error:
                future.set_exception(error)
