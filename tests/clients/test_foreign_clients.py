"""Clients that others wrote get the answers that onnxruntime in Python gives, bit for bit.

Alone, and while sixteen other connections keep the same model batching.
"""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support.crowd import crowd
from tests.support.onnx_models import Arrays, row
from tests.support.serving import Server
from tests.support.triton_clients import grpc_client, grpc_infer, http_client, http_infer
from tests.support.wire import Reply, assert_same, binary_request, from_binary, from_json, infer_path, json_request

MODELS = ["linear", "gbdt", "int64", "strings", "fp16", "many", "boolean", "free_axis", "external"]
ROWS = 8
Ask = Callable[[str, Arrays], Arrays]
Reference = Callable[[str, Arrays], Arrays]


def curl(server: Server, path: str, *arguments: str, body: bytes | None = None) -> Reply:
    """Plain curl; the answer's head and body as it printed them."""
    program = shutil.which("curl")
    assert program, "curl is not installed"
    command = [program, "-sS", "-i", "--max-time", "10", *arguments, server.url + path]
    if body is not None:
        command += ["--data-binary", "@-"]
    answer = subprocess.run(command, input=body, capture_output=True, check=True).stdout
    head, _, rest = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {key.lower(): value.strip() for key, value in (line.split(":", 1) for line in lines[1:])}
    return Reply(int(lines[0].split()[1]), headers, rest)


def by_curl(server: Server, model: str, inputs: Arrays) -> Arrays:
    """JSON where JSON can say it; FP16 by the binary extension."""
    if any(array.dtype == np.float16 for array in inputs.values()):
        body, length = binary_request(inputs)
        header = f"Inference-Header-Content-Length: {length}"
        kind = "Content-Type: application/octet-stream"
        return from_binary(curl(server, infer_path(model), "-H", kind, "-H", header, body=body))
    body = json.dumps(json_request(inputs)).encode()
    reply = curl(server, infer_path(model), "-H", "Content-Type: application/json", body=body)
    assert reply.status == 200, reply.body
    return from_json(reply.json["outputs"])


def ask_all(ask: Ask, model: str, reference: Reference) -> None:
    for seed in range(ROWS):
        inputs = row(model, seed)
        assert_same(ask(model, inputs), reference(model, inputs))


@pytest.mark.parametrize("name", MODELS)
def test_tritonclient_http_gets_the_same_bits(house: Server, name: str, reference: Reference) -> None:
    with http_client(house) as client:
        ask_all(lambda asked, inputs: http_infer(client, asked, inputs), name, reference)
        with crowd(house, name, reference):
            ask_all(lambda asked, inputs: http_infer(client, asked, inputs), name, reference)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "fp16"])
def test_tritonclient_http_gets_the_same_bits_as_json(house: Server, name: str, reference: Reference) -> None:
    with http_client(house) as client:
        ask_all(lambda asked, inputs: http_infer(client, asked, inputs, binary=False), name, reference)


@pytest.mark.parametrize("name", MODELS)
def test_tritonclient_grpc_gets_the_same_bits(house: Server, name: str, reference: Reference) -> None:
    with grpc_client(house) as client:
        ask_all(lambda asked, inputs: grpc_infer(client, asked, inputs), name, reference)
        with crowd(house, name, reference):
            ask_all(lambda asked, inputs: grpc_infer(client, asked, inputs), name, reference)


@pytest.mark.parametrize("name", MODELS)
def test_curl_gets_the_same_bits(house: Server, name: str, reference: Reference) -> None:
    ask_all(lambda asked, inputs: by_curl(house, asked, inputs), name, reference)
    with crowd(house, name, reference):
        ask_all(lambda asked, inputs: by_curl(house, asked, inputs), name, reference)


@pytest.mark.parametrize("rows", [1, 3, 64, 65, 200])
def test_a_request_of_many_rows_gets_the_same_bits_as_each_row_alone(house: Server, rows: int, reference: Reference) -> None:
    alone = [row("linear", seed) for seed in range(rows)]
    together = {"x": np.concatenate([inputs["x"] for inputs in alone])}
    wanted = {"y": np.concatenate([reference("linear", inputs)["y"] for inputs in alone])}
    with grpc_client(house) as client:
        assert_same(grpc_infer(client, "linear", together), wanted)
    with http_client(house) as client:
        assert_same(http_infer(client, "linear", together), wanted)


def test_tritonclient_http_reads_health_and_metadata(house: Server) -> None:
    with http_client(house) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("many")
        assert not client.is_model_ready("nobody")
        assert client.get_server_metadata()["name"] == "flyball"
        described = client.get_model_metadata("many")
    assert described["versions"] == ["1"]
    assert [(i["name"], i["datatype"], i["shape"]) for i in described["inputs"]] == [
        ("amounts", "FP32", [-1, 3]),
        ("count", "INT64", [-1, 1]),
        ("known", "BOOL", [-1, 1]),
    ]


def test_tritonclient_grpc_reads_health_and_metadata(house: Server) -> None:
    with grpc_client(house) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("many")
        assert not client.is_model_ready("nobody")
        assert not client.is_model_ready("many", "9")
        assert client.get_server_metadata().name == "flyball"
        described = client.get_model_metadata("many")
    assert list(described.versions) == ["1"]
    assert [(o.name, o.datatype, list(o.shape)) for o in described.outputs] == [
        ("mean", "FP32", [-1, 1]),
        ("alarm", "BOOL", [-1, 1]),
        ("next", "INT64", [-1, 1]),
    ]


def test_curl_reads_health(house: Server) -> None:
    assert curl(house, "/v2/health/live").json == {"live": True}
    assert curl(house, "/v2/health/ready").json == {"ready": True}
    assert curl(house, "/v2/models/linear/ready").json == {"name": "linear", "ready": True}
    assert curl(house, "/v2/models/linear/versions/1/ready").status == 200


def test_curl_speaks_http_2_without_an_upgrade(house: Server, reference: Reference, tmp_path: Path) -> None:
    inputs = row("linear", 1)
    body = json.dumps(json_request(inputs)).encode()
    reply = curl(house, infer_path("linear"), "--http2-prior-knowledge", body=body)
    assert reply.status == 200
    assert_same(from_json(reply.json["outputs"]), reference("linear", inputs))


def test_only_the_outputs_asked_for_come_back_and_the_id_is_echoed(house: Server, reference: Reference) -> None:
    inputs = row("many", 1)
    request = json_request(inputs, id="a-1", outputs=[{"name": "next"}])
    reply = curl(house, infer_path("many"), body=json.dumps(request).encode()).json
    assert reply["id"] == "a-1"
    assert_same(from_json(reply["outputs"]), {"next": reference("many", inputs)["next"]})
