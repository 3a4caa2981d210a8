"""Servers to measure: `flyball serve` started here on chosen cores, or one that runs elsewhere.

Gives subjects that are known to answer; whoever cannot be reached is told before anything is measured.
"""

from __future__ import annotations

import http.client
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flyball.bench.measure import Subject
from flyball.bench.process import Process
from flyball.bench.record import SubjectRecord
from flyball.bench.run import first_answer
from flyball.errors import NotFoundError, UnreachableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_REACH_S = 5.0


@contextmanager
def serving(
    model: Path, name: str, payloads: bytes, cpus: list[int] | None, *, label: str = "flyball"
) -> Iterator[tuple[Subject, SubjectRecord]]:
    """`flyball serve` with one model on these cores, and how long it took to its first right answer."""
    command = [sys.executable, "-m", "flyball", "serve", f"{name}={model}", "--listen", "127.0.0.1:0"]
    with Process(command, cpus=cpus) as server:
        cold_start_s = first_answer(server.url, name, payloads.split(b"\n", 1)[0], started=server.started)
        from flyball.engine import build_info

        record = SubjectRecord(
            name=label,
            command=["flyball", *command[3:]],
            version=build_info().version,
            cold_start_s=cold_start_s,
            rss_bytes=server.memory_bytes(),
        )
        yield Subject(label, server.url, server), record


def elsewhere(url: str, model: str, *, label: str | None = None) -> tuple[Subject, SubjectRecord]:
    """A server at an address; it must answer, and know the model where it speaks V2."""
    address = urlsplit(url)
    if address.scheme not in ("http", "grpc") or not address.hostname:
        raise UsageError(f"{url} is no address of a server", next_step="write it as http://host:port")
    plain = f"http://{address.netloc}"
    status = _status(plain, f"/v2/models/{model}/ready")
    if status == 404:
        raise NotFoundError(
            f"{url} does not serve the model {model!r}", next_step=f"ask what it serves:  curl {plain}/v2/models/{model}"
        )
    name = label or address.netloc
    return Subject(name, plain), SubjectRecord(name=name, url=url)


def _status(url: str, path: str) -> int:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_REACH_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError as error:
        raise UnreachableError(
            f"cannot reach {url}: {error.strerror or error}", next_step="is it up?  flyball serve MODEL.onnx"
        ) from error
    except http.client.HTTPException as error:
        raise UnreachableError(f"{url} does not speak HTTP: {error!r}") from error
    finally:
        connection.close()
