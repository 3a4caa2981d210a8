"""gRPC calls built frame by frame, for bodies that no gRPC library sends."""

import socket
import struct
from collections import defaultdict
from dataclasses import dataclass, field
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.events

from tests.support.serving import PATIENCE_S, Server

INFER = "/inference.GRPCInferenceService/ModelInfer"


@dataclass
class Answer:
    """What came back on one stream: headers and trailers together, and the bytes between them."""

    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    reset: bool = False

    @property
    def status(self) -> int | None:
        """The gRPC status, wherever the server put it."""
        return int(self.headers["grpc-status"]) if "grpc-status" in self.headers else None

    @property
    def message(self) -> str:
        return unquote(self.headers.get("grpc-message", ""))


def frame(message: bytes, compressed: int = 0, length: int | None = None) -> bytes:
    """A length-prefixed gRPC message; another `length` makes the prefix a lie."""
    return struct.pack(">BI", compressed, len(message) if length is None else length) + message


class Connection:
    """One HTTP/2 connection, without TLS and without an upgrade."""

    def __init__(self, server: Server, timeout_s: float = PATIENCE_S) -> None:
        self.server = server
        self.socket = socket.create_connection((server.host, server.port), timeout_s)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.flush()
        self._answers: dict[int, Answer] = defaultdict(Answer)
        self._ended: set[int] = set()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def flush(self) -> None:
        self.socket.sendall(self.h2.data_to_send())

    def open(self, path: str = INFER, **headers: str) -> int:
        """Sends the head of a call; gives its stream."""
        stream = self.h2.get_next_available_stream_id()
        fields = {":method": "POST", ":scheme": "http", ":authority": self.server.address, ":path": path}
        fields |= {"content-type": "application/grpc", "te": "trailers"}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        self.h2.send_headers(stream, list(fields.items()))
        self.flush()
        return stream

    def send(self, stream: int, body: bytes, *, end: bool = True) -> None:
        """Sends a body in pieces that fit the peer's frame and window sizes."""
        while body:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if room == 0:
                assert self._read(), "the server closed while a body was sent"
                continue
            self.h2.send_data(stream, body[:room])
            body = body[room:]
        if end:
            self.h2.end_stream(stream)
        self.flush()

    def reset(self, stream: int) -> None:
        self.h2.reset_stream(stream)
        self.flush()

    def answer(self, stream: int) -> Answer:
        """Reads until the stream ends, or the server closes the connection."""
        while stream not in self._ended and self._read():
            pass
        return self._answers[stream]

    def call(self, body: bytes, path: str = INFER, **headers: str) -> Answer:
        stream = self.open(path, **headers)
        self.send(stream, body)
        return self.answer(stream)

    def _read(self) -> bool:
        """Takes what the server sent, for every stream; false once the connection is over."""
        data = self.socket.recv(65536)
        if not data:
            return False
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.ConnectionTerminated):
                return False
            if isinstance(event, h2.events.ResponseReceived | h2.events.TrailersReceived):
                self._answers[event.stream_id].headers |= dict(event.headers)
            elif isinstance(event, h2.events.DataReceived):
                self._answers[event.stream_id].body += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamReset):
                self._answers[event.stream_id].reset = True
                self._ended.add(event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self._ended.add(event.stream_id)
        self.flush()
        return True
