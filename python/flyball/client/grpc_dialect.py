"""The V2 protocol over gRPC, with raw tensors in both directions: messages and what they say. Must not know channels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flyball.client.exchange import Exchange
from flyball.client.grpc_decisions import document_of, request_of
from flyball.client.metadata import ModelMetadata
from flyball.client.pieces import TOO_LARGE
from flyball.errors import (
    FlyballError,
    InvalidInputError,
    ServerFaultError,
    UnreachableError,
    UsageError,
    from_grpc,
    needing,
)
from flyball.rows.tensors import Array, InferCall, Tensor, decode

if TYPE_CHECKING:
    from flyball.client.annotations import Annotation
    from flyball.client.deadline import Deadline
    from flyball.client.decisions import DecideCall

_SERVICE = "/inference.GRPCInferenceService/"
_DECISIONS = "/flyball.v1.Decisions/"
# RESOURCE_EXHAUSTED means overload too; flyball's words for a large body, and those of gRPC's own libraries.
_LARGE = re.compile("body's size exceeds|message larger than max", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GrpcRequest:
    """One call: its method, its message, and the type of the response."""

    method: str
    message: Any
    response: Any
    metadata: tuple[tuple[str, str], ...] = ()


class GrpcDialect:
    """Requests and responses of the V2 protocol and of the decisions API, as messages.

    gRPC itself retries calls that never left this machine. Nothing else is retried, because UNAVAILABLE does not say
    whether the server started the work.
    """

    attempts_max = 1

    def __init__(self) -> None:
        with needing("gRPC needs grpcio and protobuf", extra="grpc"):
            from flyball.client import _decisions_pb2, _oip_pb2
        self._messages: Any = _oip_pb2
        self._decisions: Any = _decisions_pb2

    def live(self) -> Exchange[bool]:
        """Whether the server responds."""
        return Exchange(self._request("ServerLive"), lambda answer: bool(answer.live))

    def ready(self, model: str | None, version: str | None) -> Exchange[bool]:
        """Whether the server, or one model, accepts requests."""
        asked = {} if model is None else {"name": model, "version": version or ""}
        request = self._request("ServerReady" if model is None else "ModelReady", **asked)
        return Exchange(request, lambda answer: bool(answer.ready))

    def metadata(self, model: str, version: str | None) -> Exchange[ModelMetadata]:
        """A model's inputs and outputs."""
        return Exchange(self._request("ModelMetadata", name=model, version=version or ""), _metadata)

    def rows_per_run(self, model: str, version: str | None) -> Exchange[int]:
        """How many rows share a run; 0 if the answer for a row may depend on the others."""
        request = self._request("ModelConfig", name=model, version=version or "")
        return Exchange(request, lambda answer: int(answer.config.max_batch_size))

    def infer(self, call: InferCall) -> Exchange[dict[str, Array]]:
        """One inference; the outputs by name."""
        request = self._request("ModelInfer", model_name=call.model, model_version=call.version or "", id=call.id or "")
        for tensor in call.tensors:
            request.message.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
            request.message.raw_input_contents.append(tensor.raw)
        for name in call.outputs or ():
            request.message.outputs.add(name=name)
        return Exchange(request, lambda answer: _outputs(answer, call.id))

    def decide(self, call: DecideCall) -> Exchange[dict[str, Any]]:
        """One request for decisions; the response in its JSON form."""
        if call.forced_routes is not None:
            raise UsageError("forced_routes need HTTP", next_step="connect to  unix:/PATH")
        key = () if call.idempotency_key is None else (("idempotency-key", call.idempotency_key),)
        message = request_of(call, self._decisions)
        request = GrpcRequest(_DECISIONS + "Decide", message, self._decisions.DecideResponse, key)
        return Exchange(request, lambda answer: document_of(answer, single=call.single))

    def annotate(self, annotation: Annotation) -> Exchange[dict[str, Any]]:
        """Not supported: annotations need HTTP."""
        raise UsageError(f"{annotation.path} needs HTTP", next_step="connect to  http://HOST:PORT")

    def _request(self, method: str, **fields: Any) -> GrpcRequest:
        message = getattr(self._messages, f"{method}Request")(**fields)
        return GrpcRequest(_SERVICE + method, message, getattr(self._messages, f"{method}Response"))


def error_of(error: Any, target: str, deadline: Deadline) -> FlyballError:
    """The error of a failed call, blocking or not."""
    status, details = error.code().name, error.details() or ""
    if status == "DEADLINE_EXCEEDED" and not deadline.allows(0):
        return deadline.passed()
    if status == "UNAVAILABLE" and re.search("connect|socket closed", details, re.IGNORECASE):
        # A draining server has the same status; only gRPC's message distinguishes them.
        unreachable = UnreachableError(
            f"no answer from grpc://{target}: {details}",
            next_step="start a server:  flyball serve MODEL.onnx   or   --decision FILE",
        )
        unreachable.maybe_served = "failed to connect" not in details.lower()
        return unreachable
    if status == "RESOURCE_EXHAUSTED" and _LARGE.search(details):
        return InvalidInputError(details, code=TOO_LARGE)
    return from_grpc(status, details)


def _metadata(answer: Any) -> ModelMetadata:
    def tensor(item: Any) -> dict[str, Any]:
        return {"name": item.name, "datatype": item.datatype, "shape": list(item.shape)}

    return ModelMetadata.from_document(
        {
            "name": answer.name,
            "versions": list(answer.versions),
            "platform": answer.platform,
            "inputs": [tensor(item) for item in answer.inputs],
            "outputs": [tensor(item) for item in answer.outputs],
        }
    )


def _outputs(answer: Any, request_id: str | None) -> dict[str, Array]:
    if request_id is not None and answer.id != request_id:
        raise ServerFaultError(f"the response has the id {answer.id!r} instead of {request_id!r}", code="bad_answer")
    if len(answer.raw_output_contents) != len(answer.outputs):
        raise ServerFaultError("the response's outputs are not raw, which is not supported", code="bad_answer")
    pairs = zip(answer.outputs, answer.raw_output_contents, strict=True)
    return {item.name: decode(Tensor(item.name, item.datatype, tuple(item.shape), raw)) for item, raw in pairs}
