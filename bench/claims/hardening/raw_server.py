"""What attempts at connections, processes, files and output share: a model, a server, raw sockets and HTTP/2 frames."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.claims.hardening.attempts import Build

START_S = 60.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


def model(path: Path, *, beside: str | None = None) -> Path:
    """A linear model of four inputs; `beside` names a file in which its weights lie."""
    import onnx
    from onnx import TensorProto, helper

    values = [1.0, 2.0, 3.0, 4.0]
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 1], values)
    if beside:
        weights = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 1])
        weights.data_location = TensorProto.EXTERNAL
        for key, value in (("location", beside), ("offset", "0"), ("length", "16")):
            weights.external_data.add(key=key, value=value)
    row = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    score = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [row], [score], [weights])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made.SerializeToString())
    return path


class Server:
    """A server that was started by a build's command; its address comes from the ready line."""

    def __init__(self, command: list[str], folder: Path, env: dict[str, str] | None = None) -> None:
        self._log = (folder / f"log-{time.monotonic_ns()}").open("w+")
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=self._log, text=True, env={**os.environ, **(env or {})}
        )
        self.port = 0
        reader = threading.Thread(target=self._read, daemon=True)
        reader.start()
        reader.join(START_S)
        if not self.port:
            self.end()
            raise RuntimeError(f"{command[0]} did not get ready: {self.log()[-300:]}")

    def _read(self) -> None:
        for line in self.process.stdout or ():
            if found := re.match(r"ready https?://[^ ]*:(\d+)", line):
                self.port = int(found[1])
                return

    def log(self) -> str:
        """What it wrote to stderr so far."""
        return Path(self._log.name).read_text(errors="replace")

    def connect(self, timeout_s: float = 10.0) -> socket.socket:
        """A new connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout_s)

    def ask(self, request: bytes, timeout_s: float = 10.0) -> bytes:
        """What comes back for these bytes until the server ends the connection or says no more."""
        with self.connect(timeout_s) as connection:
            connection.sendall(request)
            return read_all(connection)

    def lives(self) -> bool:
        """Whether a new connection is answered."""
        with contextlib.suppress(OSError):
            return b" 200 " in self.ask(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return False

    def memory_bytes(self) -> int:
        """Its resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) * 1024

    def end(self) -> None:
        """Ends it in any case."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._log.close()


def read_all(connection: socket.socket) -> bytes:
    """Everything until the other side ends, resets, or is silent for as long as the socket waits."""
    got = b""
    with contextlib.suppress(OSError):
        while more := connection.recv(65536):
            got += more
    return got


@contextlib.contextmanager
def serving(build: Build, folder: Path, env: dict[str, str] | None = None, **settings: Any) -> Iterator[Server]:
    """`flyball serve` with one model and these settings."""
    path = model(folder / "m.onnx")
    config = folder / "config.json"
    config.write_text(json.dumps(settings))
    command = [build.flyball, "serve", str(path), "--listen", "127.0.0.1:0", "--config", str(config)]
    server = Server(command, folder, env)
    try:
        yield server
    finally:
        server.end()


def run(command: list[str], folder: Path, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself; one that does not is killed, and has the code 124."""
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no end within {timeout_s:.0f} s")


def waited(done: Callable[[], bool], timeout_s: float) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if done():
            return True
        time.sleep(0.05)
    return done()


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """An HTTP/2 frame."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def head(path: str, method: str = "POST") -> bytes:
    """A block of HTTP/2 headers, written without a table."""
    block = b""
    for name, value in ((":method", method), (":scheme", "http"), (":authority", "localhost"), (":path", path)):
        block += bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
    return block


def frames(connection: socket.socket, until: Callable[[int, int, bytes], bool]) -> list[tuple[int, int, bytes]]:
    """Frames (kind, stream, payload) until one is what is waited for, or the connection ends or is silent."""
    got, buffer = [], b""
    with contextlib.suppress(OSError):
        while True:
            while len(buffer) >= 9 and len(buffer) >= 9 + int.from_bytes(buffer[:3], "big"):
                length = int.from_bytes(buffer[:3], "big")
                one = (buffer[3], int.from_bytes(buffer[5:9], "big"), buffer[9 : 9 + length])
                buffer = buffer[9 + length :]
                got.append(one)
                if until(*one):
                    return got
            more = connection.recv(65536)
            if not more:
                return got
            buffer += more
    return got
