"""The V2 protocol over gRPC, with raw tensors in both directions. Needs the extra: pip install 'flyball[grpc]'.

Calls use `channel.unary_unary`, so only message types are generated. gRPC itself retries calls that never left this
machine; nothing else is retried, because UNAVAILABLE does not say whether the server started the work.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from flyball.client.grpc_decisions import document_of, request_of
from flyball.client.metadata import ModelMetadata
from flyball.errors import ServerFaultError, UnavailableError, UnreachableError, UsageError, from_grpc, needing
from flyball.rows.tensors import Array, InferCall, Tensor, decode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flyball.client.deadline import Deadline
    from flyball.client.decisions import DecideCall

_SERVICE = "/inference.GRPCInferenceService/"
_DECISIONS = "/flyball.v1.Decisions/"
_OPTIONS = [
    ("grpc.max_send_message_length", -1),  # the server enforces the limit
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


class GrpcTransport:
    """One HTTP/2 connection to one server; thread-safe."""

    def __init__(self, target: str, api_key: str | None = None) -> None:
        with needing("gRPC needs grpcio and protobuf", extra="grpc"):
            import grpc

            from flyball.client import _oip_pb2
        self._grpc: Any = grpc
        self._messages: Any = _oip_pb2
        self._target = target
        self._caller = () if api_key is None else (("authorization", f"Bearer {api_key}"),)
        self._channel = grpc.insecure_channel(target, options=_OPTIONS)

    def close(self) -> None:
        """Close the connection; calls in flight are cancelled."""
        self._channel.close()

    def live(self, deadline: Deadline) -> bool:
        """Whether the server responds."""
        return self._is("ServerLive", "live", self._messages.ServerLiveRequest(), deadline)

    def ready(self, model: str | None, version: str | None, deadline: Deadline) -> bool:
        """Whether the server, or one model, accepts requests."""
        if model is None:
            return self._is("ServerReady", "ready", self._messages.ServerReadyRequest(), deadline)
        request = self._messages.ModelReadyRequest(name=model, version=version or "")
        return self._is("ModelReady", "ready", request, deadline)

    def metadata(self, model: str, version: str | None, deadline: Deadline) -> ModelMetadata:
        """A model's metadata from the server."""
        request = self._messages.ModelMetadataRequest(name=model, version=version or "")
        answer = self._call("ModelMetadata", request, deadline)
        document = {
            "name": answer.name,
            "versions": list(answer.versions),
            "platform": answer.platform,
            "inputs": [_tensor_document(item) for item in answer.inputs],
            "outputs": [_tensor_document(item) for item in answer.outputs],
        }
        return ModelMetadata.from_document(document)

    def infer(self, call: InferCall, deadline: Deadline) -> dict[str, Array]:
        """Run one inference; return the outputs by name."""
        request = self._messages.ModelInferRequest(model_name=call.model, model_version=call.version or "", id=call.id or "")
        for tensor in call.tensors:
            request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
            request.raw_input_contents.append(tensor.raw)
        for name in call.outputs or ():
            request.outputs.add(name=name)
        answer = self._call("ModelInfer", request, deadline)
        if call.id is not None and answer.id != call.id:
            raise ServerFaultError(f"the response has the id {answer.id!r} instead of {call.id!r}", code="bad_answer")
        if len(answer.raw_output_contents) != len(answer.outputs):
            raise ServerFaultError("the response's outputs are not raw, which is not supported", code="bad_answer")
        pairs = zip(answer.outputs, answer.raw_output_contents, strict=True)
        return {item.name: decode(Tensor(item.name, item.datatype, tuple(item.shape), raw)) for item, raw in pairs}

    def annotate(
        self, path: str, document: Mapping[str, object], deadline: Deadline, method: str = "POST"
    ) -> dict[str, Any]:
        """Not supported: annotations need HTTP."""
        del path, document, deadline, method
        raise UsageError("outcomes and overrides need HTTP", next_step="connect to  http://HOST:PORT")

    def decide(self, call: DecideCall, deadline: Deadline) -> dict[str, Any]:
        """Send one request for decisions; return the response in its JSON form."""
        if call.forced_routes is not None:
            raise UsageError("forced_routes need HTTP", next_step="connect to  unix:/PATH")
        from flyball.client import _decisions_pb2

        request = request_of(call, _decisions_pb2)
        key = [] if call.idempotency_key is None else [("idempotency-key", call.idempotency_key)]
        answer = self._send(_DECISIONS + "Decide", request, _decisions_pb2.DecideResponse, deadline, key)
        return document_of(answer, single=call.single)

    def _is(self, method: str, state: str, request: Any, deadline: Deadline) -> bool:
        try:
            return bool(getattr(self._call(method, request, deadline), state))
        except UnavailableError:
            return False

    def _call(self, method: str, request: Any, deadline: Deadline) -> Any:
        return self._send(_SERVICE + method, request, getattr(self._messages, f"{method}Response"), deadline)

    def _send(
        self, method: str, request: Any, response: Any, deadline: Deadline, metadata: Sequence[tuple[str, str]] = ()
    ) -> Any:
        call = self._channel.unary_unary(
            method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        try:
            return call(request, timeout=deadline.left_s(), metadata=[*metadata, *self._caller])
        except self._grpc.RpcError as error:
            status = error.code().name
            if status == "DEADLINE_EXCEEDED" and not deadline.allows(0):
                raise deadline.passed() from error
            details = error.details() or ""
            if status == "UNAVAILABLE" and re.search("connect|socket closed", details, re.IGNORECASE):
                # A draining server has the same status; only gRPC's message distinguishes them.
                unreachable = UnreachableError(
                    f"no answer from grpc://{self._target}: {details}",
                    next_step="start a server:  flyball serve MODEL.onnx   or   --decision FILE",
                )
                unreachable.maybe_served = "failed to connect" not in details.lower()
                raise unreachable from error
            raise from_grpc(status, details) from error


def _tensor_document(item: Any) -> dict[str, Any]:
    return {"name": item.name, "datatype": item.datatype, "shape": list(item.shape)}
