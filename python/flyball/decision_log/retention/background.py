"""Runs compaction beside a server, in a low-priority child process. Uses only the standard library.

The child runs `flyball decisions compact`; it may be killed at any point. Must not know the log.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from ctypes import CDLL
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Beside busy processes the lowest priority, 19, leaves less than a hundredth of a core: a compaction would take minutes
# for each second of its work, and never end beside a server at its limit. This leaves about a tenth.
_NICE = 10
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}  # libc has no wrapper for it
_IO_PROCESS, _IO_IDLE = 1, 3 << 13
_STOP_S = 5.0


def lower_priority() -> None:
    """Give this process a low CPU priority and the lowest I/O priority."""
    os.nice(_NICE)
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        CDLL(None).syscall(number, _IO_PROCESS, 0, _IO_IDLE)  # a kernel without it changes nothing


def compact_command(journal: Path, keep: str | None) -> list[str]:
    """The child's command line. `--here` makes it do the work itself."""
    command = [sys.executable, "-m", "flyball", "decisions", "compact", "--here", "--journal-folder", str(journal)]
    return [*command, *(["--keep", keep] if keep else [])]


@dataclass
class Schedule:
    """Starts a child periodically, one at a time. `tick` never blocks."""

    command: list[str]
    every_s: float

    def __post_init__(self) -> None:
        self._due = time.monotonic() + self.every_s
        self._child: subprocess.Popen[bytes] | None = None

    def tick(self) -> None:
        """Start a child if it is due. A failed child has logged to stderr; the next one retries."""
        if self._child is not None and self._child.poll() is not None:
            self._child = None
        if self._child is None and time.monotonic() >= self._due:
            self._child = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            self._due = time.monotonic() + self.every_s

    def stop(self) -> None:
        """Stop a running child; the next one continues its work."""
        if self._child is None:
            return
        self._child.send_signal(signal.SIGTERM)
        try:
            self._child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
