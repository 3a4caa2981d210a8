"""Removes blobs from a bucket safely beside concurrent puts, because a bucket has no locks.

A remover holds a lease, an object that only one process can create, and checks every blob again before it removes it. A
writer writes first, then waits until there is no lease, then checks that the blob exists: a later lease sees the blob as
renewed. Must not know blobs.
"""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from flyball.artifacts.bucket import REQUEST_TIMEOUT
from flyball.errors import ArtifactsUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flyball.artifacts.bucket import Bucket, ObjectMeta

KEY = "removing.json"
WORK_S = 10
"""How long blobs are removed before writers get a turn."""
WAIT_S = 120
MARGIN = timedelta(minutes=5)
"""Allowed clock skew before an abandoned lease counts as expired."""


class BucketLease:
    """The exclusive right to remove blobs from a bucket."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def wait_until_free(self) -> None:
        """Wait until nobody removes blobs; an expired lease is ignored."""
        until = time.monotonic() + WAIT_S
        while self._is_held():
            if time.monotonic() > until:
                raise ArtifactsUnavailableError(
                    f"blobs are being removed from {self._bucket}",
                    next_step="wait until the garbage collection has finished, and retry",
                )
            time.sleep(0.2)

    @contextmanager
    def held(self) -> Iterator[Callable[[], bool]]:
        """Hold the lease; yields a function that says whether there is time for another removal."""
        self._take()
        until = time.monotonic() + WORK_S
        try:
            yield lambda: time.monotonic() < until
        finally:
            self._bucket.delete(KEY)

    def _take(self) -> None:
        # The last removal may start at the deadline, and take the full retry time plus one request.
        lasts = timedelta(seconds=WORK_S + self._bucket.patience_s) + 2 * REQUEST_TIMEOUT
        content = json.dumps({"until": (datetime.now(UTC) + lasts).isoformat()}).encode()
        if self._bucket.create(KEY, content):
            return
        found = self._bucket.small(KEY)
        if found is not None and not _counts(*found) and self._bucket.replace(KEY, content, found[0].e_tag):
            return
        raise ArtifactsUnavailableError(
            f"another garbage collection runs on {self._bucket}",
            next_step=f"wait for it; a killed one's lease expires after {(lasts + MARGIN).seconds // 60} minutes",
        )

    def _is_held(self) -> bool:
        found = self._bucket.small(KEY)
        return found is not None and _counts(*found)


def _counts(found: ObjectMeta, content: bytes) -> bool:
    """Whether a lease is still valid: its holder removes nothing after it expires."""
    try:
        until = datetime.fromisoformat(json.loads(content)["until"])
        return datetime.now(UTC) < until + MARGIN
    except (ValueError, KeyError, TypeError):
        return datetime.now(UTC) < found.touched + MARGIN
