"""Runs what is not urgent beside a server: a child process that gives way to everything else. Needs nothing but Python.

The child is this very Python with `flyball decisions compact`; it may be killed at any point. Must not know the log.
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

_NICE = 19
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}  # the C library has no name for it
_IO_PROCESS, _IO_IDLE = 1, 3 << 13
_STOP_S = 5.0


def give_way() -> None:
    """This process takes only the time and the disk that nobody else wants."""
    os.nice(_NICE)
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        CDLL(None).syscall(number, _IO_PROCESS, 0, _IO_IDLE)  # a kernel that does not know it leaves things as they are


def compact_command(journal: Path, keep: str | None) -> list[str]:
    """The child's command line. `--here` is what makes it do the work itself."""
    command = [sys.executable, "-m", "flyball", "decisions", "compact", "--here", "--journal", str(journal)]
    return [*command, *(["--keep", keep] if keep else [])]


@dataclass
class Schedule:
    """Starts a child every so often, one at a time. `tick` never waits."""

    command: list[str]
    every_s: float

    def __post_init__(self) -> None:
        self._due = time.monotonic() + self.every_s
        self._child: subprocess.Popen[bytes] | None = None

    def tick(self) -> None:
        """Looks whether it is time. A child that failed has said why on stderr; the next one tries again."""
        if self._child is not None and self._child.poll() is not None:
            self._child = None
        if self._child is None and time.monotonic() >= self._due:
            self._child = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            self._due = time.monotonic() + self.every_s

    def stop(self) -> None:
        """Ends a child that is at work; the next one goes on from there."""
        if self._child is None:
            return
        self._child.send_signal(signal.SIGTERM)
        try:
            self._child.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
