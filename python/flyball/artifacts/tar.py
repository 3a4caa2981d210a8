"""Plain tar files of known entries: deterministic to write, safe to read untrusted.

Headers are read block by block, so that no header makes us read or allocate more than expected: no long names, no links, no
sparse files, no extended headers. Must not know what the entries are.
"""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, BinaryIO

from flyball.artifacts.blobs import CHUNK_BYTES
from flyball.errors import ArtifactRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BLOCK = tarfile.BLOCKSIZE


def write_entry(name: str, size: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes of one entry, deterministic: no times, no owners."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o444
    yield entry.tobuf(tarfile.USTAR_FORMAT)
    yield from pieces
    yield b"\0" * (-size % BLOCK)


def write_end() -> bytes:
    """The end-of-archive marker."""
    return b"\0" * (2 * BLOCK)


class TarReader:
    """Reads the entries of a tar file in order."""

    def __init__(self, file: BinaryIO, where: str) -> None:
        self._file = file
        self._where = where

    def entry(self, name: str, *, size: int | None = None, size_max: int) -> Iterator[bytes]:
        """The chunks of the next entry, which must have this name, and this size if given."""
        header = self._exactly(BLOCK)
        try:
            found = tarfile.TarInfo.frombuf(header, "ascii", "strict")
        except (tarfile.HeaderError, UnicodeDecodeError, ValueError) as error:
            raise self._refused(f"entry {name} is missing") from error
        if found.name != name:
            raise self._refused(f"expected entry {name}, found {found.name[:100]!r}")
        if found.type != tarfile.REGTYPE or not 0 <= found.size <= size_max or size not in {None, found.size}:
            raise self._refused(f"{name} is not a plain file of the expected size")
        return self._pieces(found.size)

    def end(self) -> None:
        """Require the end of the archive: unchecked content is refused."""
        if self._exactly(2 * BLOCK).strip(b"\0") or self._file.read(1):
            raise self._refused("it has more entries than it states")

    def _pieces(self, size: int) -> Iterator[bytes]:
        left = size
        while left:
            piece = self._exactly(min(left, CHUNK_BYTES))
            left -= len(piece)
            yield piece
        if self._exactly(-size % BLOCK).strip(b"\0"):
            raise self._refused("there are bytes between its entries")

    def _exactly(self, size: int) -> bytes:
        content = self._file.read(size)
        if len(content) < size:
            raise self._refused("it is truncated")
        return content

    def _refused(self, why: str) -> ArtifactRefusedError:
        return ArtifactRefusedError(
            f"{self._where} is refused: {why}",
            code="bundle_refused",
            next_step="copy the file again; it is made by  flyball registry export",
        )
