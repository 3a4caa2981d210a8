"""A real S3-compatible server: versitygw over its own folder. Acknowledged data survives."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
from typing import TYPE_CHECKING

from bench.parts.here import program, until
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from pathlib import Path

BUCKET, REGION = "artifacts", "us-east-1"
_GET = "go install github.com/versity/versitygw/cmd/versitygw@latest"


class S3Server:
    """Runs until it is killed."""

    def __init__(self, folder: Path) -> None:
        self._program = program("versitygw", _GET, variable="FLYBALL_VERSITYGW")
        self.objects = folder / "objects"
        (self.objects / BUCKET).mkdir(parents=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self._port}"
        self.credentials = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": secrets.token_hex(16)}
        self._log = folder / "versitygw.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.run()

    def run(self) -> None:
        """Start it, and wait until it answers."""
        root = {
            "ROOT_ACCESS_KEY": self.credentials["AWS_ACCESS_KEY_ID"],
            "ROOT_SECRET_KEY": self.credentials["AWS_SECRET_ACCESS_KEY"],
        }
        command = [self._program, "--port", f"127.0.0.1:{self._port}", "posix", str(self.objects)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, env={**os.environ, **root}, stdout=log, stderr=log)
        until("versitygw answers", self._answers)

    def kill(self) -> None:
        """End it without a word to anyone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def file(self, prefix: str, digest: str) -> Path:
        """Where it keeps a blob."""
        return self.objects / BUCKET / prefix / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def _answers(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise FlyballError(f"versitygw ended: {self._log.read_text()[-2000:]}")
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
                return connection.recv(4) == b"HTTP"
        except OSError:
            return False
