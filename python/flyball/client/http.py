"""The V2 protocol over HTTP/1.1, with the binary tensor extension in both directions.

A call is retried only if the server cannot have started the work: the connection failed, or the server shed the request
and gave a time (503 with Retry-After). Never past the deadline.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, MaxRetryError, NewConnectionError
from urllib3.exceptions import TimeoutError as WaitError

from flyball.client.deadline import ATTEMPTS_MAX, Deadline, pause_before
from flyball.client.metadata import ModelMetadata
from flyball.client.unix_socket import pool_to
from flyball.errors import (
    FlyballError,
    InvalidInputError,
    OverloadedError,
    ServerFaultError,
    UnavailableError,
    UnreachableError,
    from_http,
    from_problem,
    plain_cause,
)
from flyball.rows.tensors import Array, InferCall, Tensor, decode, decode_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flyball.client.decisions import DecideCall

_JSON_LENGTH = "Inference-Header-Content-Length"
_TIMEOUT_HEADER = "x-request-timeout-ms"
_KEY_HEADER = "idempotency-key"
_PROBLEM = "application/problem+json"
_CHUNK_BYTES = 1 << 16


class HttpTransport:
    """A pool of keep-alive connections to one server; thread-safe."""

    def __init__(self, url: str, connections_max: int, unix_path: str | None = None, api_key: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._caller = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        # block: extra threads wait for a connection instead of opening and discarding more.
        self._pool = urllib3.PoolManager(num_pools=1, maxsize=connections_max, block=True, retries=False)
        if unix_path is not None:
            self._pool.pool_classes_by_scheme = {"http": pool_to(unix_path)}

    def close(self) -> None:
        """Close every idle connection."""
        self._pool.clear()

    def live(self, deadline: Deadline) -> bool:
        """Whether the server responds."""
        return self._is("/v2/health/live", deadline)

    def ready(self, model: str | None, version: str | None, deadline: Deadline) -> bool:
        """Whether the server, or one model, accepts requests."""
        path = "/v2/health/ready" if model is None else f"{_model_path(model, version)}/ready"
        return self._is(path, deadline)

    def metadata(self, model: str, version: str | None, deadline: Deadline) -> ModelMetadata:
        """A model's metadata from the server."""
        body, _ = self._call("GET", _model_path(model, version), b"", {}, deadline)
        return ModelMetadata.from_document(_json(body))

    def infer(self, call: InferCall, deadline: Deadline) -> dict[str, Array]:
        """Run one inference; return the outputs by name."""
        head = json.dumps(_request(call)).encode()
        headers = {"Content-Type": "application/octet-stream", _JSON_LENGTH: str(len(head))}
        body = b"".join([head, *(tensor.raw for tensor in call.tensors)])
        answer, length = self._call("POST", f"{_model_path(call.model, call.version)}/infer", body, headers, deadline)
        return _outputs(answer, length, call.id)

    def decide(self, call: DecideCall, deadline: Deadline) -> dict[str, Any]:
        """Send one request for decisions; return the response. A retry has the same idempotency key."""
        headers = {} if call.idempotency_key is None else {_KEY_HEADER: call.idempotency_key}
        return self._send("POST", f"/v1/decisions/{quote(call.decision, safe='')}", call.document(), headers, deadline)

    def annotate(
        self, path: str, document: Mapping[str, object], deadline: Deadline, method: str = "POST"
    ) -> dict[str, Any]:
        """Send an annotation; returns once it is on the server's disk."""
        return self._send(method, path, document, {}, deadline)

    def _send(
        self, method: str, path: str, document: Mapping[str, object], headers: dict[str, str], deadline: Deadline
    ) -> dict[str, Any]:
        try:
            body = json.dumps(document, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"the input cannot be written as JSON: {error}") from error
        body = b"" if method == "GET" else body
        answer, _ = self._call(method, path, body, {"Content-Type": "application/json", **headers}, deadline)
        return _json(answer)

    def _is(self, path: str, deadline: Deadline) -> bool:
        try:
            self._call("GET", path, b"", {}, deadline)
        except (UnavailableError, OverloadedError):
            return False
        return True

    def _call(
        self, method: str, path: str, body: bytes, headers: dict[str, str], deadline: Deadline
    ) -> tuple[bytes, int | None]:
        """Send with retries; return the body and the length of its JSON part, if it has others."""
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                return self._attempt(method, path, body, headers, deadline)
            except UnreachableError as error:
                pause = pause_before(attempt + 1)
                if error.maybe_served or attempt == ATTEMPTS_MAX or not deadline.allows(pause):
                    raise
            except OverloadedError as error:
                pause = error.retry_after_s if error.retry_after_s is not None else 0.0
                if error.retry_after_s is None or attempt == ATTEMPTS_MAX or not deadline.allows(pause):
                    raise
            time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _attempt(
        self, method: str, path: str, body: bytes, headers: dict[str, str], deadline: Deadline
    ) -> tuple[bytes, int | None]:
        headers = {**headers, **self._caller, _TIMEOUT_HEADER: str(deadline.left_ms())}
        try:
            response = self._pool.request(
                method,
                self._url + path,
                body=body or None,
                headers=headers,
                timeout=urllib3.Timeout(total=deadline.left_s()),
                preload_content=False,
                decode_content=True,
                redirect=False,
            )
            try:
                content = _read(response, deadline)
            finally:
                # A connection with half a response cannot be reused; closing it keeps its slot in the pool.
                if not response.closed:
                    response.close()
                response.release_conn()
        except (NewConnectionError, ConnectTimeoutError, MaxRetryError) as error:
            raise self._no_connection(error, deadline) from error
        except WaitError as error:
            raise deadline.passed() from error
        except HTTPError as error:
            raise _broke(self._url, error) from error
        if response.status != 200:
            raise _refusal(response.status, content, response.headers)
        length = response.headers.get(_JSON_LENGTH)
        return content, None if length is None else int(length)

    def _no_connection(self, error: Exception, deadline: Deadline) -> FlyballError:
        if not deadline.allows(0):
            return deadline.passed()
        unreachable = UnreachableError(
            f"no connection to {self._url}: {plain_cause(error)}",
            next_step="start a server:  flyball serve MODEL.onnx   or   --decision FILE",
        )
        unreachable.maybe_served = False
        return unreachable


