"""A model, a server, raw sockets and HTTP/2 frames, for attempts on connections, processes, files and output."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.claims.hardening.server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.claims.hardening.attempts import Build

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


def model(path: Path, *, beside: str | None = None) -> Path:
    """A linear model of four inputs; `beside` names a file with its weights."""
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


class Server(ServerProcess):
    """A server with raw connections to it."""

    def connect(self, timeout_s: float = 10.0) -> socket.socket:
        """A new connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout_s)

    def ask(self, request: bytes, timeout_s: float = 10.0) -> bytes:
        """The reply to these bytes, until the server closes the connection or times out."""
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


def read_all(connection: socket.socket) -> bytes:
    """Everything until the peer closes, resets, or the socket times out."""
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
    with Server(command, folder, env) as server:
        yield server


def run(command: list[str], folder: Path, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Run a command; one that exceeds the time is killed, with exit code 124."""
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no end within {timeout_s:.0f} s")


def waited(done: Callable[[], bool], timeout_s: float) -> bool:
    """Whether it became true in time."""
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
    """Frames (kind, stream, payload) until the expected one, or until the connection ends or times out."""
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
