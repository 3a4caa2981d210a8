"""Servers to measure: `flyball serve` started here on chosen cores, or one that runs elsewhere.

Gives subjects that are known to answer; whoever cannot be reached is told before anything is measured.
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
_READY_OR_FOREIGN = (200, 404, 405, 501)  # servers of other protocols do not know the path, or not the method
_NOT_IN_HTTP_1 = (400, 415, 426, 505)  # how gRPC servers and their proxies answer a request in HTTP/1


@contextmanager
def serving(
    model: Path, name: str, payloads: bytes, cpus: list[int] | None, *, label: str = "flyball"
) -> Iterator[tuple[Subject, SubjectRecord]]:
    """`flyball serve` with one model on these cores, and how long it took to its first right answer."""
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
    """A server at an address; it must answer, and know the model where it speaks V2."""
    address = _address_of(url)
    plain = f"http://{address.netloc}"
    path = f"/v2/models/{quote(model, safe='')}"
    status = _status(address, f"{path}/ready")
    if status == 404 and _status(address, path) == 404 and _status(address, "/v2/health/live") == 200:
        raise NotFoundError(
            f"{url} does not serve the model {model!r}", next_step=f"ask what it serves:  curl {plain}{path}"
        )
    if status is not None and status not in _READY_OR_FOREIGN:
        raise UnavailableError(
            f"{url} answers {status} to {path}/ready: the model is not ready",
            next_step=f"ask it:  curl -i {plain}{path}/ready",
        )
    name = label or address.netloc
    return Subject(name, plain), SubjectRecord(name=name, url=url)


def _address_of(url: str) -> SplitResult:
    """A URL that is an address and nothing more: what is left out silently would be missed in the figures."""
    try:
        address = urlsplit(url)
        right = address.scheme in ("http", "grpc", *_TLS) and bool(address.hostname) and address.port != 0
    except ValueError as error:
        raise UsageError(f"{url} is no address of a server: {error}", next_step=_ADDRESS) from error
    if not right:
        raise UsageError(f"{url} is no address of a server", next_step=_ADDRESS)
    if "@" in address.netloc:  # not shown: it may be a secret
        raise UsageError("the address has a user or a password before its @, and none can be sent", next_step=_ADDRESS)
    if address.scheme in _TLS:
        raise UsageError(
            f"{url}: TLS is not supported yet: measure on the plain port, or behind the proxy", next_step=_ADDRESS
        )
    extra = {"path": address.path.rstrip("/"), "query": address.query, "fragment": address.fragment}
    for what, text in extra.items():
        if text:
            raise UsageError(f"{url} has a {what} ({text}), where an address ends with its port", next_step=_ADDRESS)
    return address


def _status(address: SplitResult, path: str) -> int | None:
    """What a GET is answered with; None from a gRPC server that speaks HTTP/2 only."""
    url = address.geturl()
    connection = http.client.HTTPConnection(address.netloc, timeout=_REACH_S)
    try:
        connection.connect()
    except (OSError, UnicodeError) as error:
        words = (error.strerror if isinstance(error, OSError) else None) or error
        raise UnreachableError(f"cannot reach {url}: {words}", next_step="is it up?  flyball serve MODEL.onnx") from error
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        if address.scheme == "grpc":
            return None
        raise UnreachableError(f"{url} takes connections, but does not speak HTTP: {error!r}") from error
    finally:
        connection.close()
    return None if address.scheme == "grpc" and status in _NOT_IN_HTTP_1 else status
