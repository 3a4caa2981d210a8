"""A small decision server: a model, a spec, one process. Imports nothing of `flyball`."""

from __future__ import annotations

import http.client
import json
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.claims.hardening.server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.claims.hardening.attempts import Build

_ANSWER_S = 30.0
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


class Running(ServerProcess):
    """A server with requests for decisions."""

    def ask(self, method: str, path: str, document: Any = None) -> tuple[int, Any]:
        """The status, and the reply as JSON if it is JSON."""
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
    running = Running(command, folder, umask=umask)
    try:
        yield running
    finally:
        running.stop()


def flyball(build: Build, *arguments: object, folder: Path) -> tuple[int, str]:
    """Run a command of the build; returns its exit code and output."""
    ending = subprocess.run(
        [build.flyball, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    return ending.returncode, ending.stdout + ending.stderr


def holds_text(folder: Path, text: str) -> list[str]:
    """Files under a folder that contain a text in the clear."""
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
