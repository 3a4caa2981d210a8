"""A small decision server as a stranger would start it: a model, a spec, one process. Imports nothing of `flyball`."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.claims.hardening.attempts import Build

_START_S, _ANSWER_S, _STOP_S = 60.0, 30.0, 20.0
SPEC = """\
decision: pay
owner: someone@example.com
purpose: a stranger's test

input:
  account: {{type: string, key: true, pii: true}}
  amount:  {{type: float, min: 0, max: 1000000}}
{features}
model: {{path: pay.onnx, columns: [amount], score: "score[0]"}}

policy:
  guard: {{score: 0..1}}
  bands: {{pass: "< 0.5", review: ">= 0.5"}}

record: {{durability: {durability}, when_unavailable: {when_unavailable}}}
"""
WINDOW = """
features:
  payments: {window: count() by account last 1h, type: int}
"""


class Running:
    """A server that listens."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, method: str, path: str, document: Any = None) -> tuple[int, Any]:
        """Status, and JSON where the answer is some."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_ANSWER_S)
        try:
            body = None if document is None else json.dumps(document)
            connection.request(method, path, body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            text = reply.read().decode()
            return reply.status, json.loads(text) if text[:1] in ("{", "[") else text
        finally:
            connection.close()

    def decide(self, account: str) -> tuple[int, Any]:
        """One decision about an account, as the only row of a list."""
        rows = [{"id": f"row of {account}", "input": {"account": account, "amount": 7}}]
        return self.ask("POST", "/v1/decisions/pay", {"rows": rows})

    def stop(self) -> None:
        """Ends it, and waits."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def model(path: Path) -> None:
    """amount / 1,000,000 as the score."""
    node = helper.make_node("Mul", ["amount", "scale"], ["score"])
    scale = numpy_helper.from_array(np.array([1e-6], np.float32), "scale")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 1]) for name in ("amount", "score")]
    graph = helper.make_graph([node], "pay", ends[:1], ends[1:], [scale])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


@contextmanager
def serving(
    build: Build,
    folder: Path,
    *,
    features: str = "",
    durability: str = "sync",
    when_unavailable: str = "fail_closed",
    umask: int = 0o022,
) -> Iterator[Running]:
    """`flyball serve` with the decision `pay`; its journal and windows are in `journal` and `features`."""
    model(folder / "pay.onnx")
    spec = folder / "pay.yaml"
    spec.write_text(SPEC.format(features=features, durability=durability, when_unavailable=when_unavailable))
    config = folder / "config.json"
    settings = {"journal_folder": str(folder / "journal"), "features_folder": str(folder / "features"), "lanes": 1}
    config.write_text(json.dumps({**settings, "journal_sync_ms": 50}))
    command = [build.flyball, "serve", "--decision", str(spec), "--listen", "127.0.0.1:0", "--config", str(config)]
    log = (folder / "server.log").open("w+")
    process = subprocess.Popen(
        command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, cwd=folder,
        preexec_fn=lambda: os.umask(umask) and None,  # noqa: PLW1509 - one thread
    )  # fmt: skip
    running = Running(process, 0)
    try:
        running = Running(process, _port(process, folder / "server.log"))
        yield running
    finally:
        running.stop()
        log.close()


def _port(process: subprocess.Popen[str], log: Path) -> int:
    """Where it listens, once it says so."""
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        found = re.search(r"127\.0\.0\.1:(\d{2,5})", log.read_text())
        if found and found[1] != "0":
            return int(found[1])
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f"the server did not start: {log.read_text()[-300:]}")


def flyball(build: Build, *arguments: object, folder: Path) -> tuple[int, str]:
    """A command of the build: exit code, and all that it printed."""
    ending = subprocess.run(
        [build.flyball, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    return ending.returncode, ending.stdout + ending.stderr


def holds_text(folder: Path, text: str) -> list[str]:
    """Files under a folder that have a text in the open."""
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
