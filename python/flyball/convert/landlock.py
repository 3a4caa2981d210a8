"""Landlock: from here on this process writes below one folder only. Kernels before 5.13 do not have it.

The caller has given up new privileges before. Reading stays as it is. Must not know what is written.
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
# write a file; remove folders and files; make devices, folders, files, sockets, pipes, links
_WRITES = 1 << 1 | sum(1 << bit for bit in range(4, 13))
_MOVE_ELSEWHERE, _TRUNCATE = 1 << 13, 1 << 14  # known from the second and the third version on


def write_only_below(folder: Path) -> bool:
    """Whether the kernel took it."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE, None, 0, _ASK_VERSION)
    if version < 1:
        return False
    rights = _WRITES | (_MOVE_ELSEWHERE if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    rules = ctypes.create_string_buffer(struct.pack("Q", rights), 8)
    ruleset = libc.syscall(_CREATE, rules, 8, 0)
    if ruleset < 0:
        return False
    below = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    # /dev/null is written by libraries that mean no harm.
    nothing = os.open("/dev/null", os.O_PATH | os.O_CLOEXEC)
    try:
        for place, allowed in ((below, rights), (nothing, rights & (1 << 1 | _TRUNCATE))):
            rule = ctypes.create_string_buffer(struct.pack("=Qi", allowed, place), 12)
            if libc.syscall(_ADD, ruleset, _BELOW_PATH, rule, 0):
                return False
        return bool(libc.syscall(_RESTRICT, ruleset, 0) == 0)
    finally:
        for file in (below, nothing, ruleset):
            os.close(file)
