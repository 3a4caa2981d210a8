"""All ways to call the server: encodings (JSON, binary, gRPC's forms, shared memory) over TCP, Unix socket and TLS.

Each tongue takes an `Ask` and gives a `Got`, whatever lies between; a new one joins by a line in its table.
"""

import contextlib
import functools
import http.client
import json
import math
import queue
import socket
import ssl
import struct
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import grpc
import tritonclient.grpc as triton_grpc
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from tests.support.onnx_models import Arrays
from tests.support.wire import (
    DATATYPES,
    DTYPES,
    Http,
    Reply,
    binary_request,
    from_binary,
    from_bytes,
    from_json,
    json_request,
    to_bytes,
)

TIMEOUT_S = 10.0
SPAN = 64 * 1024  # room for one output in shared memory
# The one table of crates/core/src/fault.rs, as far as the cases reach.
GRPC_OF_HTTP = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    422: "FAILED_PRECONDITION",
    500: "INTERNAL",
    504: "DEADLINE_EXCEEDED",
}
# gRPC's own library sends a socket's path as the authority unless it is given one, and a path is none.
NAMED = [("grpc.default_authority", "localhost")]
CONTENTS = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "INT64": "int64_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


@dataclass(frozen=True)
class Ask:
    """What is asked, whatever carries it."""

    model: str
    inputs: Arrays
    version: str = ""
    outputs: tuple[str, ...] = ()
    id: str = "contract-1"
    timeout_us: int = 0
    priority: int = 0

    @property
    def parameters(self) -> dict[str, int]:
        """What the caller asks of the queue, as the V2 protocol says it."""
        asked = {"timeout": self.timeout_us, "priority": self.priority}
        return {name: number for name, number in asked.items() if number}

    @property
    def model_path(self) -> str:
        version = f"/versions/{self.version}" if self.version else ""
        return f"/v2/models/{self.model}{version}"

    @property
    def path(self) -> str:
        return f"{self.model_path}/infer"


@dataclass(frozen=True)
class Got:
    """What came back: arrays, or the gRPC name of the status and its text."""

    outputs: Arrays = field(default_factory=dict)
    id: str = ""
    model: tuple[str, str] = ("", "")
    fault: tuple[str, str] | None = None


@dataclass(frozen=True)
class Open:
    """Where one server can be reached."""

    address: tuple[str, int]
    socket: Path
    tls: tuple[str, int]
    authority: Path


class UnixConnection(http.client.HTTPConnection):
    """http.client through a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(str(self.path))


class Connected(Http):
    """The tests' HTTP client over any connection."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection


@dataclass(frozen=True)
class Door:
    """One way in: an HTTP connection, or the target of a gRPC client and whom it trusts."""

    http: Callable[[], Http]
    target: str
    authority: Path | None = None

    @contextlib.contextmanager
    def client(self) -> Iterator[Any]:
        """Triton's gRPC client."""
        more: dict[str, Any] = {"channel_args": NAMED}
        if self.authority:
            more |= {"ssl": True, "root_certificates": str(self.authority)}
        with triton_grpc.InferenceServerClient(self.target, **more) as client:
            yield client

    def channel(self) -> Any:
        """A gRPC channel, for a `with` block."""
        if self.authority:
            trusted = grpc.ssl_channel_credentials(self.authority.read_bytes())
            return grpc.secure_channel(self.target, trusted, NAMED)
        return grpc.insecure_channel(self.target, NAMED)

    @contextlib.contextmanager
    def stub(self) -> Iterator[Any]:
        """The generated stub."""
        with self.channel() as channel:
            yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def by_tcp(house: Open) -> Door:
    host, port = house.address
    plain = functools.partial(http.client.HTTPConnection, host, port, timeout=TIMEOUT_S)
    return Door(lambda: Connected(plain()), f"{host}:{port}")


def by_unix(house: Open) -> Door:
    return Door(lambda: Connected(UnixConnection(house.socket)), f"unix:{house.socket}")


def by_tls(house: Open) -> Door:
    host, port = house.tls
    trust = ssl.create_default_context(cafile=house.authority)
    secure = functools.partial(http.client.HTTPSConnection, host, port, timeout=TIMEOUT_S, context=trust)
    return Door(lambda: Connected(secure()), f"{host}:{port}", house.authority)


DOORS: dict[str, Callable[[Open], Door]] = {"TCP": by_tcp, "Unix socket": by_unix, "TLS": by_tls}


def refusal(reply: Reply) -> Got:
    return Got(fault=(GRPC_OF_HTTP[reply.status], reply.error))


