"""How blobs leave a bucket while others put the same blobs, without a lock that a bucket does not have.

Who removes holds a lease, an object that only one can create, and looks at every blob again before it removes it. Who puts
writes first, then waits until there is no lease, then looks whether the blob is there: a lease that begins later sees the
blob renewed. Must not know blobs.
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

    from flyball.artifacts.bucket import Bucket, Found

KEY = "removing.json"
WORK_S = 10
"""How long blobs are removed before those who put get a turn."""
WAIT_S = 120
MARGIN = timedelta(minutes=5)
"""How far clocks may differ before a lease that nobody gave back is taken to be one."""


class BucketLease:
    """The right to remove blobs from a bucket, which one process has at a time."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def wait_until_free(self) -> None:
        """Returns once nobody removes; a lease that its holder left behind does not count once it has ended."""
        until = time.monotonic() + WAIT_S
        while self._is_held():
            if time.monotonic() > until:
                raise ArtifactsUnavailableError(
                    f"blobs are being removed from {self._bucket}",
                    next_step="wait until the collection has ended, and try again",
                )
            time.sleep(0.2)

    @contextmanager
    def held(self) -> Iterator[Callable[[], bool]]:
        """Takes the lease; gives what says whether there is time for one more removal."""
        self._take()
        until = time.monotonic() + WORK_S
        try:
            yield lambda: time.monotonic() < until
        finally:
            self._bucket.delete(KEY)

    def _take(self) -> None:
        # The last removal may begin when the work's time is up, and take all the patience and one request more.
        lasts = timedelta(seconds=WORK_S + self._bucket.patience_s) + 2 * REQUEST_TIMEOUT
        content = json.dumps({"until": (datetime.now(UTC) + lasts).isoformat()}).encode()
        if self._bucket.create(KEY, content):
            return
        found = self._bucket.small(KEY)
        if found is not None and not _counts(*found) and self._bucket.replace(KEY, content, found[0].e_tag):
            return
        raise ArtifactsUnavailableError(
            f"another collection removes blobs from {self._bucket}",
            next_step=f"wait until it has ended; one that was killed counts for {(lasts + MARGIN).seconds // 60} minutes",
        )

    def _is_held(self) -> bool:
        found = self._bucket.small(KEY)
        return found is not None and _counts(*found)


def _counts(found: Found, content: bytes) -> bool:
    """Whether a lease is still somebody's: its holder removes nothing once it has ended."""
    try:
        until = datetime.fromisoformat(json.loads(content)["until"])
        return datetime.now(UTC) < until + MARGIN
    except (ValueError, KeyError, TypeError):
        return datetime.now(UTC) < found.touched + MARGIN
