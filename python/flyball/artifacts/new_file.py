"""Writes new files atomically, and turns system errors into clear ones.

Must not know digests: writers pass chunks that verify themselves.
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
    """Write a new file with mode 0400 and sync it; returns its size."""
    if path.exists() or path.is_symlink():
        raise ArtifactRefusedError(f"{path} already exists", next_step="name a new file")
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
def readable_errors(where: str) -> Iterator[None]:
    """Turn system errors into errors with the path and a next step."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise ArtifactsUnavailableError(
                f"{where} is full: {error.strerror}; no partial file remains",
                code="artifacts_full",
                next_step="free disk space and retry; list unreferenced blobs:  flyball registry gc",
            ) from error
        raise ArtifactsUnavailableError(
            f"cannot use {where}: {error.strerror or error}{f' ({error.filename})' if error.filename else ''}",
            next_step="check that the folder exists and is writable",
        ) from error
