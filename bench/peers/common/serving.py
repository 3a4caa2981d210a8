"""Shared by the peers' serve.py: arguments, a port, and the ready line.

Standard library only: it is imported in every peer's own environment, before anything heavy.
"""

from __future__ import annotations

import argparse
import http.client
import os
import socket
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

_POLL_S = 0.01  # a cold start is measured until the ready line


UVICORN: dict[str, Any] = {
    "factory": True,
    "host": "127.0.0.1",
    "loop": "uvloop",
    "http": "httptools",
    "proxy_headers": False,
    "server_header": False,
    "date_header": False,
    "log_level": "warning",
    "access_log": False,
}
"""How those of uvicorn start it, besides port and workers."""


@dataclass(frozen=True)
class Serving:
    """What to serve, where, and with how much."""

    name: str
    model: str
    port: int
    workers: int
    max_batch: int | None
    grpc: bool = False
    style: str = ""
    delay_us: int = 0

    @property
    def ports(self) -> tuple[int, int]:
        """HTTP's and gRPC's; the one that was asked for is for the protocol that was asked for."""
        other = free_port()
        return (other, self.port) if self.grpc else (self.port, other)

    def scratch(self) -> Path:
        """A folder for configuration files, inside the one that the runner made and removes."""
        return Path(tempfile.mkdtemp())


def arguments() -> Serving:
    """Parse the command line of a serve.py; port 0 means any free port."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", help="NAME=MODEL.onnx")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--max-batch", type=int, help="requests in a batch, 1 for no batching; otherwise the peer's best")
    parser.add_argument("--delay-us", type=int, default=0, help="how long a batch may wait for more, for those who have it")
    parser.add_argument("--style", default="", help="how the peer is written, for those who have several ways")
    parser.add_argument("--grpc", action="store_true", help="the port is for gRPC, for those who have it")
    given = parser.parse_args()
    name, _, path = given.model.partition("=")
    return Serving(
        name,
        str(Path(path).resolve()),
        given.port or free_port(),
        given.workers,
        given.max_batch,
        given.grpc,
        given.style,
        given.delay_us,
    )


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def say_ready_when(port: int, path: str, said: int | None = None) -> None:
    """Print `ready http://…` once `GET path` answers 200, whatever becomes of this process's program meanwhile.

    `said` is the port that it prints, where requests are to go to another one.

    A process of its own does it, so that the caller may exec the product's own command and be measured without a wrapper.
    It is no child of the caller (two forks), which might be surprised by a child that it did not start.
    """
    server = os.getpid()
    if os.fork():
        os.wait()
        return
    if os.fork():
        os._exit(0)
    while not _answers(port, path):
        if _ended(server):
            os._exit(1)
        time.sleep(_POLL_S)
    sys.stdout.write(f"ready http://127.0.0.1:{said or port}\n")
    sys.stdout.flush()
    os._exit(0)


def become(program: Path, *words: str) -> NoReturn:
    """Run the product's own command in place of this script."""
    os.execv(program, [program.name, *words])  # noqa: S606 - there is nothing in it for a shell


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _ended(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"  # ended, and whoever started it has not asked yet
