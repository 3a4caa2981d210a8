"""Rewrites messages of other libraries and of the system for people: no error numbers, and the file that was meant."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

from flyball.documents.near_files import no_such_file
from flyball.errors import FlyballError, RefusedError

_NUMBER = re.compile(r" \(os error \d+\)|\[[Ee]rrno \d+\] ")
_ARROW = re.compile(r"Failed to open local file '[^']*'\. Detail: (?:\[errno \d+\] )?")
# Files are written under a name of their own, and moved when they are complete.
_TEMPORARY = re.compile(rf"(?<![^/ '\"])\.([^/\s]+?)\.(?:{os.getpid()}|[0-9a-f]{{16}})(?=[.:/'\"]|$)")
_MISSING = re.compile(
    r"cannot read (?P<what>(?:the (?:configuration|snapshot|card|contract|key) )?)(?P<path>(?!the )[^:]+): "
    r"(?:[Nn]o such file or directory|[Nn]o such file)(?! ?[;:])"
)


def not_json(error: ValueError) -> str:
    """`not JSON: expecting value at line 1, column 3`, for what Python's reader raised."""
    if not isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error}"
    return f"not JSON: {error.msg[:1].lower()}{error.msg[1:]} at line {error.lineno}, column {error.colno}"


def plainly(text: str) -> str:
    """The text in plain words; a missing file is named with the one that was probably meant."""
    text = _TEMPORARY.sub(r"\1", _NUMBER.sub("", _ARROW.sub("", text)))
    return _MISSING.sub(lambda found: f"cannot read {found['what']}{found['path']}: {no_such_file(found['path'])}", text)


def system_error(error: OSError) -> FlyballError:
    """An error of the system that no verb handled. Those about a path that was typed are refusals."""
    if error.filename is None:
        return FlyballError(plainly(str(error.strerror or error)).lower(), code="system")
    path = _TEMPORARY.sub(r"\1", _short(str(error.filename)))
    folder = Path(path).parent
    match error.errno:
        case errno.ENOENT if not folder.is_dir():
            return RefusedError(f"there is no directory {folder}", code="system", next_step=f"make it:  mkdir -p {folder}")
        case errno.ENOENT:
            return RefusedError(f"cannot read {path}: {no_such_file(path)}", code="system")
        case errno.EACCES | errno.EPERM:
            return RefusedError(f"{path}: permission denied", code="system", next_step=f"ls -l {path}")
        case errno.EISDIR:
            return RefusedError(f"{path} is a directory, not a file", code="system")
        case errno.ENOTDIR:
            return RefusedError(f"{path}: a part of the path is a file, not a directory", code="system")
        case errno.ENAMETOOLONG | errno.ELOOP | errno.EINVAL:
            return RefusedError(f"{path[:60]}: {str(error.strerror).lower()}", code="system")
    return FlyballError(f"{path}: {str(error.strerror or error).lower()}", code="system")


def _short(path: str) -> str:
    """Relative to this folder if it is in it, as people type it."""
    here = f"{os.getcwd()}/"
    return path.removeprefix(here)
