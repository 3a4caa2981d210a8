"""Blobs on disk, in the layout of an OCI image: oci-layout, index.json and blobs/sha256, so that other tools can read it.

A blob is written beside, brought to the disk and renamed, with mode 0400. The index names packages for those tools only;
what is needed is said by events. Must not know what is in a blob.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO

from flyball.artifacts.blobs import (
    BLOB_BYTES_MAX,
    SMALL_BYTES_MAX,
    Blob,
    absent,
    checked_digest,
    damaged,
    hex_of,
    pieces_of,
    too_large,
    verified,
)
from flyball.artifacts.new_file import telling, write_new
from flyball.documents.durable_file import making_folder, sync_folder, write_json
from flyball.errors import ArtifactRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_LAYOUT = {"imageLayoutVersion": "1.0.0"}
_MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
_INDEX_BYTES_MAX = 64 << 20


class FolderStore:
    """A store in a folder of its own, made where it is not there yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._blobs = folder / "blobs" / "sha256"
        self._incoming = folder / "incoming"
        with telling(str(folder)):
            for place in (self._blobs, self._incoming):
                making_folder(place)
            if not (folder / "oci-layout").exists():
                with self._locked(fcntl.LOCK_EX):
                    self._lay_out()
        self._check_layout()

    def __str__(self) -> str:
        return str(self.folder)

    def put_bytes(self, content: bytes) -> Blob:
        """Keeps the bytes. They are durable when this returns."""
        return self.put_file(io.BytesIO(content))

    def put_file(self, file: BinaryIO, *, expected: str | None = None) -> Blob:
        """Keeps what a file holds from its start to its end; refuses what has not the digest that is expected."""
        file.seek(0)
        return self.put_pieces(pieces_of(file), expected=expected)

    def put_pieces(self, pieces: Iterable[bytes], *, expected: str | None = None) -> Blob:
        """Keeps all pieces as one blob; hashed while they are written, so that what is kept is what has the digest."""
        making = self._incoming / f"{os.getpid()}-{secrets.token_hex(8)}"
        hashing, size = hashlib.sha256(), 0

        def hashed() -> Iterator[bytes]:
            nonlocal size
            for piece in pieces:
                size += len(piece)
                if size > BLOB_BYTES_MAX:
                    raise too_large("the file", size, BLOB_BYTES_MAX)
                hashing.update(piece)
                yield piece

        with telling(str(self)):
            try:
                write_new(making, hashed())
                blob = Blob(f"sha256:{hashing.hexdigest()}", size)
                if expected is not None and blob.digest != checked_digest(expected):
                    raise ArtifactRefusedError(
                        f"the file has the digest {blob.digest}, and not {expected}", code="artifact_damaged"
                    )
                self._keep(making, blob)
            finally:
                making.unlink(missing_ok=True)
        return blob

    def read(self, digest: str, *, bytes_max: int = SMALL_BYTES_MAX) -> bytes:
        """All of a small blob, verified."""
        with self.opened(digest) as file:
            size = os.fstat(file.fileno()).st_size
            if size > bytes_max:
                raise too_large(digest, size, bytes_max)
            return b"".join(verified(pieces_of(file), digest, str(self)))

    def chunks(self, digest: str) -> Iterator[bytes]:
        """A blob piece by piece; raises at the end where the pieces together are not what the digest says."""
        with self.opened(digest) as file:
            yield from verified(pieces_of(file), digest, str(self))

    @contextmanager
    def opened(self, digest: str) -> Iterator[BinaryIO]:
        """The blob's file, not verified. Anything else in its place is damage, for only the store makes these files."""
        place = self._place(digest)
        with telling(str(self)):
            try:
                handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except FileNotFoundError as error:
                raise absent(digest, str(self)) from error
            except OSError as error:
                if place.is_symlink():
                    raise damaged(digest, str(self), "it is a link") from error
                raise
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                os.close(handle)
                raise damaged(digest, str(self), "it is no file")
            with open(handle, "rb") as file:
                yield file

    def fetch_to(self, digest: str, path: Path) -> Blob:
        """A new file with mode 0400 and these bytes, verified while they are written."""
        with telling(str(path)):
            return Blob(digest, write_new(path, self.chunks(digest)))

    def has(self, digest: str) -> bool:
        """Whether the blob is there; its bytes are verified when they are read."""
        with telling(str(self)):
            return self._place(digest).is_file()

    def blobs(self) -> Iterator[Blob]:
        """Every blob with the time when it was last put."""
        with telling(str(self)), os.scandir(self._blobs) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                yield Blob(f"sha256:{entry.name}", found.st_size, _time(found.st_mtime))

    def remove(self, digests: Iterable[str], *, untouched_since: datetime) -> list[Blob]:
        """Removes what was not put since then. Who puts holds the lock too, so a blob is renewed or gone, never both."""
        removed = []
        with telling(str(self)):
            for digest in digests:
                with self._locked(fcntl.LOCK_EX), suppress(FileNotFoundError):
                    place = self._place(digest)
                    found = place.lstat()
                    if _time(found.st_mtime) < untouched_since:
                        place.unlink()
                        removed.append(Blob(digest, found.st_size, _time(found.st_mtime)))
            self._sweep_incoming(untouched_since)
            self._sweep_index()
            sync_folder(self._blobs)
        return removed

    def announce(self, manifest: Blob, name: str) -> None:
        """Puts a manifest into index.json, once."""
        descriptor = {
            "mediaType": _MANIFEST_TYPE,
            "digest": manifest.digest,
            "size": manifest.size,
            "annotations": {"org.opencontainers.image.ref.name": name},
        }
        with telling(str(self)), self._locked(fcntl.LOCK_EX):
            index = self._index()
            if all(entry["digest"] != manifest.digest for entry in index["manifests"]):
                index["manifests"].append(descriptor)
                write_json(self.folder / "index.json", index)

    def _keep(self, making: Path, blob: Blob) -> None:
        """Gives the finished file its place, or renews what is there once that has proven to be the same."""
        try:
            with self.opened(blob.digest) as file:
                for _ in verified(pieces_of(file), blob.digest, str(self), blob.size):
                    pass
        except ArtifactRefusedError as error:
            if error.code != "artifact_absent":
                raise
        place = self._place(blob.digest)
        with self._locked(fcntl.LOCK_SH):
            try:
                os.utime(place, follow_symlinks=False)
            except FileNotFoundError:
                making.rename(place)
                sync_folder(self._blobs)

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        with (self.folder / "lock").open("ab") as lock:
            fcntl.flock(lock, how)
            yield

    def _place(self, digest: str) -> Path:
        return self._blobs / hex_of(digest)

    def _lay_out(self) -> None:
        """The layout's own file comes last: where it is, the rest is."""
        if not (self.folder / "oci-layout").exists():
            write_json(self.folder / "index.json", {"schemaVersion": 2, "manifests": []})
            write_json(self.folder / "oci-layout", _LAYOUT)

    def _check_layout(self) -> None:
        with telling(str(self)):
            text = (self.folder / "oci-layout").read_bytes()[:1024]
        if b"1.0.0" not in text:
            raise ArtifactRefusedError(
                f"{self.folder} is no artifact store of ours: its oci-layout says {text[:100]!r}",
                next_step="name an empty folder, or one that flyball made",
            )

    def _index(self) -> dict[str, list[dict[str, object]]]:
        path = self.folder / "index.json"
        if path.stat().st_size > _INDEX_BYTES_MAX:
            raise too_large(str(path), path.stat().st_size, _INDEX_BYTES_MAX)
        try:
            index = json.loads(path.read_bytes())
            return {**index, "manifests": [entry for entry in index["manifests"] if isinstance(entry["digest"], str)]}
        except (ValueError, KeyError, TypeError) as error:
            raise ArtifactRefusedError(
                f"{path} is damaged: {error}",
                next_step='put {"schemaVersion":2,"manifests":[]} in its place; no blob depends on it',
            ) from error

    def _sweep_index(self) -> None:
        with self._locked(fcntl.LOCK_EX):
            index = self._index()
            there = [entry for entry in index["manifests"] if self.has(str(entry["digest"]))]
            if len(there) < len(index["manifests"]):
                write_json(self.folder / "index.json", {**index, "manifests": there})

    def _sweep_incoming(self, untouched_since: datetime) -> None:
        """What processes left that were killed while they wrote."""
        for left in self._incoming.iterdir():
            with suppress(FileNotFoundError):
                if _time(left.lstat().st_mtime) < untouched_since:
                    left.unlink()


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
