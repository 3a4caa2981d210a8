"""A real Redis for the tests: started on a free port, filled, stopped in the middle, killed, and started again.

Speaks RESP by hand, from its description: no client library is shared with the server that is tested.
"""

import json
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import serving
from serving import until

PROGRAM = shutil.which("redis-server") or shutil.which("valkey-server")
needed = pytest.mark.skipif(PROGRAM is None, reason="needs redis-server or valkey-server on the path")


class Redis:
    """One server; `kill` and `start` give another process on the same port, with nothing in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = serving.free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def start(self) -> None:
        assert PROGRAM
        command = [PROGRAM, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(
            [*command, "--dir", str(self.folder), "--daemonize", "no"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until("redis answers", self._answers)

    def put(self, key: str, fields: dict[str, Any], *, age_s: float = 0.0) -> None:
        """A record as `flyball features push` writes it, so long ago."""
        record = {"v": 1, "at": int((time.time() - age_s) * 1000), "fields": fields}
        assert self.ask("SET", key, json.dumps(record)) == b"+OK"

    def ask(self, *words: str) -> bytes:
        """The first line of the answer to a command."""
        parts = [word.encode() for word in words]
        body = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(b"*%d\r\n" % len(parts) + body)
            return connection.makefile("rb").readline().rstrip(b"\r\n")

    def hold(self) -> None:
        """It keeps its connections and answers nothing: the slowest that a source can be."""
        assert self.process
        self.process.send_signal(signal.SIGSTOP)

    def let_go(self) -> None:
        assert self.process
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None

    def _answers(self) -> bool:
        try:
            return self.ask("PING") == b"+PONG"
        except OSError:
            return False
