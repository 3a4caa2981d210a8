"""A memory cgroup for one server: the kernel kills what exceeds it, as in a container.

Needs the right to make cgroups; without it `Cage.why_not` says so. Must not know what is measured.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

_ROOT = Path("/sys/fs/cgroup")
_EMPTY_WITHIN_S = 5.0


class Cage:
    """A cgroup of this process's with a memory limit, version 1 or 2; leaving removes it."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        first = (_ROOT / "memory").is_dir()
        parent = (_ROOT / "memory" if first else _ROOT) / _own(first=first).lstrip("/")
        self._folder = parent / f"cage-{os.getpid()}-{time.monotonic_ns()}"
        self._limit = "memory.limit_in_bytes" if first else "memory.max"
        self.why_not = self._make()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        deadline = time.monotonic() + _EMPTY_WITHIN_S
        while self._folder.is_dir() and time.monotonic() < deadline:
            with suppress(OSError):
                self._folder.rmdir()
            time.sleep(0.02)

    def command(self, command: list[str]) -> list[str]:
        """The same command, inside; where there is no cage, as it is."""
        if self.why_not:
            return command
        return ["sh", "-c", f'echo $$ > "{self._folder / "cgroup.procs"}" && exec "$@"', "sh", *command]

    def _make(self) -> str:
        try:
            self._folder.mkdir()
            (self._folder / self._limit).write_text(str(self.bytes_max))
        except OSError as error:
            with suppress(OSError):
                self._folder.rmdir()
            return f"no memory cgroup can be made here: {error}"
        return ""


def _own(*, first: bool) -> str:
    """The path of this process's own group; inside a container it may be mounted as the root."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if ("memory" in controllers.split(",")) if first else not controllers:
            return path if (_ROOT / "memory" if first else _ROOT).joinpath(path.lstrip("/")).is_dir() else "/"
    return "/"
