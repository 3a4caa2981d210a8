"""Atomic and durable file writes."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from flyball.errors import RefusedError

if TYPE_CHECKING:
    from io import BufferedRandom
    from pathlib import Path


def write_json(path: Path, document: Any) -> None:
    """Replace a JSON file atomically; it is durable when this returns."""
    making_folder(path.parent)
    write_bytes(path, json.dumps(document).encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file in an existing folder atomically: readers see the old content or the new one."""
    making = path.with_name(f".{path.name}.{os.getpid()}")
    with open_private(making, os.O_TRUNC) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    making.replace(path)
    sync_folder(path.parent)


def open_private(path: Path, flags: int = 0) -> BufferedRandom:
    """Open or create a file for reading and writing, with mode 0600 at all times."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "r+b")


def private_folder(path: Path) -> None:
    """Create a folder for its owner alone; warns on stderr if an existing one is open to others."""
    mode = path.stat().st_mode & 0o777 if path.is_dir() else 0
    if mode & 0o077:
        sys.stderr.write(f"warning: other users may open {path} (mode {mode:o}); run: chmod 700 {path}\n")
    making_folder(path)


def read_json(path: Path) -> Any:
    """Read a JSON file; None if it does not exist."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise RefusedError(
            f"{path} is damaged: {error}", next_step="restore it from a backup; it is never half written"
        ) from error


def making_folder(path: Path) -> None:
    """Create a folder and its parents with mode 0700, durably."""
    if not path.is_dir():
        making_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
        sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """fsync a file."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """fsync a folder's entries."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
