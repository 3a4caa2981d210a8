"""Forty tries to bypass a governed model's policy. The server must refuse and count each.

The claim and an end-to-end test run the same list. Imports nothing of `flyball`.
"""

from __future__ import annotations

import gzip
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import httpx
from tritonclient.grpc import service_pb2 as oip

from bench.claims.hardening.governed_server import AMOUNT, DECISION, ID, INPUTS, PLAIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.claims.hardening.governed_server import Server

ALL = ["infer", "decide", "outcome", "override", "erase", "metrics", "control"]
CALLERS: list[dict[str, Any]] = [
    {"name": "full", "may": ALL},
    {"name": "decider", "may": [f"decide:{DECISION}"]},
    {"name": "modeller", "may": [f"infer:{PLAIN}*"]},
    {"name": "idle", "may": []},
]
"""The key of each is its name. `full` may do everything, and still not go around a policy."""

_SERVICE = "/inference.GRPCInferenceService/"
_CALL_S = 20.0
_ROW = struct.pack("<f", AMOUNT)


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of one try."""

    name: str
    refused: bool
    recorded: bool
    told: str


@dataclass(frozen=True, slots=True)
class Try:
    """One way around; `run` gives whether it was refused, and what was said."""

    name: str
    run: Callable[[Server], tuple[bool, str]]


def run_all(server: Server) -> list[Tried]:
    """Every try, in order, with whether the server counted it."""
    done = []
    for one in TRIES:
        before = counted(server)
        refused, told = one.run(server)
        done.append(Tried(one.name, refused, counted(server) > before, told))
    return done


def counted(server: Server) -> float:
    """Refusals that the server's metrics have: of walks, and of all other requests."""
    walks = server.metric("flyball_caller_requests_total", "full", outcome="refused")
    return walks + server.metric("flyball_questions_refused_total", "full")


def _http(
    name: str, path: str, body: object = INPUTS, *, method: str = "POST", key: str | None = "full", **more: str
) -> Try:
    def run(server: Server) -> tuple[bool, str]:
        answer = server.ask(method, path, body, key, **more)
        return answer.status >= 400 and '"outputs"' not in answer.text, f"{answer.status} {answer.text[:120]}"

    return Try(name, run)


def _infer(version: str = "", name: str = DECISION) -> Any:
    tensor = oip.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[1, 1])
    return oip.ModelInferRequest(model_name=name, model_version=version, inputs=[tensor], raw_input_contents=[_ROW])


def _grpc(name: str, method: str, request: Any, key: str = "full") -> Try:
    def run(server: Server) -> tuple[bool, str]:
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            call = channel.unary_unary(
                _SERVICE + method,
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=bytes,
            )
            return _status(lambda: call(request, timeout=_CALL_S, metadata=[("x-api-key", key)]))

    return Try(name, run)


def _status(call: Callable[[], object]) -> tuple[bool, str]:
    try:
        return False, f"OK {call()!r}"[:120]
    except grpc.RpcError as error:
        return True, f"{error.code().name} {error.details()}"[:120]


def _stream(server: Server) -> tuple[bool, str]:
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        call = channel.stream_stream(
            f"{_SERVICE}ModelStreamInfer",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=oip.ModelStreamInferResponse.FromString,
        )
        answers = list(call(iter([_infer()]), timeout=_CALL_S, metadata=[("x-api-key", "full")]))
    refused = all(answer.error_message and not answer.infer_response.outputs for answer in answers)
    told = answers[0].error_message or "OK, with outputs" if answers else "no answer"
    return bool(answers) and refused, told


def _http2(server: Server) -> tuple[bool, str]:
    with httpx.Client(http1=False, http2=True, timeout=_CALL_S) as client:
        answer = client.post(
            f"http://127.0.0.1:{server.port}/v2/models/{DECISION}/infer", json=INPUTS, headers={"x-api-key": "full"}
        )
    return answer.status_code >= 400, f"{answer.http_version} {answer.status_code} {answer.text[:100]}"


def _unix(server: Server) -> tuple[bool, str]:
    answer = server.ask_by_socket("POST", f"/v2/models/{DECISION}/infer", INPUTS, "full")
    return answer.status >= 400, f"{answer.status} {answer.text[:120]}"


def _shared(server: Server, infer: Callable[[Server, str], tuple[bool, str]]) -> tuple[bool, str]:
    """Inputs and outputs in a registered region: nothing may be written to it."""
    name = f"flyball-bypass-{os.getpid()}-{server.port}"
    region = Path("/dev/shm", name)  # noqa: S108 - where POSIX shared memory is
    region.write_bytes(_ROW + bytes(4))
    path = f"/v2/systemsharedmemory/region/{name}"
    try:
        server.ask("POST", f"{path}/register", {"key": f"/{name}", "offset": 0, "byte_size": 8}, "full")
        refused, told = infer(server, name)
        untouched = region.read_bytes()[4:] == bytes(4)
        server.ask("POST", f"{path}/unregister", {}, "full")
    finally:
        region.unlink()
    return refused and untouched, told if untouched else f"the score was written to the region; {told}"