def as_json(door: Door, ask: Ask) -> Got:
    more: dict[str, Any] = {"id": ask.id}
    if ask.parameters:
        more["parameters"] = ask.parameters
    if ask.outputs:
        more["outputs"] = [{"name": name} for name in ask.outputs]
    with door.http() as connection:
        reply = connection.post(ask.path, json_request(ask.inputs, **more))
    if reply.status != 200:
        return refusal(reply)
    answer = reply.json
    return Got(from_json(answer["outputs"]), answer["id"], (answer["model_name"], answer["model_version"]))


def as_binary(door: Door, ask: Ask) -> Got:
    body, length = binary_request(ask.inputs)
    head = {**json.loads(body[:length]), "id": ask.id}
    head["parameters"] |= ask.parameters
    if ask.outputs:
        head["outputs"] = [{"name": name, "parameters": {"binary_data": True}} for name in ask.outputs]
    text = json.dumps(head).encode()
    with door.http() as connection:
        headers = {"Inference-Header-Content-Length": str(len(text))}
        reply = connection.request("POST", ask.path, text + body[length:], headers)
    if reply.status != 200:
        return refusal(reply)
    answer = json.loads(reply.body[: int(reply.headers["inference-header-content-length"])])
    return Got(from_binary(reply), answer["id"], (answer["model_name"], answer["model_version"]))


def _message(ask: Ask) -> Any:
    """The request without its tensors' values."""
    message = service_pb2.ModelInferRequest(model_name=ask.model, model_version=ask.version, id=ask.id)
    for name, number in ask.parameters.items():
        message.parameters[name].int64_param = number
    for name, array in ask.inputs.items():
        message.inputs.add(name=name, datatype=DATATYPES[array.dtype], shape=array.shape)
    for name in ask.outputs:
        message.outputs.add(name=name)
    return message


def _called(door: Door, message: Any) -> Any:
    with door.stub() as stub:
        try:
            return stub.ModelInfer(message, timeout=TIMEOUT_S)
        except grpc.RpcError as refused:
            return Got(fault=(refused.code().name, refused.details()))


def _read(answer: Any, raws: list[bytes]) -> Got:
    pairs = zip(answer.outputs, raws, strict=True)
    arrays = {output.name: from_bytes(raw, output.datatype, list(output.shape)) for output, raw in pairs}
    return Got(arrays, answer.id, (answer.model_name, answer.model_version))


def as_contents(door: Door, ask: Ask) -> Got:
    message = _message(ask)
    for tensor, array in zip(message.inputs, ask.inputs.values(), strict=True):
        values = [text.encode() for text in array.ravel()] if array.dtype == object else array.ravel().tolist()
        getattr(tensor.contents, CONTENTS[tensor.datatype]).extend(values)
    answer = _called(door, message)
    return answer if isinstance(answer, Got) else _read(answer, list(answer.raw_output_contents))


def as_raw(door: Door, ask: Ask) -> Got:
    message = _message(ask)
    message.raw_input_contents.extend(to_bytes(array) for array in ask.inputs.values())
    answer = _called(door, message)
    return answer if isinstance(answer, Got) else _read(answer, list(answer.raw_output_contents))


def as_stream(door: Door, ask: Ask) -> Got:
    """Errors in a stream have no status, so a refused request is asked again by one who wants statuses."""
    answer, error = _streamed(door, ask, {})
    if error is None:
        return _read(answer.get_response(), list(answer.get_response().raw_output_contents))
    _, again = _streamed(door, ask, {"triton_grpc_error": "true"})
    assert again.message() == error.message()
    return Got(fault=(str(again.status()).removeprefix("StatusCode."), error.message()))


def _streamed(door: Door, ask: Ask, headers: dict[str, str]) -> tuple[Any, InferenceServerException | Any]:
    came: queue.Queue[tuple[Any, Any]] = queue.Queue()
    tensors = []
    for name, array in ask.inputs.items():
        tensors.append(triton_grpc.InferInput(name, list(array.shape), DATATYPES[array.dtype]))
        tensors[-1].set_data_from_numpy(array)
    outputs = [triton_grpc.InferRequestedOutput(name) for name in ask.outputs] or None
    with door.client() as client:
        client.start_stream(lambda result, error: came.put((result, error)), headers=headers)
        client.async_stream_infer(
            ask.model, tensors, ask.version, outputs=outputs, request_id=ask.id,
            timeout=ask.timeout_us or None, priority=ask.priority,
        )  # fmt: skip
        return came.get(timeout=TIMEOUT_S)


@dataclass(frozen=True)
class Span:
    """Where a tensor lies in a region."""

    region: str
    offset: int
    size: int

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            "shared_memory_region": self.region,
            "shared_memory_offset": self.offset,
            "shared_memory_byte_size": self.size,
        }


