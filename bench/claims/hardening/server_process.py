"""Starts a build's server and reads its port from the ready line. Imports nothing of `flyball`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_READY_S, _STOP_S = 60.0, 20.0
_READY = re.compile(r"^ready (?:https?://)?[^\s/]*:(\d+)", re.MULTILINE)


class ServerProcess:
    """A server that is ready. Leaving its `with` kills it."""

    def __init__(self, command: list[str], folder: Path, env: Mapping[str, str] | None = None, *, umask: int = -1) -> None:
        self._log = folder / f"server-{time.monotonic_ns()}.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **(env or {})},
                umask=umask,
            )  # fmt: skip
        try:
            self.port = self._wait_ready()
        except BaseException:
            self.kill()
            raise
        self.url = f"http://127.0.0.1:{self.port}"

    def log(self) -> str:
        """Its output so far."""
        return self._log.read_text(errors="replace")

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def stop(self) -> None:
        """Terminate it and wait; it is killed if it does not end."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill it and wait."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _wait_ready(self) -> int:
        deadline = time.monotonic() + _READY_S
        while time.monotonic() < deadline:
            if found := _READY.search(self.log()):
                return int(found[1])
            if not self.alive:
                break
            time.sleep(0.02)
        raise RuntimeError(f"the server did not become ready: {self.log()[-500:]}")
