"""Blobs on disk in the OCI image layout: oci-layout, index.json and blobs/sha256, readable by other tools.

A blob is written to a temporary file, synced and renamed, with mode 0400. The index lists packages for other tools only;
events decide what is needed. Must not know what is in a blob.
"""

from __future__ import annotations

import fcntl
import hashlib
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
    Store,
    absent,
    check_expected,
    damaged,
    descriptor,
    hex_of,
    pieces_of,
    too_large,
    verified,
)
from flyball.artifacts.new_file import readable_errors, write_new
from flyball.documents.durable_file import making_folder, sync_folder, write_json
from flyball.errors import ArtifactRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_LAYOUT = {"imageLayoutVersion": "1.0.0"}
_INDEX_BYTES_MAX = 64 << 20


class FolderStore(Store):
    """A store in its own folder, created if missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._blobs = folder / "blobs" / "sha256"
        self._incoming = folder / "incoming"
        with readable_errors(str(folder)):
            for path in (self._blobs, self._incoming):
                making_folder(path)
            if not (folder / "oci-layout").exists():
                with self._locked(fcntl.LOCK_EX):
                    self._lay_out()
        self._check_layout()

    def __str__(self) -> str:
        return str(self.folder)

    def put_file(self, file: BinaryIO, *, expected: str | None = None) -> Blob:
        """Store a file's content from its start; refuses content without the expected digest."""
        file.seek(0)
        return self.put_pieces(pieces_of(file), expected=expected)

    def put_pieces(self, pieces: Iterable[bytes], *, expected: str | None = None) -> Blob:
        """Store all chunks as one blob; hashed during the write, so that the stored content has the digest."""
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

        with readable_errors(str(self)):
            try:
                write_new(making, hashed())
                blob = Blob(f"sha256:{hashing.hexdigest()}", size)
                check_expected(blob.digest, expected)
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
        """A blob in chunks; raises at the end if the content does not match the digest."""
        with self.opened(digest) as file:
            yield from verified(pieces_of(file), digest, str(self))

    @contextmanager
    def opened(self, digest: str) -> Iterator[BinaryIO]:
        """The blob's file, not verified. Anything but a plain file is damage, because only the store creates them."""
        path = self._path(digest)
        with readable_errors(str(self)):
            try:
                handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            except FileNotFoundError as error:
                raise absent(digest, str(self)) from error
            except OSError as error:
                if path.is_symlink():
                    raise damaged(digest, str(self), "it is a link") from error
                raise
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                os.close(handle)
                raise damaged(digest, str(self), "it is not a file")
            with open(handle, "rb") as file:
                yield file

    def has(self, digest: str) -> bool:
        """Whether the blob exists; its content is verified when read."""
        with readable_errors(str(self)):
            return self._path(digest).is_file()

    def blobs(self) -> Iterator[Blob]:
        """Every blob with the time of its last put."""
        with readable_errors(str(self)), os.scandir(self._blobs) as entries:
            for entry in entries:
                found = entry.stat(follow_symlinks=False)
                yield Blob(f"sha256:{entry.name}", found.st_size, _time(found.st_mtime))

    def remove(self, digests: Iterable[str], *, untouched_since: datetime) -> list[Blob]:
        """Remove blobs not put since then. Writers hold the lock too, so a blob is renewed or removed, never both."""
        removed = []
        with readable_errors(str(self)):
            for digest in digests:
                with self._locked(fcntl.LOCK_EX), suppress(FileNotFoundError):
                    path = self._path(digest)
                    found = path.lstat()
                    if _time(found.st_mtime) < untouched_since:
                        path.unlink()
                        removed.append(Blob(digest, found.st_size, _time(found.st_mtime)))
            self._sweep_incoming(untouched_since)
            self._sweep_index()
            sync_folder(self._blobs)
        return removed

    def announce(self, manifest: Blob, name: str) -> None:
        """Add a manifest to index.json, once."""
        with readable_errors(str(self)), self._locked(fcntl.LOCK_EX):
            index = self._index()
            if all(entry["digest"] != manifest.digest for entry in index["manifests"]):
                index["manifests"].append(descriptor(manifest.digest, manifest.size, name))
                write_json(self.folder / "index.json", index)

    def _keep(self, making: Path, blob: Blob) -> None:
        """Move the finished file to its path, or renew an existing one after verifying it."""
        try:
            with self.opened(blob.digest) as file:
                for _ in verified(pieces_of(file), blob.digest, str(self), blob.size):
                    pass
        except ArtifactRefusedError as error:
            if error.code != "artifact_absent":
                raise
        path = self._path(blob.digest)
        with self._locked(fcntl.LOCK_SH):
            try:
                os.utime(path, follow_symlinks=False)
            except FileNotFoundError:
                making.rename(path)
                sync_folder(self._blobs)

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        with (self.folder / "lock").open("ab") as lock:
            fcntl.flock(lock, how)
            yield

    def _path(self, digest: str) -> Path:
        return self._blobs / hex_of(digest)

    def _lay_out(self) -> None:
        """Create the layout; its own file comes last, so that its presence means complete."""
        if not (self.folder / "oci-layout").exists():
            write_json(self.folder / "index.json", {"schemaVersion": 2, "manifests": []})
            write_json(self.folder / "oci-layout", _LAYOUT)

    def _check_layout(self) -> None:
        with readable_errors(str(self)):
            text = (self.folder / "oci-layout").read_bytes()[:1024]
        if b"1.0.0" not in text:
            raise ArtifactRefusedError(
                f"{self.folder} is not a flyball artifact store: its oci-layout contains {text[:100]!r}",
                next_step="name an empty folder, or one created by flyball",
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
                next_step='replace it by {"schemaVersion":2,"manifests":[]}; no blob depends on it',
            ) from error

    def _sweep_index(self) -> None:
        with self._locked(fcntl.LOCK_EX):
            index = self._index()
            there = [entry for entry in index["manifests"] if self.has(str(entry["digest"]))]
            if len(there) < len(index["manifests"]):
                write_json(self.folder / "index.json", {**index, "manifests": there})

    def _sweep_incoming(self, untouched_since: datetime) -> None:
        """Remove temporary files of killed processes."""
        for left in self._incoming.iterdir():
            with suppress(FileNotFoundError):
                if _time(left.lstat().st_mtime) < untouched_since:
                    left.unlink()


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