def _span(name: str, offset: int) -> dict[str, Any]:
    return {"shared_memory_region": name, "shared_memory_byte_size": 4, "shared_memory_offset": offset}


def _shared_http(server: Server, name: str) -> tuple[bool, str]:
    body = {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "parameters": _span(name, 0)}],
        "outputs": [{"name": "score", "parameters": _span(name, 4)}],
    }
    answer = server.ask("POST", f"/v2/models/{DECISION}/infer", body, "full")
    return answer.status >= 400, f"{answer.status} {answer.text[:120]}"


def _shared_grpc(server: Server, name: str) -> tuple[bool, str]:
    request = oip.ModelInferRequest(model_name=DECISION)
    for tensor, offset in (
        (request.inputs.add(name="x", datatype="FP32", shape=[1, 1]), 0),
        (request.outputs.add(name="score"), 4),
    ):
        tensor.parameters["shared_memory_region"].string_param = name
        tensor.parameters["shared_memory_byte_size"].int64_param = 4
        tensor.parameters["shared_memory_offset"].int64_param = offset
    return _grpc("", "ModelInfer", request).run(server)


_MODEL = f"/v2/models/{DECISION}"
_LOAD = oip.RepositoryModelLoadRequest(model_name=DECISION)
_LOAD.parameters["config"].string_param = "{}"
_TOLD = {"id": ID, "decision": DECISION, "outcome": "pass", "by": "e", "why": "e"}
_ROWS = {"input": {"account": "a1", "amount": AMOUNT}}

TRIES = [
    _http("tensors by the model's name", f"{_MODEL}/infer"),
    _http("the served version by number", f"{_MODEL}/versions/1/infer"),
    _http("the ensemble's other model by its version", f"{_MODEL}/versions/2/infer"),
    _http("a version that is not there", f"{_MODEL}/versions/3/infer"),
    _http("a percent-encoded name", "/v2/models/%70%61%79/infer"),
    _http("a name encoded twice", "/v2/models/%2570ay/infer"),
    _http("a trailing slash", f"{_MODEL}/infer/"),
    _http("a doubled slash", f"//v2/models/{DECISION}/infer"),
    _http("dot segments from another model", f"/v2/models/{PLAIN}/../{DECISION}/infer"),
    _http("encoded dot segments", f"/v2/models/{PLAIN}%2f..%2f{DECISION}/infer"),
    _http("the name in capitals", f"/v2/models/{DECISION.upper()}/infer"),
    _http("the protocol's prefix in capitals", f"/V2/models/{DECISION}/infer"),
    _http("a name with a NUL behind it", f"/v2/models/{DECISION}%00/infer"),
    _http("the model's name inside its decision", "/v2/models/m/infer"),
    _http("a version behind an @", f"/v2/models/{DECISION}@1/infer"),
    _http("an absolute target", f"http://localhost/v2/models/{DECISION}/infer"),
    _http("a raw binary body", f"{_MODEL}/infer", _ROW, inference_header_content_length="0"),
    _http("a compressed body", f"{_MODEL}/infer", gzip.compress(b'{"inputs":[]}'), content_encoding="gzip"),
    _http("Triton's generate", f"{_MODEL}/generate", {"x": AMOUNT}),
    _http("KServe's first protocol", f"/v1/models/{DECISION}:predict", {"instances": [[AMOUNT]]}),
    Try("HTTP/2", _http2),
    Try("the Unix socket", _unix),
    _grpc("gRPC", "ModelInfer", _infer()),
    _grpc("gRPC with a version", "ModelInfer", _infer("2")),
    Try("a gRPC stream", _stream),
    Try("shared memory over HTTP", lambda server: _shared(server, _shared_http)),
    Try("shared memory over gRPC", lambda server: _shared(server, _shared_grpc)),
    _http("the model's metadata", _MODEL, None, method="GET"),
    _http("the model's configuration", f"{_MODEL}/config", None, method="GET"),
    _http("the model's statistics", f"{_MODEL}/stats", None, method="GET"),
    _grpc("metadata over gRPC", "ModelMetadata", oip.ModelMetadataRequest(name=DECISION)),
    _http("a load", f"/v2/repository/models/{DECISION}/load", {}),
    _http("an unload", f"/v2/repository/models/{DECISION}/unload", {}),
    _grpc("a load with another configuration", "RepositoryModelLoad", _LOAD),
    _http("a caller who may decide asks for tensors", f"{_MODEL}/infer", key="decider"),
    _http("a caller of other models asks for tensors", f"{_MODEL}/infer", key="modeller"),
    _http("a caller without rights asks for the decision", f"/v1/decisions/{DECISION}", _ROWS, key="idle"),
    _http("nobody asks for the decision", f"/v1/decisions/{DECISION}", _ROWS, key=None),
    _http("a caller who may decide overrides", "/v1/overrides", _TOLD, key="decider"),
    _http("a caller of other models reads all metrics", "/metrics", None, method="GET", key="modeller"),
]  # fmt: skip
