"""gzip and deflate, both ways, over HTTP and gRPC: the same answers, and limits that count what comes out."""

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as triton_http
from tritonclient.grpc import service_pb2

from tests.support import serving, snapshots
from tests.support.onnx_models import Arrays
from tests.support.raw_h2 import INFER, Connection, frame
from tests.support.serving import Server
from tests.support.triton_clients import grpc_client, grpc_infer, http_client
from tests.support.wire import (
    Http,
    assert_same,
    binary_request,
    from_binary,
    from_json,
    infer_path,
    json_request,
    metrics,
    settled,
)

Reference = Callable[[str, Arrays], Arrays]
PACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}
UNPACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "deflate": zlib.decompress}
CODINGS = ["gzip", "deflate"]
MANY = {"x": np.ones((1000, 4), np.float32)}
LIMIT = 65536  # body_bytes_max of `strict`
RESOURCE_EXHAUSTED, UNIMPLEMENTED, INVALID_ARGUMENT = 8, 12, 3


@pytest.mark.parametrize("coding", CODINGS)
def test_json_is_read_and_written_in_a_coding(strict: Server, reference: Reference, coding: str) -> None:
    body = PACK[coding](json.dumps(json_request(MANY)).encode())
    with Http(strict) as connection:
        headers = {"Content-Encoding": coding, "Accept-Encoding": coding}
        reply = connection.request("POST", infer_path("linear"), body, headers)
    assert (reply.status, reply.headers["content-encoding"]) == (200, coding)
    assert reply.headers["vary"] == "Accept-Encoding"
    answer = json.loads(UNPACK[coding](reply.body))
    assert_same(from_json(answer["outputs"]), reference("linear", MANY))


@pytest.mark.parametrize("coding", CODINGS)
def test_the_header_length_of_binary_data_counts_what_is_not_compressed(
    strict: Server, reference: Reference, coding: str
) -> None:
    body, length = binary_request(MANY)
    headers = {"Content-Encoding": coding, "Accept-Encoding": coding, "Inference-Header-Content-Length": str(length)}
    with Http(strict) as connection:
        reply = connection.request("POST", infer_path("linear"), PACK[coding](body), headers)
    assert (reply.status, reply.headers["content-encoding"]) == (200, coding)
    reply.body = UNPACK[coding](reply.body)
    assert_same(from_binary(reply), reference("linear", MANY))


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
@pytest.mark.parametrize("coding", CODINGS)
def test_tritonclient_over_http_compresses_both_ways(
    strict: Server, reference: Reference, coding: str, binary: bool
) -> None:
    tensor = triton_http.InferInput("x", [1000, 4], "FP32")
    tensor.set_data_from_numpy(MANY["x"], binary_data=binary)
    with http_client(strict) as client:
        result = client.infer(
            "linear", [tensor], request_compression_algorithm=coding, response_compression_algorithm=coding
        )
    wanted = reference("linear", MANY)
    assert_same({name: result.as_numpy(name) for name in wanted}, wanted)


@pytest.mark.parametrize("coding", CODINGS)
def test_tritonclient_over_grpc_compresses(strict: Server, reference: Reference, coding: str) -> None:
    with grpc_client(strict) as client:
        answer = grpc_infer(client, "linear", MANY, compression_algorithm=coding)
    assert_same(answer, reference("linear", MANY))


@pytest.mark.parametrize(
    ("accepts", "coding"),
    [
        (None, None),
        ("identity", None),
        ("br", None),
        ("gzip;q=0", None),
        ("gzip;q=0, deflate;q=0.1", "deflate"),
        ("gzip;q=0.2, deflate;q=0.9", "deflate"),
        ("identity;q=1, gzip;q=0.5", None),
        ("*", "gzip"),
    ],
)
def test_accept_encoding_is_honoured_with_its_weights(strict: Server, accepts: str | None, coding: str | None) -> None:
    headers = {"Accept-Encoding": accepts} if accepts else {}
    with Http(strict) as connection:
        connection.connection.putrequest("POST", infer_path("linear"), skip_accept_encoding=True)
        body = json.dumps(json_request(MANY)).encode()
        for name, text in {"Content-Length": str(len(body)), **headers}.items():
            connection.connection.putheader(name, text)
        connection.connection.endheaders(body)
        answer = connection.connection.getresponse()
        answer.read()
    assert (answer.status, answer.getheader("content-encoding")) == (200, coding)


def test_small_answers_and_errors_are_not_compressed(strict: Server) -> None:
    with Http(strict) as connection:
        body = json.dumps(json_request({"x": np.ones((1, 4), np.float32)})).encode()
        headers = {"Accept-Encoding": "gzip"}
        small = connection.request("POST", infer_path("linear"), body, headers)
        refused = connection.request("POST", infer_path("nobody"), body, headers)
        page = connection.request("GET", "/metrics", headers=headers)
    assert (small.status, small.headers.get("content-encoding")) == (200, None)
    assert (refused.status, refused.headers.get("content-encoding")) == (404, None)
    assert (page.status, page.headers["content-encoding"]) == (200, "gzip")
    assert b"flyball_received_total" in gzip.decompress(page.body)


