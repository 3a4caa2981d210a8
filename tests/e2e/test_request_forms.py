"""The rarer forms of a V2 request: a body without a JSON part, outputs as classes, and what the server does not offer."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from tests.support.onnx_models import Arrays, row
from tests.support.serving import Server
from tests.support.triton_clients import grpc_client, http_client
from tests.support.wire import Http, assert_same, from_binary, infer_path, json_request

Reference = Callable[[str, Arrays], Arrays]
RAW = {"Inference-Header-Content-Length": "0"}


@pytest.mark.parametrize("name", ["linear", "gbdt", "int64", "fp16", "boolean", "fixed_batch", "free_axis"])
def test_a_body_without_a_json_part_is_the_model_s_only_input(house: Server, name: str, reference: Reference) -> None:
    inputs = row(name, 7)
    with Http(house) as connection:
        reply = connection.request("POST", infer_path(name), inputs["x"].tobytes(), RAW)
    assert_same(from_binary(reply), reference(name, inputs))


def test_one_text_may_be_the_whole_body(house: Server, reference: Reference) -> None:
    with Http(house) as connection:
        reply = connection.request("POST", infer_path("strings"), "grün".encode(), RAW)
    assert_same(from_binary(reply), reference("strings", {"x": np.array([["grün"]], dtype=object)}))


@pytest.mark.parametrize(
    ("name", "body", "text"),
    [
        ("many", bytes(12), "but got 3 inputs in 'many'"),
        ("linear", bytes(15), "the body has 15 bytes"),
        ("linear", bytes(32), "not one row of input 'x'"),
        ("boolean", b"\x02\x00\x00", "a BOOL byte is 0 or 1"),
        ("strings", b"\xff", "not UTF-8"),
    ],
)
def test_a_raw_body_that_cannot_be_the_input_is_refused(house: Server, name: str, body: bytes, text: str) -> None:
    with Http(house) as connection:
        reply = connection.request("POST", infer_path(name), body, RAW)
    assert reply.status == 400
    assert text in reply.error


def classes(scores: Any) -> list[list[bytes]]:
    """Of each row every class, the highest score first, as Triton writes them."""
    ordered = [sorted(range(len(row)), key=lambda place, row=row: (-row[place], place)) for row in scores]
    return [[f"{row[place]:.6f}:{place}".encode() for place in places] for row, places in zip(scores, ordered, strict=True)]


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("count", [1, 2, 9])
def test_an_output_comes_as_its_highest_classes_over_http(
    house: Server, reference: Reference, binary: bool, count: int
) -> None:
    inputs = {"x": np.concatenate([row("linear", seed)["x"] for seed in range(3)])}
    tensor = triton_http.InferInput("x", [3, 4], "FP32")
    tensor.set_data_from_numpy(inputs["x"])
    asked = triton_http.InferRequestedOutput("y", binary_data=binary, class_count=count)
    with http_client(house) as client:
        answer = client.infer("linear", [tensor], outputs=[asked]).as_numpy("y")
    texts = [[text if isinstance(text, bytes) else text.encode() for text in row] for row in answer]
    assert texts == [row[:count] for row in classes(reference("linear", inputs)["y"])]


def test_an_output_comes_as_its_highest_classes_over_grpc(house: Server, reference: Reference) -> None:
    inputs = row("linear", 3)
    tensor = triton_grpc.InferInput("x", [1, 4], "FP32")
    tensor.set_data_from_numpy(inputs["x"])
    with grpc_client(house) as client:
        asked = triton_grpc.InferRequestedOutput("y", class_count=2)
        answer = client.infer("linear", [tensor], outputs=[asked]).as_numpy("y")
    assert answer.tolist() == classes(reference("linear", inputs)["y"])


@pytest.mark.parametrize("name", ["fp16", "strings"])
def test_an_output_without_scores_has_no_classes(house: Server, name: str) -> None:
    inputs = row(name, 1)
    tensor = triton_grpc.InferInput("x", list(inputs["x"].shape), np_to_triton_dtype(inputs["x"].dtype))
    tensor.set_data_from_numpy(inputs["x"])
    with grpc_client(house) as client:
        output = client.get_model_metadata(name).outputs[0].name
        asked = triton_grpc.InferRequestedOutput(output, class_count=2)
        with pytest.raises(InferenceServerException, match="class result not available"):
            client.infer(name, [tensor], outputs=[asked])


def test_a_request_in_a_sequence_is_told_that_models_are_stateless(house: Server) -> None:
    body = json_request({"x": np.ones((1, 4), np.float32)}, parameters={"sequence_id": 7, "sequence_start": True})
    with Http(house) as connection:
        reply = connection.post(infer_path("linear"), body)
    assert reply.status == 501
    assert "stateless" in reply.error


def test_shared_memory_is_off_unless_it_is_allowed(house: Server) -> None:
    body = json_request({"x": np.ones((1, 4), np.float32)})
    body["inputs"][0].pop("data")
    body["inputs"][0]["parameters"] = {"shared_memory_region": "r", "shared_memory_byte_size": 16}
    with Http(house) as connection:
        reply = connection.post(infer_path("linear"), body)
    assert reply.status == 501
    assert "--allow-shared-memory" in reply.error
