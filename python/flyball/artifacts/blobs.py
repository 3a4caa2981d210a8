"""What every store promises: bytes under their own digest, verified on the way in and on the way out.

Must not know where the bytes lie: that is `folder_store` and `object_store`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol

from flyball.errors import ArtifactRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime
    from pathlib import Path

CHUNK_BYTES = 1 << 20
BLOB_BYTES_MAX = (8 << 30) - 1
"""What one entry of a bundle file can hold; models with their external data are smaller."""
SMALL_BYTES_MAX = 4 << 20
"""Documents: manifests, meta.json, signatures. What is read whole into memory has this limit."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes that a store has."""

    digest: str
    """sha256:<64 hex digits>."""
    size: int
    touched: datetime | None = None
    """When it was last put, in UTC; only `Store.blobs` says so."""


class Store(Protocol):
    """Bytes by digest. What is put again is kept once; nothing is ever replaced by other bytes."""

    def put_bytes(self, content: bytes) -> Blob:
        """Keeps the bytes. They are durable when this returns."""

    def put_file(self, file: BinaryIO, *, expected: str | None = None) -> Blob:
        """Keeps what a file holds from its start to its end; refuses what has not the digest that is expected."""

    def read(self, digest: str, *, bytes_max: int = SMALL_BYTES_MAX) -> bytes:
        """All of a small blob, verified."""

    def chunks(self, digest: str) -> Iterator[bytes]:
        """A blob piece by piece; raises at the end where the pieces together are not what the digest says."""

    def fetch_to(self, digest: str, path: Path) -> Blob:
        """A new file with mode 0400 and these bytes, verified while they are written, there whole or not at all."""

    def has(self, digest: str) -> bool:
        """Whether the blob is there; its bytes are verified when they are read."""

    def blobs(self) -> Iterator[Blob]:
        """Every blob with the time when it was last put, in no order."""

    def remove(self, digests: Iterable[str], *, untouched_since: datetime) -> list[Blob]:
        """Removes those of the blobs that were not put since then, also while others put; gives what was removed.

        Only `gc.collect` calls this: it knows what events need.
        """

    def announce(self, manifest: Blob, name: str) -> None:
        """Tells readers of the store's own index, where it has one, that this manifest is a package."""


def digest_of(content: bytes) -> str:
    """The digest under which these bytes are kept."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def checked_digest(digest: str) -> str:
    """The digest, or a refusal: a digest becomes a path, so it is never used as it came."""
    if not _DIGEST.fullmatch(digest):
        raise ArtifactRefusedError(f"{digest[:100]!r} is no digest", next_step="a digest is sha256: and 64 hex digits")
    return digest


def hex_of(digest: str) -> str:
    """The digits alone, checked."""
    return checked_digest(digest).removeprefix("sha256:")


def too_large(what: str, size: int, most: int) -> ArtifactRefusedError:
    """The refusal of what is over a limit."""
    return ArtifactRefusedError(f"{what} has {size} bytes, and {most} are the most", code="artifact_too_large")


def damaged(digest: str, where: str, found: str) -> ArtifactRefusedError:
    """The refusal of bytes that changed after they were kept."""
    return ArtifactRefusedError(
        f"{digest} is damaged in {where}: {found}",
        code="artifact_damaged",
        next_step="put the blob back from a backup, or remove it and register the package again",
    )


def absent(digest: str, where: str) -> ArtifactRefusedError:
    """The refusal where a blob is not there."""
    return ArtifactRefusedError(
        f"{digest} is not in {where}",
        code="artifact_absent",
        next_step="put the blob back from a backup, or register the package again",
    )


def verified(pieces: Iterable[bytes], digest: str, where: str, size: int | None = None) -> Iterator[bytes]:
    """The pieces as they come; raises where they are more than they should be, or in the end are not the digest's."""
    hashing, seen = hashlib.sha256(), 0
    for piece in pieces:
        seen += len(piece)
        if seen > BLOB_BYTES_MAX:
            raise too_large(digest, seen, BLOB_BYTES_MAX)
        hashing.update(piece)
        yield piece
    if size is not None and seen != size:
        raise damaged(digest, where, f"it has {seen} bytes where {size} were kept")
    if hashing.hexdigest() != hex_of(digest):
        raise damaged(digest, where, f"its {seen} bytes have the digest sha256:{hashing.hexdigest()}")


def pieces_of(file: BinaryIO) -> Iterator[bytes]:
    """What a file holds from here on, in pieces of one size."""
    while piece := file.read(CHUNK_BYTES):
        yield piece