@pytest.mark.parametrize("coding", CODINGS)
def test_a_bomb_is_refused_at_the_limit_over_http(strict: Server, coding: str) -> None:
    before = metrics(strict).sum("flyball_faults_total", kind="body_too_large")
    bomb = PACK[coding](b" " * (40 << 20))
    assert len(bomb) < LIMIT
    with Http(strict) as connection:
        reply = connection.request("POST", infer_path("linear"), bomb, {"Content-Encoding": coding})
        assert reply.status == 413
        assert str(LIMIT) in reply.error
        assert connection.get("/v2/health/live").status == 200
    settled(strict)
    assert metrics(strict).sum("flyball_faults_total", kind="body_too_large") == before + 1


@pytest.mark.parametrize("coding", CODINGS)
def test_a_bomb_is_refused_at_the_limit_over_grpc(strict: Server, coding: str) -> None:
    bomb = frame(PACK[coding](bytes(40 << 20)), compressed=1)
    with Connection(strict) as connection:
        answer = connection.call(bomb, INFER, grpc_encoding=coding)
    assert (answer.status, str(LIMIT) in answer.message) == (RESOURCE_EXHAUSTED, True)


def request(rows: int = 1) -> bytes:
    tensor = {"name": "x", "datatype": "FP32", "shape": [rows, 4]}
    message = service_pb2.ModelInferRequest(model_name="linear", inputs=[tensor])
    message.raw_input_contents.append(bytes(16 * rows))
    return bytes(message.SerializeToString())


@pytest.mark.parametrize("coding", CODINGS)
def test_calls_and_streams_take_compressed_and_plain_messages(strict: Server, coding: str) -> None:
    packed, plain = frame(PACK[coding](request()), compressed=1), frame(request())
    with Connection(strict) as connection:
        assert connection.call(packed, INFER, grpc_encoding=coding).status == 0
        assert connection.call(plain, INFER, grpc_encoding=coding).status == 0
        stream = INFER.replace("ModelInfer", "ModelStreamInfer")
        answer = connection.call(packed + plain + packed, stream, grpc_encoding=coding)
    assert answer.status == 0
    assert answer.body.count(b"linear") == 3


def test_an_encoding_that_is_not_known_is_unimplemented_and_the_known_ones_are_named(strict: Server) -> None:
    with Connection(strict) as connection:
        answer = connection.call(frame(request(), compressed=1), INFER, grpc_encoding="br")
    assert answer.status == UNIMPLEMENTED
    assert "br" in answer.message
    assert answer.headers["grpc-accept-encoding"] == "identity,gzip,deflate"


def test_a_message_that_is_not_in_its_coding_is_refused(strict: Server) -> None:
    with Connection(strict) as connection:
        answer = connection.call(frame(request(), compressed=1), INFER, grpc_encoding="gzip")
    assert (answer.status, "gzip" in answer.message) == (INVALID_ARGUMENT, True)


@pytest.fixture
def roomy(start: Callable[..., Server], model: Callable[[str], Path], tmp_path: Path) -> Server:
    """A flyballd with the limits that it has by itself."""
    index = snapshots.write(tmp_path, 1, [snapshots.deployment("linear", model("linear"))])
    return start(*serving.flyballd(), "--snapshot", index, "--listen", "127.0.0.1:0")


def test_large_bodies_that_leave_the_lane_come_back_whole(roomy: Server, reference: Reference) -> None:
    rng = np.random.default_rng(7)
    # Few different rows, so that the answer shrinks too, in an order that keeps what is sent beyond the lane's limit.
    rows = rng.integers(0, 100, (64, 4)).astype(np.float32)
    inputs = {"x": rows[rng.integers(0, len(rows), 100_000)]}
    body, length = binary_request(inputs)
    packed = gzip.compress(body, 1)
    assert len(packed) > 65536
    headers = {"Content-Encoding": "gzip", "Accept-Encoding": "gzip", "Inference-Header-Content-Length": str(length)}
    with Http(roomy) as connection:
        reply = connection.request("POST", infer_path("linear"), packed, headers)
    assert (reply.status, reply.headers["content-encoding"]) == (200, "gzip")
    reply.body = gzip.decompress(reply.body)
    assert_same(from_binary(reply), reference("linear", inputs))


@pytest.mark.parametrize("coding", CODINGS)
def test_a_bomb_of_the_largest_size_does_not_grow_the_server_beyond_it(roomy: Server, coding: str) -> None:
    limit = 64 << 20  # body_bytes_max
    packer = zlib.compressobj(9, wbits=31 if coding == "gzip" else 15)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(256)) + packer.flush()  # four times the limit
    with Http(roomy, timeout_s=25) as connection:
        connection.get("/v2/health/live")
        before = peak_bytes(roomy)
        reply = connection.request("POST", infer_path("linear"), bomb, {"Content-Encoding": coding})
    assert (reply.status, str(limit) in reply.error) == (413, True)
    assert peak_bytes(roomy) - before < limit * 1.25


def peak_bytes(server: Server) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
