"""Misbehaving clients in a separate process: idle connections, slow heads, slow bodies, rapid stream resets.

Run:  python -m bench.claims.protocol.crowd KIND HOST:PORT COUNT.  It says `standing` once all are there, goes on until its
stdin ends, and then tells in JSON what it did in how long. Must not know how the server is measured.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from typing import TYPE_CHECKING

from hpack import Encoder

if TYPE_CHECKING:
    from collections.abc import Callable

STEP_S = 0.1
_TURNS = 10  # a slow client sends one byte every tenth step: once a second
_CONNECT_S = 10.0
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_HEADERS, _RST_STREAM, _END_HEADERS, _CANCEL = 1, 3, 4, 8
_RESETS_A_STEP = 100
_HEALTH = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
_HEAD = b"POST /v2/models/fraud/infer HTTP/1.1\r\nHost: localhost\r\n"


class Crowd:
    """So many connections, each opened again whenever the server ends it."""

    opening = b""

    def __init__(self, address: tuple[str, int], count: int) -> None:
        self._address = address
        self._turn = 0
        self.ended = 0  # by the server
        self.sent = 0
        self.connections = [self._open() for _ in range(count)]

    def step(self) -> None:
        """What happens every tenth of a second."""

    def open_now(self) -> int:
        """How many the server has not ended."""
        return sum(not _over(connection) for connection in self.connections)

    def told(self) -> dict[str, int]:
        """What became of it."""
        return {"connections": len(self.connections), "open": self.open_now(), "ended": self.ended, "sent": self.sent}

    def _open(self) -> socket.socket:
        connection = socket.create_connection(self._address, _CONNECT_S)
        connection.sendall(self.opening)
        connection.setblocking(False)
        return connection

    def _send(self, number: int, content: bytes) -> None:
        """Send, on a new connection where the old one is over."""
        try:
            if _over(self.connections[number]):
                self.ended += 1
                self.connections[number].close()
                self.connections[number] = self._open()
            self.connections[number].sendall(content)
        except OSError:  # turned away, or ended meanwhile: tried again at the next step
            return
        self.sent += 1


class Idle(Crowd):
    """Connections that ask nothing; every tenth has asked once and stays."""

    def __init__(self, address: tuple[str, int], count: int) -> None:
        super().__init__(address, count)
        for connection in self.connections[::10]:
            connection.settimeout(_CONNECT_S)
            connection.sendall(_HEALTH)
            connection.recv(4096)
            connection.setblocking(False)
            self.sent += 1


class Slow(Crowd):
    """A byte a second on every connection, never to an end."""

    def step(self) -> None:
        """A tenth of them, each step another."""
        for number in range(self._turn % _TURNS, len(self.connections), _TURNS):
            self._send(number, b"a")
        self._turn += 1


class SlowHeads(Slow):
    """A header that never ends."""

    opening = _HEAD + b"x-slow: "


class SlowBodies(Slow):
    """A body that never comes."""

    opening = _HEAD + b"Content-Type: application/json\r\nContent-Length: 60000\r\n\r\n{"


class Resets(Crowd):
    """Streams of HTTP/2 that are opened and reset at once, many in one write."""

    opening = _PREFACE

    def __init__(self, address: tuple[str, int], count: int) -> None:
        self._streams = [1] * count
        fields = [(":method", "POST"), (":scheme", "http"), (":authority", "localhost"), (":path", "/v2/models/fraud/infer")]
        self._block = Encoder().encode(fields, huffman=False)
        super().__init__(address, count)

    def step(self) -> None:
        """A burst on every connection; on a new one the streams before are left out, as HTTP/2 allows."""
        for number in range(len(self.connections)):
            self._send(number, self._burst(self._streams[number]))
            self._streams[number] += 2 * _RESETS_A_STEP

    def told(self) -> dict[str, int]:
        """What became of it, and how many streams were reset."""
        return {**super().told(), "resets": self.sent * _RESETS_A_STEP}

    def _burst(self, first: int) -> bytes:
        parts = []
        for stream in range(first, first + 2 * _RESETS_A_STEP, 2):
            parts.append(_frame(_HEADERS, _END_HEADERS, stream, self._block))
            parts.append(_frame(_RST_STREAM, 0, stream, _CANCEL.to_bytes(4, "big")))
        return b"".join(parts)


KINDS: dict[str, Callable[[tuple[str, int], int], Crowd]] = {
    "idle": Idle,
    "slow-heads": SlowHeads,
    "slow-bodies": SlowBodies,
    "resets": Resets,
}


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _over(connection: socket.socket) -> bool:
    """Whether the server has ended it; what the server said meanwhile is thrown away."""
    try:
        while connection.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def main() -> int:
    """Stand until stdin ends."""
    kind, where, count = sys.argv[1:]
    host, _, port = where.rpartition(":")
    crowd = KINDS[kind]((host, int(port)), int(count))
    print("standing", flush=True)
    began, steps = time.monotonic(), 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        crowd.step()
        steps += 1
        time.sleep(max(0.0, began + steps * STEP_S - time.monotonic()))
    print(json.dumps({**crowd.told(), "lasted_s": time.monotonic() - began}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
