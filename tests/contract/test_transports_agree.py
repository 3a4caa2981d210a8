"""One contract, every transport: the same cases over REST JSON, REST binary and gRPC give the same answers and faults.

A transport that is added later joins by one function in `TRANSPORTS`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from models import Arrays, row
from serving import Server
from triton import grpc_client
from tritonclient.utils import InferenceServerException, np_to_triton_dtype
from wire import Http, Reply, assert_same, binary_request, from_binary, from_json, json_request

# The one table of crates/core/src/fault.rs, as far as these cases reach.
GRPC_OF_HTTP = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    422: "FAILED_PRECONDITION",
    500: "INTERNAL",
    504: "DEADLINE_EXCEEDED",
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
    def path(self) -> str:
        version = f"/versions/{self.version}" if self.version else ""
        return f"/v2/models/{self.model}{version}/infer"


@dataclass(frozen=True)
class Got:
    """What came back: arrays, or the gRPC name of the status and its text."""

    outputs: Arrays = field(default_factory=dict)
    id: str = ""
    model: tuple[str, str] = ("", "")
    fault: tuple[str, str] | None = None


def refusal(reply: Reply) -> Got:
    return Got(fault=(GRPC_OF_HTTP[reply.status], reply.error))


def by_json(server: Server, ask: Ask) -> Got:
    more: dict[str, Any] = {"id": ask.id}
    if ask.parameters:
        more["parameters"] = ask.parameters
    if ask.outputs:
        more["outputs"] = [{"name": name} for name in ask.outputs]
    with Http(server) as connection:
        reply = connection.post(ask.path, json_request(ask.inputs, **more))
    if reply.status != 200:
        return refusal(reply)
    answer = reply.json
    return Got(from_json(answer["outputs"]), answer["id"], (answer["model_name"], answer["model_version"]))


def by_binary(server: Server, ask: Ask) -> Got:
    body, length = binary_request(ask.inputs)
    head = {**json.loads(body[:length]), "id": ask.id}
    head["parameters"] |= ask.parameters
    if ask.outputs:
        head["outputs"] = [{"name": name, "parameters": {"binary_data": True}} for name in ask.outputs]
    text = json.dumps(head).encode()
    with Http(server) as connection:
        headers = {"Inference-Header-Content-Length": str(len(text))}
        reply = connection.request("POST", ask.path, text + body[length:], headers)
    if reply.status != 200:
        return refusal(reply)
    answer = json.loads(reply.body[: int(reply.headers["inference-header-content-length"])])
    return Got(from_binary(reply), answer["id"], (answer["model_name"], answer["model_version"]))


def by_grpc(server: Server, ask: Ask) -> Got:
    tensors = []
    for name, array in ask.inputs.items():
        tensors.append(triton_grpc.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype)))
        tensors[-1].set_data_from_numpy(array)
    outputs = [triton_grpc.InferRequestedOutput(name) for name in ask.outputs] or None
    with grpc_client(server) as client:
        try:
            result = client.infer(
                ask.model, tensors, ask.version, outputs=outputs, request_id=ask.id,
                timeout=ask.timeout_us or None, priority=ask.priority,
            )  # fmt: skip
        except InferenceServerException as refused:
            return Got(fault=(str(refused.status()).removeprefix("StatusCode."), refused.message()))
    response = result.get_response()
    arrays = {output.name: result.as_numpy(output.name) for output in response.outputs}
    for name, array in arrays.items():
        if array.dtype == np.object_:
            arrays[name] = np.array([element.decode() for element in array.ravel()], object).reshape(array.shape)
    return Got(arrays, response.id, (response.model_name, response.model_version))


TRANSPORTS: dict[str, Callable[[Server, Ask], Got]] = {"json": by_json, "binary": by_binary, "grpc": by_grpc}


def rows(model: str, count: int) -> Arrays:
    each = [row(model, seed) for seed in range(count)]
    return {name: np.concatenate([inputs[name] for inputs in each]) for name in each[0]}


ANSWERS = {
    "one float row": Ask("linear", row("linear", 1)),
    "many float rows": Ask("linear", rows("linear", 17)),
    "trees": Ask("gbdt", rows("gbdt", 5)),
    "whole numbers": Ask("int64", rows("int64", 3)),
    "strings": Ask("strings", rows("strings", 9)),
    "booleans": Ask("boolean", rows("boolean", 4)),
    "three inputs of three types": Ask("many", rows("many", 6)),
    "some outputs, in another order": Ask("many", rows("many", 2), outputs=("next", "mean")),
    "a version by number": Ask("linear", row("linear", 2), version="1"),
    "no batch axis": Ask("fixed_batch", row("fixed_batch", 1)),
    "a loop": Ask("looped", row("looped", 1)),
    "a deadline that can be kept": Ask("slow", row("slow", 1), timeout_us=20_000_000),
    "a high priority": Ask("linear", row("linear", 3), priority=1),
    "a low priority and a deadline": Ask("linear", row("linear", 4), timeout_us=20_000_000, priority=7),
}


@pytest.mark.parametrize("ask", ANSWERS.values(), ids=ANSWERS.keys())
def test_every_transport_gives_the_same_answer(house: Server, reference: Callable[[str, Arrays], Arrays], ask: Ask) -> None:
    wanted = reference(ask.model, ask.inputs)
    for name, transport in TRANSPORTS.items():
        got = transport(house, ask)
        assert got.fault is None, (name, got.fault)
        assert_same(got.outputs, {output: wanted[output] for output in ask.outputs or wanted})
        assert list(got.outputs) == list(ask.outputs or wanted), name
        assert (got.id, got.model) == (ask.id, (ask.model, "1")), name


@pytest.mark.parametrize("transport", ["binary", "grpc"])
def test_half_precision_travels_where_bytes_do(
    house: Server, reference: Callable[[str, Arrays], Arrays], transport: str
) -> None:
    ask = Ask("fp16", rows("fp16", 3))
    assert_same(TRANSPORTS[transport](house, ask).outputs, reference("fp16", ask.inputs))


@pytest.mark.parametrize("transport", ["binary", "grpc"])
def test_an_infinity_travels_where_bytes_do(
    house: Server, reference: Callable[[str, Arrays], Arrays], transport: str
) -> None:
    ask = Ask("infinite", {"x": np.zeros((1, 1), np.float32)})
    assert_same(TRANSPORTS[transport](house, ask).outputs, reference("infinite", ask.inputs))


ONE = np.ones((1, 4), np.float32)
FAULTS = {
    "wrong datatype": ("INVALID_ARGUMENT", Ask("linear", {"x": ONE.astype(np.int64)})),
    "wrong shape": ("INVALID_ARGUMENT", Ask("linear", {"x": np.ones((1, 5), np.float32)})),
    "wrong rank": ("INVALID_ARGUMENT", Ask("linear", {"x": np.ones(4, np.float32)})),
    "no rows": ("INVALID_ARGUMENT", Ask("linear", {"x": np.ones((0, 4), np.float32)})),
    "unknown input": ("INVALID_ARGUMENT", Ask("linear", {"z": ONE})),
    "one input too many": ("INVALID_ARGUMENT", Ask("linear", {"x": ONE, "z": ONE})),
    "missing input": ("INVALID_ARGUMENT", Ask("many", {"amounts": np.ones((1, 3), np.float32)})),
    "inputs of different row counts": (
        "INVALID_ARGUMENT",
        Ask("many", {**rows("many", 2), "count": np.ones((1, 1), np.int64)}),
    ),
    "two rows where one is taken": ("INVALID_ARGUMENT", Ask("fixed_batch", {"x": np.ones((2, 4), np.float32)})),
    "unknown output": ("INVALID_ARGUMENT", Ask("linear", {"x": ONE}, outputs=("q",))),
    "unknown model": ("NOT_FOUND", Ask("nobody", {"x": ONE})),
    "unknown version": ("NOT_FOUND", Ask("linear", {"x": ONE}, version="9")),
    "a deadline that is over": ("DEADLINE_EXCEEDED", Ask("linear", {"x": ONE}, timeout_us=1)),
    "a run that fails": ("INTERNAL", Ask("gather", {"x": np.array([[99]], np.int64)})),
}


@pytest.mark.parametrize(("status", "ask"), FAULTS.values(), ids=FAULTS.keys())
def test_every_transport_gives_the_same_fault_and_the_same_words(house: Server, status: str, ask: Ask) -> None:
    faults = {name: transport(house, ask).fault for name, transport in TRANSPORTS.items()}
    assert {fault and fault[0] for fault in faults.values()} == {status}, faults
    assert len(set(faults.values())) == 1, faults
