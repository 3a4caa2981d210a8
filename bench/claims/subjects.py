"""The servers that the claims measure: how each is started, and its requests.

Servers run on one half of the cores and the generator on the other, unless a claim says otherwise.
"""

from __future__ import annotations

import http.client
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flyball.bench.overhead import unchecked
from flyball.bench.process import Process, split_cpus
from flyball.bench.run import run_load
from flyball.documents.snapshot import compile_models
from flyball.errors import FlyballError, UsageError
from flyball.native.boundary import ort_library
from flyball.native.load_documents import LoadPlan, LoadResult, Warmup

if TYPE_CHECKING:
    from collections.abc import Sequence

FLYBALLD = Path("target/dist/flyballd")
ECHO = Path("target/dist/examples/echo")
ANY_PORT = ["--listen", "127.0.0.1:0"]


@dataclass(frozen=True, slots=True)
class Subject:
    """A model, its requests, and its load window."""

    name: str
    path: Path
    payloads: bytes
    seconds: float

    @property
    def first(self) -> bytes:
        """The first payload, for cold starts."""
        return self.payloads.split(b"\n", 1)[0]

    @property
    def unchecked(self) -> Subject:
        """The same requests without expected answers: for an echo, which has none."""
        return replace(self, payloads=unchecked(self.payloads))

    def load(self, server: Process, connections: int, **changes: object) -> LoadResult:
        """One closed-loop window with all answers checked."""
        result = self.load_unchecked(server, connections, **changes)
        if result.mismatched or result.failed:
            raise FlyballError(
                f"{' '.join(server.command)}: {result.mismatched} answers differ and {result.failed} failed "
                f"of {result.sent}: {result.first_problem}"
            )
        return result

    def load_unchecked(self, server: Process, connections: int, **changes: object) -> LoadResult:
        """One closed-loop window, whatever the answers."""
        return run_load(self.plan(server, connections, **changes), self.payloads)

    def plan(self, server: Process, connections: int, **changes: object) -> LoadPlan:
        """A window's plan: a closed loop by default."""
        plan = LoadPlan(
            url=server.url,
            model=self.name,
            connections=connections,
            duration_s=self.seconds,
            warmup=Warmup(least_s=0.5, most_s=0.5),
            timeout_ms=10_000,
            cpus=split_cpus()[1],
        )
        return plan.model_copy(update=changes)


def need(path: Path) -> Path:
    """The binary, or an error with the build command."""
    if not path.is_file():
        raise UsageError(f"{path} does not exist", next_step="build it:  make claim-skeleton")
    return path


def flyballd(subject: Subject, folder: Path, *, flags: Sequence[str] = (), cpus: list[int] | None = None) -> Process:
    """The standalone binary, from a snapshot on disk."""
    index = compile_models([f"{subject.name}={subject.path}"]).write(folder / f"snapshot-{subject.name}")
    command = [str(need(FLYBALLD)), "--unsigned", "allow", "--snapshot", str(index), *ANY_PORT, *flags]
    return Process(command, cpus=cpus or split_cpus()[0], environment={"ORT_DYLIB_PATH": str(ort_library())})


def flyball_serve(subject: Subject) -> Process:
    """The Python command."""
    command = [sys.executable, "-m", "flyball", "serve", f"{subject.name}={subject.path}", *ANY_PORT]
    return Process(command, cpus=split_cpus()[0])


def echo() -> Process:
    """The echo on our own stack: no parsing, no model."""
    return Process([str(need(ECHO)), *ANY_PORT], cpus=split_cpus()[0])


def answer_bytes(server: Process, subject: Subject) -> int:
    """The size of the answer to the first payload."""
    return len(ask(server, subject, 1))


def ask(server: Process, subject: Subject, count: int) -> bytes:
    """Send requests sequentially on one connection; returns the last answer."""
    lines = subject.payloads.splitlines()
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=10)
    answer = b""
    try:
        for number in range(count):
            inputs = json.loads(lines[number % len(lines)])["inputs"]
            body = json.dumps({"id": str(number), "inputs": inputs}).encode()
            connection.request("POST", f"/v2/models/{subject.name}/infer", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
            if response.status != 200:
                raise FlyballError(f"{server.url} answered {response.status}: {answer[:200]!r}")
    finally:
        connection.close()
    return answer
