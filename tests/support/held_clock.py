"""A server with a virtual clock: runs, deadlines and waits end when the test advances it.

Of servers built with the feature `virtual-time`, as `make test` builds them. Sockets keep the system's time.
"""

import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.parts.here import NotHereError
from flyball.native.machine import build_info
from tests.support.parts import needing


class HeldClock:
    """Time of the server that was started while this was held."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def advance(self, ms: int) -> None:
        """Returns once the server's time has moved."""
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(str(self.path))
            door.sendall(b"%d\n" % ms)
            assert door.recv(16) == b"moved\n"


@contextmanager
def held_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldClock]:
    """For the next server that is started."""
    with needing("virtual-time"):
        if (profile := build_info().profile) != "tested":
            raise NotHereError(f"profile {profile} has no virtual time; build one that has: make PROFILE=tested build")
    # Not below a test's own folder: names of sockets have a hundred characters at most.
    with tempfile.TemporaryDirectory(prefix="clock-") as folder:
        path = Path(folder, "clock")
        monkeypatch.setenv("FLYBALL_HELD_CLOCK", str(path))
        yield HeldClock(path)
