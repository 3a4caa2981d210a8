"""gRPC frames that no library would send: each gets its documented gRPC status, and its neighbours never notice."""

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from tritonclient.grpc import service_pb2

from tests.support import serving, snapshots
from tests.support.crowd import crowd
from tests.support.onnx_models import Arrays, row
from tests.support.raw_h2 import Connection, frame
from tests.support.serving import Server, until
from tests.support.triton_clients import grpc_client, grpc_infer
from tests.support.wire import Raw, assert_same, metrics, settled

Reference = Callable[[str, Arrays], Arrays]
OK, INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, UNIMPLEMENTED = 0, 3, 5, 8, 12


def message(model: str = "linear", *, raw: int = 16, contents: int = 1, version: str = "") -> bytes:
    """A ModelInferRequest; `raw` bytes for each of `contents` raw entries."""
    tensor = triton_grpc.InferInput("x", [1, 4], "FP32")
    tensor.set_data_from_numpy(np.ones((1, 4), np.float32))
    request = service_pb2.ModelInferRequest(model_name=model, model_version=version, inputs=[tensor._get_tensor()])
    request.raw_input_contents.extend([bytes(raw)] * contents)
    return bytes(request.SerializeToString())


@dataclass
class Case:
    """The body of a call and what must come back."""

    status: int
    text: str
    kind: str | None
    body: bytes
    path: str = "/inference.GRPCInferenceService/ModelInfer"


