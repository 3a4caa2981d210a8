"""The tests' own small clients: V2 over HTTP as JSON and binary, raw sockets, and `/metrics`.

Written from the protocol, not with flyball's client, so that both sides cannot share one mistake.
"""

import contextlib
import http.client
import json
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.onnx_models import Arrays
from tests.support.serving import PATIENCE_S, Server, until

DATATYPES: dict[np.dtype[Any], str] = {
    np.dtype(np.bool_): "BOOL",
    np.dtype(np.uint8): "UINT8",
    np.dtype(np.uint16): "UINT16",
    np.dtype(np.uint32): "UINT32",
    np.dtype(np.uint64): "UINT64",
    np.dtype(np.int8): "INT8",
    np.dtype(np.int16): "INT16",
    np.dtype(np.int32): "INT32",
    np.dtype(np.int64): "INT64",
    np.dtype(np.float16): "FP16",
    np.dtype(np.float32): "FP32",
    np.dtype(np.float64): "FP64",
    np.dtype(object): "BYTES",
}
DTYPES = {name: dtype for dtype, name in DATATYPES.items()}
OUTCOMES = ("answered", "refused", "failed", "abandoned")


@dataclass
class Reply:
    """One HTTP answer, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The text of an error answer; fails where the body has any other shape."""
        assert list(self.json) == ["error"], self.body
        text = self.json["error"]
        assert isinstance(text, str)
        assert text
        return text


class Http:
    """One keep-alive connection."""

    def __init__(self, server: Server, timeout_s: float = PATIENCE_S) -> None:
        self.connection = http.client.HTTPConnection(server.host, server.port, timeout=timeout_s)

    def __enter__(self) -> "Http":
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def request(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Reply:
        self.connection.request(method, path, body, headers or {})
        answer = self.connection.getresponse()
        return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())

    def get(self, path: str) -> Reply:
        return self.request("GET", path)

    def post(self, path: str, body: bytes | dict[str, Any], **headers: str) -> Reply:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", path, content, {"Content-Type": "application/json", **headers})

    def infer(self, model: str, inputs: Arrays) -> Arrays:
        """An answer over V2 JSON, as arrays."""
        reply = self.post(infer_path(model), json_request(inputs))
        assert reply.status == 200, (reply.status, reply.body)
        return from_json(reply.json["outputs"])

    def infer_binary(self, model: str, inputs: Arrays) -> Arrays:
        """An answer over the binary tensor extension, both ways."""
        body, length = binary_request(inputs)
        headers = {"Inference-Header-Content-Length": str(length), "Content-Type": "application/octet-stream"}
        reply = self.request("POST", infer_path(model), body, headers)
        assert reply.status == 200, (reply.status, reply.body)
        return from_binary(reply)


def infer_path(model: str) -> str:
    return f"/v2/models/{model}/infer"


def tensor(name: str, array: NDArray[Any]) -> dict[str, Any]:
    """A V2 JSON tensor, flat."""
    return {
        "name": name,
        "shape": list(array.shape),
        "datatype": DATATYPES[array.dtype],
        "data": array.ravel().tolist(),
    }


def json_request(inputs: Arrays, **more: Any) -> dict[str, Any]:
    return {"inputs": [tensor(name, array) for name, array in inputs.items()], **more}


def from_json(outputs: Iterable[dict[str, Any]]) -> Arrays:
    return {o["name"]: np.array(o["data"], DTYPES[o["datatype"]]).reshape(o["shape"]) for o in outputs}


def to_bytes(array: NDArray[Any]) -> bytes:
    """Little-endian elements; strings with a four-byte length each."""
    if array.dtype == object:
        encoded = [element.encode() for element in array.ravel()]
        return b"".join(struct.pack("<I", len(element)) + element for element in encoded)
    return array.tobytes()


