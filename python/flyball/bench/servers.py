"""Servers to measure: `flyball serve` on chosen cores, or a remote one.

Every subject has answered once; an unreachable server is reported before anything is measured.
"""

from __future__ import annotations

import http.client
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, quote, urlsplit

from flyball.bench.measure import Subject
from flyball.bench.process import Process
from flyball.bench.record import SubjectRecord
from flyball.bench.run import first_answer
from flyball.errors import NotFoundError, UnavailableError, UnreachableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_REACH_S = 5.0
_ADDRESS = "write it as http://host:port or grpc://host:port"
_TLS = ("https", "grpcs")
_READY_OR_FOREIGN = (200, 404, 405, 501)  # servers of other protocols lack the path or the method
_NOT_IN_HTTP_1 = (400, 415, 426, 505)  # replies of gRPC servers and their proxies to HTTP/1


@contextmanager
def serving(
    model: Path, name: str, payloads: bytes, cpus: list[int] | None, *, label: str = "flyball"
) -> Iterator[tuple[Subject, SubjectRecord]]:
    """`flyball serve` with one model on these cores, and its time to the first correct answer."""
    command = [sys.executable, "-m", "flyball", "serve", f"{name}={model}", "--listen", "127.0.0.1:0"]
    with Process(command, cpus=cpus) as server:
        cold_start_s = first_answer(server.url, name, payloads.split(b"\n", 1)[0], started=server.started)
        from flyball.native.machine import build_info

        record = SubjectRecord(
            name=label,
            command=["flyball", "serve", f"{name}={model.name}"],
            version=build_info().version,
            cold_start_s=cold_start_s,
            memory_bytes=server.memory_bytes(),
        )
        yield Subject(label, server.url, server), record


def elsewhere(url: str, model: str, *, label: str | None = None) -> tuple[Subject, SubjectRecord]:
    """A server at an address; it must answer, and know the model if it speaks V2."""
    address = _address_of(url)
    plain = f"http://{address.netloc}"
    path = f"/v2/models/{quote(model, safe='')}"
    status = _status(address, f"{path}/ready")
    if status == 404 and _status(address, path) == 404 and _status(address, "/v2/health/live") == 200:
        raise NotFoundError(f"{url} does not serve the model {model!r}", next_step=f"list its models:  curl {plain}{path}")
    if status is not None and status not in _READY_OR_FOREIGN:
        raise UnavailableError(
            f"{url} returns {status} for {path}/ready: the model is not ready",
            next_step=f"check it:  curl -i {plain}{path}/ready",
        )
    name = label or address.netloc
    return Subject(name, plain), SubjectRecord(name=name, url=url)


def _address_of(url: str) -> SplitResult:
    """A URL of scheme, host and port only: silently ignoring more would distort the figures."""
    try:
        address = urlsplit(url)
        right = address.scheme in ("http", "grpc", *_TLS) and bool(address.hostname) and address.port != 0
    except ValueError as error:
        raise UsageError(f"{url} is not a server address: {error}", next_step=_ADDRESS) from error
    if not right:
        raise UsageError(f"{url} is not a server address", next_step=_ADDRESS)
    if "@" in address.netloc:  # not printed: it may be a secret
        raise UsageError("user and password in the address are not supported", next_step=_ADDRESS)
    if address.scheme in _TLS:
        raise UsageError(f"{url}: TLS is not supported: measure the plain port, or behind the proxy", next_step=_ADDRESS)
    extra = {"path": address.path.rstrip("/"), "query": address.query, "fragment": address.fragment}
    for what, text in extra.items():
        if text:
            raise UsageError(f"{url} has a {what} ({text}), but an address ends with its port", next_step=_ADDRESS)
    return address


def _status(address: SplitResult, path: str) -> int | None:
    """The status of a GET; None from a gRPC server that speaks only HTTP/2."""
    url = address.geturl()
    connection = http.client.HTTPConnection(address.netloc, timeout=_REACH_S)
    try:
        connection.connect()
    except (OSError, UnicodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise UnreachableError(f"cannot reach {url}: {reason}", next_step="is it up?  flyball serve MODEL.onnx") from error
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        if address.scheme == "grpc":
            return None
        raise UnreachableError(f"{url} accepts connections, but does not speak HTTP: {error!r}") from error
    finally:
        connection.close()
    return None if address.scheme == "grpc" and status in _NOT_IN_HTTP_1 else status
