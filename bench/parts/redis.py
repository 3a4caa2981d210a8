"""A real redis-server on a socket in its own folder. Its data is lost when it is killed."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

from bench.parts.here import program, until
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from pathlib import Path

_GET = "apt-get install redis-server"


class RedisServer:
    """Runs until it is killed."""

    def __init__(self, folder: Path) -> None:
        self._program, self._folder = program("redis-server", _GET), folder
        self.socket = folder / "redis.sock"
        self.url = f"redis+unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None
        self.run()

    def run(self) -> None:
        """Start it, and wait until it answers."""
        quiet = ["--port", "0", "--save", "", "--appendonly", "no", "--logfile", str(self._folder / "redis.log")]
        place = ["--unixsocket", str(self.socket), "--dir", str(self._folder)]
        self._process = subprocess.Popen([self._program, *quiet, *place], stdout=subprocess.DEVNULL)
        until("redis-server answers", self._answers)

    def kill(self) -> None:
        """End it without a word to anyone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def hold(self) -> None:
        """It keeps its connections and answers nothing: the slowest that a source can be."""
        self._signal(signal.SIGSTOP)

    def let_go(self) -> None:
        """It goes on where it was held."""
        self._signal(signal.SIGCONT)

    def put(self, key: str, fields: dict[str, Any], *, age_s: float = 0.0) -> None:
        """A record as `flyball features push` writes it, so long ago."""
        record = {"v": 1, "at": int((time.time() - age_s) * 1000), "fields": fields}
        answer = self.ask("SET", key, json.dumps(record))
        if answer != b"+OK\r\n":
            raise FlyballError(f"redis-server refuses a record: {answer!r}")

    def ask(self, *words: str) -> bytes:
        """The first bytes of its answer to a command."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(self.socket))
            parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
            connection.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
            return connection.recv(65536)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _answers(self) -> bool:
        try:
            return self.ask("PING") == b"+PONG\r\n"
        except OSError:
            return False
