"""A real redis-server for tests: on a socket in a folder of its own. Also for tests that kill it and start it again."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

REQUIRED = "FLYBALL_REDIS_REQUIRED"


class RedisServer:
    """Runs until it is killed; what it held is then gone."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            line = "redis-server is missing; get it: apt-get install redis-server"
            assert REQUIRED not in os.environ, line
            pytest.skip(line)
        self._program = program
        self._folder = folder
        self.socket = folder / "redis.sock"
        self.url = f"redis+unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None
        self.run()

    def run(self) -> None:
        """Start it, and wait until it answers."""
        quiet = ["--port", "0", "--save", "", "--appendonly", "no", "--logfile", str(self._folder / "redis.log")]
        place = ["--unixsocket", str(self.socket), "--dir", str(self._folder)]
        self._process = subprocess.Popen([self._program, *quiet, *place], stdout=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while not self._answers():
            assert time.monotonic() < until, "redis-server does not answer"
            time.sleep(0.005)

    def kill(self) -> None:
        """End it without a word to anyone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def hold(self) -> None:
        """It keeps its connections and answers nothing: the slowest that a source can be."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)

    def let_go(self) -> None:
        """It goes on where it was held."""
        assert self._process
        self._process.send_signal(signal.SIGCONT)

    def put(self, key: str, fields: dict[str, Any], *, age_s: float = 0.0) -> None:
        """A record as `flyball features push` writes it, so long ago."""
        record = {"v": 1, "at": int((time.time() - age_s) * 1000), "fields": fields}
        assert self.ask("SET", key, json.dumps(record)) == b"+OK\r\n"

    def ask(self, *words: str) -> bytes:
        """The first bytes of its answer to a command."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(str(self.socket))
            parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
            connection.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
            return connection.recv(65536)

    def _answers(self) -> bool:
        try:
            return self.ask("PING") == b"+PONG\r\n"
        except OSError:
            return False
