"""The V2 protocol over HTTP/1.1, with the binary tensor extension in both directions. Must not know connections.

A call is retried only if the server cannot have started the work: the connection failed, or the server shed the request
and gave a time (503 with Retry-After). Never past the deadline.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from flyball.client.deadline import ATTEMPTS_MAX
from flyball.client.exchange import Exchange
from flyball.client.metadata import ModelMetadata
from flyball.client.pieces import TOO_LARGE
from flyball.errors import (
    FlyballError,
    InvalidInputError,
    ServerFaultError,
    UnreachableError,
    from_http,
    from_problem,
    plain_cause,
)
from flyball.rows.tensors import Array, InferCall, Tensor, decode, decode_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flyball.client.annotations import Annotation
    from flyball.client.deadline import Deadline
    from flyball.client.decisions import DecideCall

_JSON_LENGTH = "Inference-Header-Content-Length"
_TIMEOUT_HEADER = "x-request-timeout-ms"
_KEY_HEADER = "idempotency-key"
_PROBLEM = "application/problem+json"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request, without what each attempt adds."""

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A reply; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpDialect:
    """Requests and replies of the V2 protocol and of the decisions API, as JSON and raw tensors."""

    attempts_max = ATTEMPTS_MAX

    def live(self) -> Exchange[bool]:
        """Whether the server responds."""
        return Exchange(HttpRequest("GET", "/v2/health/live"), _is_ok)

    def ready(self, model: str | None, version: str | None) -> Exchange[bool]:
        """Whether the server, or one model, accepts requests."""
        path = "/v2/health/ready" if model is None else f"{_model_path(model, version)}/ready"
        return Exchange(HttpRequest("GET", path), _is_ok)

    def metadata(self, model: str, version: str | None) -> Exchange[ModelMetadata]:
        """A model's inputs and outputs."""
        request = HttpRequest("GET", _model_path(model, version))
        return Exchange(request, lambda reply: ModelMetadata.from_document(_document(reply)))

    def rows_per_run(self, model: str, version: str | None) -> Exchange[int]:
        """How many rows share a run; 0 if the answer for a row may depend on the others."""
        request = HttpRequest("GET", f"{_model_path(model, version)}/config")
        return Exchange(request, lambda reply: int(_document(reply).get("max_batch_size") or 0))

    def infer(self, call: InferCall) -> Exchange[dict[str, Array]]:
        """One inference; the outputs by name."""
        head = json.dumps(_inference(call)).encode()
        headers = {"Content-Type": "application/octet-stream", _JSON_LENGTH: str(len(head))}
        body = b"".join([head, *(tensor.raw for tensor in call.tensors)])
        request = HttpRequest("POST", f"{_model_path(call.model, call.version)}/infer", body, headers)
        return Exchange(request, lambda reply: _outputs(reply, call.id))

    def decide(self, call: DecideCall) -> Exchange[dict[str, Any]]:
        """One request for decisions. A retry has the same idempotency key."""
        headers = {} if call.idempotency_key is None else {_KEY_HEADER: call.idempotency_key}
        return _json_exchange("POST", f"/v1/decisions/{quote(call.decision, safe='')}", call.document(), headers)

    def annotate(self, annotation: Annotation) -> Exchange[dict[str, Any]]:
        """An annotation; the reply comes once it is on the server's disk."""
        return _json_exchange(annotation.method, annotation.path, annotation.document, {})


def attempt_headers(api_key: str | None, deadline: Deadline) -> dict[str, str]:
    """The headers of one attempt: the caller, and the time that is left."""
    caller = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    return {**caller, _TIMEOUT_HEADER: str(deadline.left_ms())}


def no_connection(url: str, error: Exception) -> UnreachableError:
    """The error of a connection that could not be made."""
    unreachable = UnreachableError(
        f"no connection to {url}: {plain_cause(error)}",
        next_step="start a server:  flyball serve MODEL.onnx   or   --decision FILE",
    )
    unreachable.maybe_served = False
    return unreachable


