"""The store interface: bytes under their own digest, verified on write and on read.

Must not know where the bytes are stored: see `folder_store` and `object_store`.
"""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from flyball.artifacts.new_file import readable_errors, write_new
from flyball.errors import ArtifactRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime
    from pathlib import Path

CHUNK_BYTES = 1 << 20
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
BLOB_BYTES_MAX = (8 << 30) - 1
"""The limit of one bundle entry; models with their external data are smaller."""
SMALL_BYTES_MAX = 4 << 20
"""The limit of blobs read whole into memory: manifests, meta.json, signatures."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Blob:
    """A blob in a store."""

    digest: str
    """sha256:<64 hex digits>."""
    size: int
    touched: datetime | None = None
    """When it was last put, in UTC; set only by `Store.blobs`."""


class Store(Protocol):
    """Blobs by digest. A blob that is put again is stored once; content is never replaced."""

    def put_bytes(self, content: bytes) -> Blob:
        """Store the bytes. They are durable when this returns."""
        return self.put_file(io.BytesIO(content))

    def put_file(self, file: BinaryIO, *, expected: str | None = None) -> Blob:
        """Store a file's content from its start; refuses content without the expected digest."""

    def read(self, digest: str, *, bytes_max: int = SMALL_BYTES_MAX) -> bytes:
        """All of a small blob, verified."""

    def chunks(self, digest: str) -> Iterator[bytes]:
        """A blob in chunks; raises at the end if the content does not match the digest."""

    def fetch_to(self, digest: str, path: Path) -> Blob:
        """Write a new file with mode 0400, verified during the write, atomically."""
        with readable_errors(str(path)):
            return Blob(digest, write_new(path, self.chunks(digest)))

    def has(self, digest: str) -> bool:
        """Whether the blob exists; its content is verified when read."""

    def blobs(self) -> Iterator[Blob]:
        """Every blob with the time of its last put, unordered."""

    def remove(self, digests: Iterable[str], *, untouched_since: datetime) -> list[Blob]:
        """Remove those of the blobs that were not put since then, safely beside concurrent puts; returns them.

        Only `gc.collect` calls this: it knows what events reference.
        """

    def announce(self, manifest: Blob, name: str) -> None:
        """Add this manifest to the store's own index, if it has one."""


def digest_of(content: bytes) -> str:
    """The digest of these bytes."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def checked_digest(digest: str) -> str:
    """Validate a digest: it becomes a path, so it is never used unchecked."""
    if not _DIGEST.fullmatch(digest):
        raise ArtifactRefusedError(f"{digest[:100]!r} is not a digest", next_step="a digest is sha256: and 64 hex digits")
    return digest


def hex_of(digest: str) -> str:
    """The hex digits of a digest, validated."""
    return checked_digest(digest).removeprefix("sha256:")


def descriptor(digest: str, size: int, name: str) -> dict[str, Any]:
    """An OCI index's entry for a package manifest."""
    return {
        "mediaType": MANIFEST_TYPE,
        "digest": digest,
        "size": size,
        "annotations": {"org.opencontainers.image.ref.name": name},
    }


def check_expected(digest: str, expected: str | None) -> None:
    """Refuse content without the expected digest."""
    if expected is not None and digest != checked_digest(expected):
        raise ArtifactRefusedError(f"the file has the digest {digest}, expected {expected}", code="artifact_damaged")


def too_large(what: str, size: int, most: int) -> ArtifactRefusedError:
    """The error for content above a limit."""
    return ArtifactRefusedError(f"{what} has {size} bytes; at most {most} are allowed", code="artifact_too_large")


def damaged(digest: str, where: str, found: str) -> ArtifactRefusedError:
    """The error for content that changed after it was stored."""
    return ArtifactRefusedError(
        f"{digest} is damaged in {where}: {found}",
        code="artifact_damaged",
        next_step="restore the blob from a backup, or remove it and register the package again",
    )


def absent(digest: str, where: str) -> ArtifactRefusedError:
    """The error for a missing blob."""
    return ArtifactRefusedError(
        f"{digest} is not in {where}",
        code="artifact_absent",
        next_step="restore the blob from a backup, or register the package again",
    )


def verified(pieces: Iterable[bytes], digest: str, where: str, size: int | None = None) -> Iterator[bytes]:
    """Pass the chunks through; raises if there are too many bytes, or if the digest does not match at the end."""
    hashing, seen = hashlib.sha256(), 0
    for piece in pieces:
        seen += len(piece)
        if seen > BLOB_BYTES_MAX:
            raise too_large(digest, seen, BLOB_BYTES_MAX)
        hashing.update(piece)
        yield piece
    if size is not None and seen != size:
        raise damaged(digest, where, f"it has {seen} bytes instead of {size}")
    if hashing.hexdigest() != hex_of(digest):
        raise damaged(digest, where, f"its {seen} bytes have the digest sha256:{hashing.hexdigest()}")


def pieces_of(file: BinaryIO) -> Iterator[bytes]:
    """The rest of a file in chunks of one size."""
    while piece := file.read(CHUNK_BYTES):
        yield piece
