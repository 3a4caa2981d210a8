"""Landlock: from here on this thread, and those that it starts, write below one folder only. From Linux 5.13 on.

The caller has given up new privileges before, and has no other threads yet: they would not be bound. Modes, owners, times
and attributes of files are no writing to Landlock, and their length only from its third version on. Reading stays as it is.
Must not know what is written.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# The same numbers on every machine.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION = 1
_BELOW_PATH = 1
_WRITE_FILE = 1 << 1
# write a file; remove folders and files; make devices, folders, files, sockets, pipes, links
_WRITES = _WRITE_FILE | sum(1 << bit for bit in range(4, 13))
_MOVE_ELSEWHERE, _TRUNCATE = 1 << 13, 1 << 14  # known from the second and the third version on
# A device of one's own making is a way to the disk behind it; nobody makes one, nor a socket, in any folder.
_MAKE_DEVICES = 1 << 6 | 1 << 9 | 1 << 11


def write_only_below(folder: Path) -> None:
    """Cannot be undone. OSError: the kernel does not take it, and nothing has changed."""
    version = _version()
    rights = _WRITES | (_MOVE_ELSEWHERE if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    rules = ctypes.create_string_buffer(struct.pack("Q", rights), 8)
    ruleset = _called(_CREATE, rules, 8, 0)
    below = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    # /dev/null is written by libraries that mean no harm.
    nothing = os.open("/dev/null", os.O_PATH | os.O_CLOEXEC)
    try:
        for place, allowed in ((below, rights & ~_MAKE_DEVICES), (nothing, rights & (_WRITE_FILE | _TRUNCATE))):
            _called(_ADD, ruleset, _BELOW_PATH, ctypes.create_string_buffer(struct.pack("=Qi", allowed, place), 12), 0)
        _called(_RESTRICT, ruleset, 0)
    finally:
        for file in (below, nothing, ruleset):
            os.close(file)


def _version() -> int:
    return _called(_CREATE, None, 0, _ASK_VERSION)


def _called(number: int, *arguments: object) -> int:
    answer = int(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments))
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer
