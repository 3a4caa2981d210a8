"""Blobs in a bucket of any S3-compatible store, under blobs/sha256. Every wait and retry is limited.

Credentials come only from the environment. Objects are created if missing; existing ones are verified and renewed. A
bucket has no locks: see `bucket_lease` for safe removal.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, BinaryIO

from flyball.artifacts.blobs import (
    BLOB_BYTES_MAX,
    SMALL_BYTES_MAX,
    Blob,
    Store,
    absent,
    check_expected,
    damaged,
    hex_of,
    pieces_of,
    too_large,
    verified,
)
from flyball.artifacts.bucket import PATIENCE_S, Bucket
from flyball.artifacts.bucket_lease import BucketLease
from flyball.errors import ArtifactRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PART_BYTES = 8 << 20
WHOLE_BYTES_MAX = 2 * PART_BYTES
"""Largest object created by one request; larger ones are uploaded in parts, invisible before the last."""
RENEW_AFTER = timedelta(minutes=15)
"""Older blobs are rewritten when put again; a quarter of the shortest grace, so that an event has the rest."""


class ObjectStore(Store):
    """A store in an existing bucket, under a prefix."""

    def __init__(
        self,
        bucket: str,
        *,
        prefix: str = "",
        endpoint: str | None = None,
        region: str | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._bucket = Bucket(bucket, prefix=prefix, endpoint=endpoint, region=region, patience_s=patience_s)
        self._lease = BucketLease(self._bucket)

    def __str__(self) -> str:
        return str(self._bucket)

    def put_file(self, file: BinaryIO, *, expected: str | None = None) -> Blob:
        """Store a file's content from its start; refuses content without the expected digest."""
        blob = _hashed(file)
        check_expected(blob.digest, expected)
        self._put(file, blob)
        # A remover may have checked the blob before this put: once nobody removes, it exists or is put again for good.
        self._lease.wait_until_free()
        if self._bucket.head(_key(blob.digest)) is None:
            self._put(file, blob)
        return blob

    def read(self, digest: str, *, bytes_max: int = SMALL_BYTES_MAX) -> bytes:
        """All of a small blob, verified."""
        size = self._size(digest)
        if size > bytes_max:
            raise too_large(digest, size, bytes_max)
        return b"".join(self.chunks(digest))

    def chunks(self, digest: str) -> Iterator[bytes]:
        """A blob in chunks; raises at the end if the content does not match the digest."""
        size = self._size(digest)
        # In parts: each has its own timeout and retries, however large the blob is.
        ranges = ((start, min(start + PART_BYTES, size)) for start in range(0, size, PART_BYTES))
        parts = (self._bucket.part(_key(digest), start, end) for start, end in ranges)
        return verified(parts, digest, str(self), size)

    def has(self, digest: str) -> bool:
        """Whether the blob exists; its content is verified when read."""
        return self._bucket.head(_key(digest)) is not None

    def blobs(self) -> Iterator[Blob]:
        """Every blob with the time of its last put, by the store's clock."""
        for key, size, touched in self._bucket.list("blobs/sha256/"):
            yield Blob(f"sha256:{key.rpartition('/')[2]}", size, touched)

    def remove(self, digests: Iterable[str], *, untouched_since: datetime) -> list[Blob]:
        """Remove blobs not put since then, a few at a time, so that writers do not wait long."""
        removed, left = [], list(digests)
        while left:
            with self._lease.held() as time_left:
                while left and time_left():
                    digest = left.pop()
                    found = self._bucket.head(_key(digest))
                    if found is not None and found.touched < untouched_since:
                        self._bucket.delete(_key(digest))
                        removed.append(Blob(digest, found.size, found.touched))
        return removed

    def announce(self, manifest: Blob, name: str) -> None:
        """Nothing: a bucket has no index; manifests are found by digest."""

    def _put(self, file: BinaryIO, blob: Blob) -> None:
        key = _key(blob.digest)
        found = self._bucket.head(key)
        if found is None:
            if blob.size > WHOLE_BYTES_MAX:
                self._bucket.write(key, _checked_parts(file, blob))
                return
            if self._bucket.create(key, b"".join(_checked_parts(file, blob))):
                return
        try:
            for _ in self.chunks(blob.digest):
                pass  # it exists already: it must be identical
        except ArtifactRefusedError as error:
            if error.code == "artifact_absent":
                return  # removed meanwhile: put again once nobody removes
            raise
        if found is not None and found.touched < datetime.now(UTC) - RENEW_AFTER:
            self._bucket.write(key, _checked_parts(file, blob))

    def _size(self, digest: str) -> int:
        found = self._bucket.head(_key(digest))
        if found is None:
            raise absent(digest, str(self))
        if found.size > BLOB_BYTES_MAX:
            raise damaged(digest, str(self), f"it has {found.size} bytes, above the limit of a blob")
        return found.size


def _key(digest: str) -> str:
    return f"blobs/sha256/{hex_of(digest)}"


def _hashed(file: BinaryIO) -> Blob:
    file.seek(0)
    hashing, size = hashlib.sha256(), 0
    for piece in pieces_of(file):
        size += len(piece)
        if size > BLOB_BYTES_MAX:
            raise too_large("the file", size, BLOB_BYTES_MAX)
        hashing.update(piece)
    return Blob(f"sha256:{hashing.hexdigest()}", size)


def _checked_parts(file: BinaryIO, blob: Blob) -> Iterator[bytes]:
    """The file's parts. The last one is yielded only if all match the earlier hash, so that a file that changed meanwhile
    aborts the upload instead of completing it."""
    file.seek(0)
    hashing, size, last = hashlib.sha256(), 0, b""
    while part := file.read(PART_BYTES):
        hashing.update(part)
        size += len(part)
        if size > blob.size:
            break
        if last:
            yield last
        last = part
    if size != blob.size or hashing.hexdigest() != hex_of(blob.digest):
        raise ArtifactRefusedError(
            "the file changed while it was read", code="artifact_damaged", next_step="register it again, without changing it"
        )
    yield last