def _read(response: urllib3.BaseHTTPResponse, deadline: Deadline) -> bytes:
    """Read the whole body; a slow server cannot exceed the deadline by more than one wait."""
    parts: list[bytes] = []
    while True:
        left = deadline.left_s()
        sock = getattr(response.connection, "sock", None)
        if sock is not None:
            sock.settimeout(left)
        part = response.read1(_CHUNK_BYTES)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _model_path(model: str, version: str | None) -> str:
    path = f"/v2/models/{quote(model, safe='')}"
    return path if version is None else f"{path}/versions/{quote(version, safe='')}"


def _request(call: InferCall) -> dict[str, Any]:
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


def _outputs(body: bytes, json_length: int | None, request_id: str | None) -> dict[str, Array]:
    """The response's outputs: raw if they have a size, else from JSON; servers may mix both."""
    end = len(body) if json_length is None else json_length
    document = _json(body[:end])
    if request_id is not None and document.get("id") != request_id:
        raise ServerFaultError(
            f"the response has the id {document.get('id')!r} instead of {request_id!r}", code="bad_answer"
        )
    arrays = {}
    offset = end
    for item in document.get("outputs") or []:
        name, datatype, shape = item["name"], item["datatype"], tuple(item["shape"])
        size = (item.get("parameters") or {}).get("binary_data_size")
        if size is None:
            arrays[name] = decode_data(name, datatype, shape, item.get("data"))
        else:
            arrays[name] = decode(Tensor(name, datatype, shape, body[offset : offset + size]))
            offset += size
    return arrays


def _json(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError as error:
        raise ServerFaultError(f"the response is not JSON: {error}", code="bad_answer") from error
    if not isinstance(document, dict):
        raise ServerFaultError("the response is not a JSON object", code="bad_answer")
    return document


def _refusal(status: int, content: bytes, headers: Mapping[str, str]) -> FlyballError:
    after_s = _seconds(headers.get("Retry-After"))
    if headers.get("Content-Type", "").startswith(_PROBLEM):
        return from_problem(status, _json(content), after_s)
    return from_http(status, _error_text(content), after_s)


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


def _broke(url: str, error: Exception) -> UnreachableError:
    return UnreachableError(
        f"the connection to {url} broke before the response: {plain_cause(error)}",
        next_step="the request may have been served; retry only if that is safe",
    )