class Laid:
    """A region with the inputs of an ask laid into it, and room for its outputs; registered through a door."""

    def __init__(self, door: Door, ask: Ask) -> None:
        self.door, self.ask, self.name = door, ask, f"flyball-test-{uuid.uuid4()}"
        with door.http() as connection:
            described = connection.get(ask.model_path)
        known = [item["name"] for item in described.json["outputs"]] if described.status == 200 else []
        raws = {name: to_bytes(array) for name, array in ask.inputs.items()}
        self.inputs, self.outputs, at = {}, {}, 0
        for name, raw in raws.items():
            self.inputs[name] = Span(self.name, at, len(raw))
            at += len(raw)
        for name in ask.outputs or known:
            self.outputs[name] = Span(self.name, at, SPAN)
            at += SPAN
        self.memory = SharedMemory(self.name, create=True, size=max(at, 1))
        self.memory.buf[: sum(map(len, raws.values()))] = b"".join(raws.values())

    @classmethod
    @contextlib.contextmanager
    def registered(cls, door: Door, ask: Ask) -> Iterator["Laid"]:
        laid = cls(door, ask)
        try:
            laid._post("register", {"key": f"/{laid.name}", "offset": 0, "byte_size": laid.memory.size})
            yield laid
            laid._post("unregister", {})
        finally:
            laid.memory.close()
            laid.memory.unlink()

    def read(self, name: str, datatype: str, shape: list[int]) -> NDArray[Any]:
        span = self.outputs[name]
        raw = bytes(self.memory.buf[span.offset : span.offset + span.size])
        return from_bytes(_trimmed(raw, datatype, math.prod(shape)), datatype, shape)

    def _post(self, verb: str, body: dict[str, Any]) -> None:
        with self.door.http() as connection:
            reply = connection.post(f"/v2/systemsharedmemory/region/{self.name}/{verb}", body)
        assert reply.status == 200, (verb, reply.status, reply.body)


def _trimmed(raw: bytes, datatype: str, count: int) -> bytes:
    """The bytes of so many elements; the rest of a span is not the answer's."""
    if datatype != "BYTES":
        return raw[: count * DTYPES[datatype].itemsize]
    at = 0
    for _ in range(count):
        at += 4 + struct.unpack_from("<I", raw, at)[0]
    return raw[:at]


def as_memory_http(door: Door, ask: Ask) -> Got:
    with Laid.registered(door, ask) as laid, door.http() as connection:
        inputs = [
            {
                "name": name,
                "shape": list(array.shape),
                "datatype": DATATYPES[array.dtype],
                "parameters": laid.inputs[name].parameters,
            }
            for name, array in ask.inputs.items()
        ]
        outputs = [{"name": name, "parameters": span.parameters} for name, span in laid.outputs.items()]
        body = {"id": ask.id, "parameters": ask.parameters, "inputs": inputs, "outputs": outputs}
        reply = connection.post(ask.path, body)
        if reply.status != 200:
            return refusal(reply)
        answer = reply.json
        assert not [output for output in answer["outputs"] if "data" in output]
        arrays = {o["name"]: laid.read(o["name"], o["datatype"], o["shape"]) for o in answer["outputs"]}
    return Got(arrays, answer["id"], (answer["model_name"], answer["model_version"]))


def as_memory_grpc(door: Door, ask: Ask) -> Got:
    with Laid.registered(door, ask) as laid:
        message = _message(ask)
        del message.outputs[:]
        for tensor in message.inputs:
            _lay(tensor, laid.inputs[tensor.name])
        for name, span in laid.outputs.items():
            _lay(message.outputs.add(name=name), span)
        answer = _called(door, message)
        if isinstance(answer, Got):
            return answer
        assert not any(answer.raw_output_contents)
        arrays = {o.name: laid.read(o.name, o.datatype, list(o.shape)) for o in answer.outputs}
    return Got(arrays, answer.id, (answer.model_name, answer.model_version))


def _lay(tensor: Any, span: Span) -> None:
    for name, value in span.parameters.items():
        kind = "string_param" if isinstance(value, str) else "int64_param"
        setattr(tensor.parameters[name], kind, value)


TONGUES: dict[str, Callable[[Door, Ask], Got]] = {
    "REST JSON": as_json,
    "REST binary": as_binary,
    "REST shared memory": as_memory_http,
    "gRPC contents": as_contents,
    "gRPC raw": as_raw,
    "gRPC stream": as_stream,
    "gRPC shared memory": as_memory_grpc,
}
# Half precision has no JSON and no contents: it travels where bytes do.
TEXTUAL = {"FP16": {"REST JSON", "gRPC contents"}}