CASES = {
    "no frame": Case(INVALID_ARGUMENT, "frame", "malformed_request", b""),
    "half a frame's head": Case(INVALID_ARGUMENT, "frame", "malformed_request", b"\x00\x00"),
    "a frame that says more than follows": Case(
        INVALID_ARGUMENT, "1000", "malformed_request", frame(message(), length=1000)
    ),
    "a frame that says less than follows": Case(INVALID_ARGUMENT, "3", "malformed_request", frame(message(), length=3)),
    "two messages in a unary call": Case(INVALID_ARGUMENT, "one message", "malformed_request", frame(message()) * 2),
    "an odd compression flag": Case(INVALID_ARGUMENT, "7", "malformed_request", frame(message(), compressed=7)),
    "a compressed message whose call names no encoding": Case(
        INVALID_ARGUMENT, "grpc-encoding", "malformed_request", frame(gzip.compress(message()), compressed=1)
    ),
    "bytes that are no message": Case(
        INVALID_ARGUMENT, "the message does not decode", "malformed_request", frame(b"\xff" * 50)
    ),
    "a message over the limit": Case(RESOURCE_EXHAUSTED, "65536", "body_too_large", frame(message(raw=100_000))),
    "too few raw bytes": Case(INVALID_ARGUMENT, "x", "malformed_request", frame(message(raw=12))),
    "too many raw entries": Case(INVALID_ARGUMENT, "raw_input_contents", "malformed_request", frame(message(contents=2))),
    "unknown model": Case(NOT_FOUND, "nobody", "model_not_found", frame(message("nobody"))),
    "unknown version": Case(NOT_FOUND, "9", "version_not_found", frame(message(version="9"))),
    "unknown method": Case(UNIMPLEMENTED, "", None, frame(b""), "/inference.GRPCInferenceService/NoSuchMethod"),
    "unknown service": Case(UNIMPLEMENTED, "", None, frame(b""), "/no.such.Service/Method"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_bad_call_gets_its_documented_status(strict: Server, reference: Reference, case: Case) -> None:
    before = metrics(strict).sum("flyball_faults_total", kind=case.kind or "")
    with crowd(strict, "linear", reference, connections=2), Connection(strict) as connection:
        answer = connection.call(case.body, case.path)
        assert answer.headers[":status"] == "200"
        assert answer.status == case.status, answer.headers
        assert case.text in answer.message
        assert connection.call(frame(message())).status == OK  # the connection's other streams go on
    if case.kind:
        kind = case.kind
        until(f"{kind} is counted", lambda: metrics(strict).sum("flyball_faults_total", kind=kind) > before or None)


@pytest.fixture(scope="module")
def roomy(model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A flyballd with the limits that it has by itself: bodies of inference may have 64 MiB."""
    index = snapshots.write(tmp_path_factory.mktemp("roomy"), 1, [snapshots.deployment("linear", model("linear"))])
    with serving.serving([*serving.flyballd(), "--snapshot", str(index), "--listen", "127.0.0.1:0"]) as server:
        yield server


QUESTIONS = [
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    *(
        f"/inference.GRPCInferenceService/{method}"
        for method in ("ServerLive", "ServerReady", "ModelReady", "RepositoryModelLoad", "SystemSharedMemoryRegister")
    ),
]


@pytest.mark.parametrize("path", QUESTIONS)
def test_what_is_no_inference_has_a_small_limit_of_its_own(roomy: Server, path: str) -> None:
    plain = bytes(70_000)
    with Connection(roomy) as connection:
        large = connection.call(frame(plain), path)
        bomb = connection.call(frame(gzip.compress(plain), compressed=1), path, grpc_encoding="gzip")
    for answer in (large, bomb):
        assert (answer.status, "65536" in answer.message) == (RESOURCE_EXHAUSTED, True), answer.headers


@pytest.mark.parametrize("method", ["Check", "Watch"])
def test_the_health_of_a_service_with_an_endless_name_is_not_kept(roomy: Server, method: str) -> None:
    with Connection(roomy) as connection:
        answer = connection.call(frame(b"\x0a\x81\x08" + b"a" * 1025), f"/grpc.health.v1.Health/{method}")
    assert (answer.status, "1024" in answer.message) == (RESOURCE_EXHAUSTED, True)


def test_a_model_that_is_not_there_is_not_ready(strict: Server) -> None:
    with grpc_client(strict) as client:
        assert client.is_model_ready("linear")
        assert not client.is_model_ready("nobody")
        assert not client.is_model_ready("linear", "9")


def test_a_stream_that_is_reset_half_way_is_abandoned_and_the_connection_goes_on(strict: Server) -> None:
    before = settled(strict)
    with Connection(strict) as connection:
        stream = connection.open()
        connection.send(stream, frame(message())[:10], end=False)
        until("the head is read", lambda: metrics(strict).outcomes()["received"] == before["received"] + 1 or None)
        connection.reset(stream)
        assert connection.call(frame(message())).status == OK
    until(
        "the reset stream is counted",
        lambda: metrics(strict).outcomes()["abandoned"] == before["abandoned"] + 1 or None,
    )
    settled(strict)


def test_frames_that_break_http_2_end_only_their_own_connection(strict: Server, reference: Reference) -> None:
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    settings = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
    data_on_stream_zero = b"\x00\x00\x01\x00\x00\x00\x00\x00\x00X"
    with crowd(strict, "linear", reference, connections=2), Raw(strict) as raw:
        raw.send(preface + settings + data_on_stream_zero)
        raw.read_to_the_end()


def test_a_deadline_in_the_past_is_refused(strict: Server) -> None:
    with Connection(strict) as connection:
        answer = connection.call(frame(message()), grpc_timeout="1n")
    assert answer.status == 4
    assert "Deadline Exceeded" in answer.message


def test_many_calls_at_once_on_one_connection_are_all_right(strict: Server, reference: Reference) -> None:
    with Connection(strict) as connection:
        streams = [connection.open() for _ in range(32)]
        for stream in streams:
            connection.send(stream, frame(message(raw=16)))
        answers = [connection.answer(stream) for stream in streams]
    assert {answer.status for answer in answers} == {OK}
    assert len({answer.body for answer in answers}) == 1
    with grpc_client(strict) as client:
        inputs = row("linear", 3)
        assert_same(grpc_infer(client, "linear", inputs), reference("linear", inputs))