def from_bytes(raw: bytes, datatype: str, shape: list[int]) -> NDArray[Any]:
    if datatype != "BYTES":
        return np.frombuffer(raw, DTYPES[datatype]).reshape(shape)
    elements, at = [], 0
    while at < len(raw):
        (size,) = struct.unpack_from("<I", raw, at)
        elements.append(raw[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return np.array(elements, object).reshape(shape)


def binary_request(inputs: Arrays) -> tuple[bytes, int]:
    """A body of the binary tensor extension, and the length of its JSON part."""
    raw = {name: to_bytes(array) for name, array in inputs.items()}
    header = {
        "inputs": [
            {
                "name": name,
                "shape": list(array.shape),
                "datatype": DATATYPES[array.dtype],
                "parameters": {"binary_data_size": len(raw[name])},
            }
            for name, array in inputs.items()
        ],
        "parameters": {"binary_data_output": True},
    }
    text = json.dumps(header).encode()
    return text + b"".join(raw.values()), len(text)


def from_binary(reply: Reply) -> Arrays:
    at = int(reply.headers["inference-header-content-length"])
    answer: Arrays = {}
    for output in json.loads(reply.body[:at])["outputs"]:
        size = output["parameters"]["binary_data_size"]
        answer[output["name"]] = from_bytes(reply.body[at : at + size], output["datatype"], output["shape"])
        at += size
    assert at == len(reply.body), "bytes are left over after the last tensor"
    return answer


def assert_same(got: Arrays, wanted: Arrays) -> None:
    """Equal names, types, shapes and bits."""
    assert got.keys() == wanted.keys()
    for name, array in wanted.items():
        assert got[name].dtype == array.dtype, name
        assert got[name].shape == array.shape, name
        assert to_bytes(got[name]) == to_bytes(array), name


class Raw:
    """A socket for requests that no client library would send."""

    def __init__(self, server: Server, timeout_s: float = PATIENCE_S) -> None:
        self.socket = socket.create_connection((server.host, server.port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = b""

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def reply(self) -> Reply | None:
        """The next answer; nothing if the server closed before its first byte. A cut answer is an error."""
        while b"\r\n\r\n" not in self._read:
            if not self._more():
                assert not self._read, f"an answer was cut: {self._read!r}"
                return None
        head, _, self._read = self._read.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:])}
        length = int(headers.get("content-length", 0))
        while len(self._read) < length:
            assert self._more(), f"an answer was cut inside its body: {head!r}"
        body, self._read = self._read[:length], self._read[length:]
        return Reply(int(lines[0].split()[1]), headers, body)

    def read_to_the_end(self) -> bytes:
        """Everything until the server ends the connection; waits for that."""
        while self._more():
            pass
        return self._read

    def _more(self) -> bool:
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            return False
        self._read += data
        return bool(data)


@contextlib.contextmanager
def raws(server: Server, connections: int) -> Iterator[list[Raw]]:
    """Several connections, opened before the first request is sent."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Raw(server)) for _ in range(connections)]


def raw_infer(model: str, inputs: Arrays) -> bytes:
    """The bytes of a good V2 JSON request."""
    return raw_post(model, json.dumps(json_request(inputs)).encode())


def raw_post(model: str, body: bytes, headers: str = "", length: int | None = None) -> bytes:
    """The bytes of a POST; another `length` makes it a lie."""
    length = len(body) if length is None else length
    head = f"POST {infer_path(model)} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{headers}\r\n"
    return head.encode() + body


@dataclass(frozen=True)
class Metrics:
    """One reading of `/metrics`."""

    samples: dict[tuple[str, frozenset[tuple[str, str]]], float] = field(default_factory=dict)

    def sum(self, name: str, **labels: str) -> float:
        """The sum over every sample of that name that has these labels."""
        wanted = set(labels.items())
        return sum(v for (sample, has), v in self.samples.items() if sample == name and wanted <= has)

    def labels(self, name: str, label: str) -> set[str]:
        return {dict(has)[label] for sample, has in self.samples if sample == name and label in dict(has)}

    def outcomes(self) -> dict[str, int]:
        """What was received and how it ended."""
        ended = {outcome: int(self.sum("flyball_requests_total", outcome=outcome)) for outcome in OUTCOMES}
        return {"received": int(self.sum("flyball_received_total")), **ended}


def metrics(server: Server) -> Metrics:
    with Http(server) as connection:
        reply = connection.get("/metrics")
    assert reply.status == 200
    return parse_metrics(reply.body.decode())


def parse_metrics(page: str) -> Metrics:
    samples = {}
    for line in page.splitlines():
        if not line or line.startswith("#"):
            continue
        series, _, number = line.rpartition(" ")
        name, _, rest = series.partition("{")
        pairs = [pair.split("=", 1) for pair in rest.removesuffix("}").split(",") if pair]
        samples[name, frozenset((key, text.strip('"')) for key, text in pairs)] = float(number)
    return Metrics(samples)


def settled(server: Server, received_min: int = 0) -> dict[str, int]:
    """The outcomes once nothing is in flight and they add up; fails if they never do."""

    def probe() -> dict[str, int] | None:
        reading = metrics(server)
        counts = reading.outcomes()
        quiet = reading.sum("flyball_in_flight") == 0 and counts["received"] >= received_min
        return counts if quiet and counts["received"] == sum(counts[o] for o in OUTCOMES) else None

    return until("received == answered + refused + failed + abandoned, nothing in flight", probe)
