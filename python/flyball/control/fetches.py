"""Packages on their way from the artifact store, in two threads: who compiles does not wait for them.

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
"""How long all new ones together are waited for: most packages are small, and there at once."""
_THREADS = 2


class FetchingError(FlyballError):
    """Its files are on their way: it is to be tried again once they are there."""

    code = FETCHING


class Fetches:
    """What is being fetched, by root. `done` is called, in another thread, whenever one ended."""

    def __init__(self, done: Callable[[], None]) -> None:
        self._done = done
        self._wanted: SimpleQueue[tuple[Future[object], Callable[[], object]] | None] = SimpleQueue()
        self._futures: dict[str, Future[object]] = {}
        self._awaited: set[str] = set()
        self._until, self._closed = 0.0, False
        for _ in range(_THREADS):  # daemons, and so no pool: a process that ends does not wait for a download
            threading.Thread(target=self._work, name="flyball-fetch", daemon=True).start()

    def begin(self) -> None:
        """Be patient anew, for as long as a rollback may wait."""
        self._until = time.monotonic() + PATIENCE_S

    def want(self, root: str, fetch: Callable[[], object], what: str) -> None:
        """Begins to fetch, and raises `FetchingError` until it is there; raises once what stood in the way."""
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
        """Whether one that somebody was told to wait for ended since this was asked last."""
        ended = {root for root in self._awaited if self._futures[root].done()}
        self._awaited -= ended
        return bool(ended)

    def wait(self) -> None:
        """Until one that somebody was told to wait for ended."""
        wait([self._futures[root] for root in self._awaited], return_when=FIRST_COMPLETED)

    def close(self) -> None:
        """Begin nothing more; what is under way ends with the process, or by itself."""
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