def broken_connection(url: str, error: Exception) -> UnreachableError:
    """The error of a connection that broke after a request was sent."""
    return UnreachableError(
        f"the connection to {url} broke before the response: {plain_cause(error)}",
        next_step="the request may have been served; retry only if that is safe",
    )


def _json_exchange(
    method: str, path: str, document: Mapping[str, object], headers: Mapping[str, str]
) -> Exchange[dict[str, Any]]:
    try:
        body = b"" if method == "GET" else json.dumps(document, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"the input cannot be written as JSON: {error}") from error
    return Exchange(HttpRequest(method, path, body, {"Content-Type": "application/json", **headers}), _document)


def _model_path(model: str, version: str | None) -> str:
    path = f"/v2/models/{quote(model, safe='')}"
    return path if version is None else f"{path}/versions/{quote(version, safe='')}"


def _inference(call: InferCall) -> dict[str, Any]:
    document: dict[str, Any] = {
        "inputs": [
            {
                "name": tensor.name,
                "datatype": tensor.datatype,
                "shape": list(tensor.shape),
                "parameters": {"binary_data_size": len(tensor.raw)},
            }
            for tensor in call.tensors
        ],
        "parameters": {"binary_data_output": True},
    }
    if call.id is not None:
        document["id"] = call.id
    if call.outputs is not None:
        document["outputs"] = [{"name": name, "parameters": {"binary_data": True}} for name in call.outputs]
    return document


def _outputs(reply: HttpReply, request_id: str | None) -> dict[str, Array]:
    """The response's outputs: raw if they have a size, else from JSON; servers may mix both."""
    _refuse(reply)
    json_length = reply.headers.get(_JSON_LENGTH.lower(), "")
    end = int(json_length) if json_length.isdecimal() else len(reply.body)
    document = _json(reply.body[:end])
    if request_id is not None and document.get("id") != request_id:
        raise ServerFaultError(
            f"the response has the id {document.get('id')!r} instead of {request_id!r}", code="bad_answer"
        )
    try:
        return _arrays(document.get("outputs") or [], reply.body[end:])
    except (KeyError, TypeError) as error:
        raise ServerFaultError(f"cannot read the outputs of the response: {error!r}", code="bad_answer") from error


def _arrays(items: list[dict[str, Any]], raw: bytes) -> dict[str, Array]:
    arrays, offset = {}, 0
    for item in items:
        name, datatype, shape = item["name"], item["datatype"], tuple(item["shape"])
        size = (item.get("parameters") or {}).get("binary_data_size")
        if size is None:
            arrays[name] = decode_data(name, datatype, shape, item.get("data"))
        else:
            arrays[name] = decode(Tensor(name, datatype, shape, raw[offset : offset + size]))
            offset += size
    return arrays


def _is_ok(reply: HttpReply) -> bool:
    _refuse(reply)
    return True


def _document(reply: HttpReply) -> dict[str, Any]:
    _refuse(reply)
    return _json(reply.body)


def _json(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError as error:
        raise ServerFaultError(f"the response is not JSON: {error}", code="bad_answer") from error
    if not isinstance(document, dict):
        raise ServerFaultError("the response is not a JSON object", code="bad_answer")
    return document


def _refuse(reply: HttpReply) -> None:
    """Raise the error of a reply that is not 200."""
    if reply.status == 200:
        return
    after_s = _seconds(reply.headers.get("retry-after"))
    if reply.headers.get("content-type", "").startswith(_PROBLEM):
        raise from_problem(reply.status, _json(reply.body), after_s)
    error: FlyballError = from_http(reply.status, _error_text(reply.body), after_s)
    if reply.status == 413:
        error.code = TOO_LARGE
    raise error


def _error_text(body: bytes) -> str:
    """The text of {"error": text}; else the body, truncated."""
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if isinstance(document, dict) and isinstance(document.get("error"), str):
        return str(document["error"])
    return body[:200].decode("utf-8", "replace").strip()


def _seconds(retry_after: str | None) -> float | None:
    try:
        return max(0.0, float(retry_after)) if retry_after is not None else None
    except ValueError:
        return None  # an HTTP date: no server of this protocol sends one
