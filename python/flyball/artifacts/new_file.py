"""New files that are there whole or not at all, and what the system says to writing in words that help.

Must not know digests: who writes passes pieces that check themselves.
"""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flyball.documents.durable_file import sync_folder
from flyball.errors import ArtifactRefusedError, ArtifactsUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_new(path: Path, pieces: Iterable[bytes]) -> int:
    """Writes a file that was not there, with mode 0400, and brings it to the disk; gives its size."""
    if path.exists() or path.is_symlink():
        raise ArtifactRefusedError(f"{path} is already there", next_step="name a file that is not there yet")
    making = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}")
    size = 0
    try:
        with open(os.open(making, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o400), "wb") as file:
            for piece in pieces:
                size += file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        making.rename(path)
    finally:
        making.unlink(missing_ok=True)
    sync_folder(path.parent)
    return size


@contextmanager
def telling(where: str) -> Iterator[None]:
    """Turns what the system refuses into an error that names the place and the next step."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise ArtifactsUnavailableError(
                f"{where} is full: {error.strerror}; nothing was half written",
                code="artifacts_full",
                next_step="free some space and try again; see what no event needs:  flyball registry gc",
            ) from error
        raise ArtifactsUnavailableError(
            f"{where} cannot be used: {error.strerror or error}{f' ({error.filename})' if error.filename else ''}",
            next_step="see that the folder is there, and that you may write to it",
        ) from error
