"""A real PostgreSQL on a socket in its own folder. Committed data survives a restart."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.parts.here import START_S, program, until
from flyball.bench.process import parents_and_sessions
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

_GET = "apt-get install postgresql"
_PLACES = ("/usr/lib/postgresql", "/usr/pgsql", "/usr/local/pgsql")


class PostgresServer:
    """Runs until it is killed."""

    def __init__(self, folder: Path) -> None:
        initdb, self._program = program("initdb", _GET, places=_PLACES), program("postgres", _GET, places=_PLACES)
        # It refuses to run as root.
        self._user = "postgres" if os.geteuid() == 0 else None
        self._folder, self._data = folder, folder / "data"
        if self._user:
            shutil.chown(folder, self._user)
        self._process: subprocess.Popen[bytes] | None = None
        self._count = 0
        words = ["-D", str(self._data), "-U", "postgres", "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8"]
        made = self._start([initdb, *words], subprocess.PIPE)
        _, said = made.communicate()
        if made.returncode:
            raise FlyballError(f"initdb ended with {made.returncode}: {said.decode()}")
        self.run()

    def run(self) -> None:
        """Start it, and wait until it answers."""
        # Only the machine's own crash would need the disk to be waited for, and nobody here can cause one.
        words = ["-D", str(self._data), "-k", str(self._folder), "-c", "listen_addresses=", "-c", "fsync=off"]
        with (self._folder / "log").open("ab") as log:
            self._process = self._start([self._program, *words], log.fileno())
        until("PostgreSQL answers", self._answers)

    def kill(self) -> None:
        """Kill it and every process that serves a connection of it: nothing is written out first, nobody is told."""
        if self._process is None:
            return
        children = [pid for pid, (parent, _) in parents_and_sessions().items() if parent == self._process.pid]
        self._process.kill()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self._process.wait(START_S)
        self._process = None

    def new_database(self) -> str:
        """The URL of an empty database."""
        self._count += 1
        name = f"test_{os.getpid()}_{self._count}"
        with self.connected() as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"postgresql://postgres@/{name}?host={self._folder}"

    @contextlib.contextmanager
    def connected(self, database: str = "postgres") -> Iterator[psycopg.Connection]:
        """A connection past flyball, each statement by itself."""
        import psycopg

        place = f"host={self._folder} user=postgres dbname={database} connect_timeout=5"
        with psycopg.connect(place, autocommit=True) as connection:
            yield connection

    def _answers(self) -> bool:
        import psycopg

        if self._process is None or self._process.poll() is not None:
            raise FlyballError(f"PostgreSQL ended: {(self._folder / 'log').read_text()[-2000:]}")
        with contextlib.suppress(psycopg.OperationalError), self.connected():
            return True
        return False

    def _start(self, command: list[str], errors: int) -> subprocess.Popen[bytes]:
        groups: list[int] | None = [] if self._user else None
        return subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=errors, user=self._user, group=self._user, extra_groups=groups
        )


@contextlib.contextmanager
def running() -> Iterator[PostgresServer]:
    """A server for a `with` block. Its folder has a short path: a socket's may have 107 letters."""
    with tempfile.TemporaryDirectory(prefix="fb-pg-") as folder:
        server = PostgresServer(Path(folder))
        try:
            yield server
        finally:
            server.kill()
