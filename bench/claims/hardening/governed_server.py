"""A server with one governed decision and one plain model, and requests to it.

Written from the format specifications alone: imports nothing of `flyball`.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.claims.hardening.server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from bench.claims.hardening.attempts import Build

    Json = dict[str, Any]

DECISION = "pay"
PLAIN = "price"
AMOUNT = 420.0
SCORE = 0.42
INPUTS: Json = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [AMOUNT]}]}
ID = "01a8b0c4-7f2e-7c11-9d5e-3f6f0c8a1b2d"
_CALL_S = 20.0


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP reply."""

    status: int
    text: str

    @property
    def scores(self) -> bool:
        """Whether it contains the model's raw score."""
        return self.status == 200 and '"outputs"' in self.text


@dataclass(slots=True)
class Server:
    """A running server and its folders. A caller's key is its name."""

    port: int
    socket: Path
    journal: Path

    def ask(self, method: str, path: str, body: object = None, key: str | None = None, **headers: str) -> Answer:
        """Send one request on a new connection; `body` is JSON or bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_CALL_S)
        return _sent(connection, (method, path), body, _named(key, headers))

    def ask_by_socket(self, method: str, path: str, body: object = None, key: str | None = None) -> Answer:
        """Send one request over the Unix socket."""
        connection = http.client.HTTPConnection("localhost", timeout=_CALL_S)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(_CALL_S)
        connection.sock.connect(str(self.socket))
        return _sent(connection, (method, path), body, _named(key, {}))

    def decide(self, key: str | None = None) -> Answer:
        """One decision."""
        return self.ask("POST", f"/v1/decisions/{DECISION}", {"input": {"account": "a1", "amount": AMOUNT}}, key)

    def metric(self, name: str, key: str | None = None, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        page = self.ask("GET", "/metrics", key=key).text
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        lines = [line for line in page.splitlines() if line.split("{")[0].split(" ")[0] == name]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if all(label in line for label in wanted))


def _named(key: str | None, headers: Mapping[str, str]) -> dict[str, str]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return named if key is None else {**named, "authorization": f"Bearer {key}"}


def _sent(
    connection: http.client.HTTPConnection, target: tuple[str, str], body: object, headers: Mapping[str, str]
) -> Answer:
    sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    with contextlib.closing(connection):
        connection.request(*target, sent, dict(headers))
        reply = connection.getresponse()
        return Answer(reply.status, reply.read().decode(errors="replace"))


@contextlib.contextmanager
def governed(
    build: Build,
    folder: Path,
    *,
    callers: Sequence[Json] | None = None,
    document: Mapping[str, object] | None = None,
    **settings: object,
) -> Iterator[Server]:
    """flyballd with decision `pay`, its two models in one variant, and model `price`; a caller's key is its name."""
    config: Json = {
        "listen": ["127.0.0.1:0", f"unix:{folder / 's.sock'}"],
        "lanes": 1,
        "journal_folder": str(folder / "journal"),
        "allow_model_control": True,
        "allow_shared_memory": True,
        **settings,
    }
    if callers is not None:
        named = [_known(caller) for caller in callers]
        (folder / "callers.json").write_text(json.dumps({"callers": named}))
        config["callers"] = str(folder / "callers.json")
    (folder / "config.json").write_text(json.dumps(config))
    index = _snapshot(folder, dict(document or {}))
    command = [build.flyballd, "--unsigned", "allow", "--snapshot", str(index), "--config", str(folder / "config.json")]
    with ServerProcess(command, folder, {"ORT_DYLIB_PATH": build.ort_library()}) as running:
        yield Server(running.port, folder / "s.sock", folder / "journal")


def _known(caller: Json) -> Json:
    if caller["name"] == "anonymous":
        return caller
    return {**caller, "keys_sha256": [hashlib.sha256(str(caller["name"]).encode()).hexdigest()]}


def model(path: Path, factor: float) -> Path:
    """One float in, the float times a factor out."""
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "k"], ["score"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1])],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["n", 1])],
        [numpy_helper.from_array(np.array([[factor]], np.float32), "k")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, path)
    return path


def _snapshot(folder: Path, changes: Json) -> Path:
    first, second = model(folder / "first.onnx", 0.001), model(folder / "second.onnx", 0.002)
    used = [
        {"name": name, "version": version, "inputs": [{"tensor": "x", "columns": ["amount"]}],
         "score": {"output": "score", "element": 0}}
        for name, version in (("m", "1"), ("n", "2"))
    ]  # fmt: skip
    decision: Json = {
        "owner": "risk@example.com",
        "purpose": "attempts",
        "input": [
            {"name": "account", "type": "string", "key": True, "pii": True},
            {"name": "amount", "type": "float", "min": 0.0, "max": 1_000_000.0},
        ],
        "models": used,
        "variants": [{"name": "champion", "models": ["m", "n"], "weights": {"m": 1.0}}],
        "policy": {
            "bands": [{"name": "low", "outcome": "pass", "to": 0.5}, {"name": "high", "outcome": "review", "from": 0.5}],
            "outcomes": ["pass", "review", "reject"],
        },
        **changes,
    }
    documents = [
        {"format": 1, "name": DECISION, "route": {"version": "1"},
         "versions": [_version("1", first), _version("2", second)], "decision": decision},
        {"format": 1, "name": PLAIN, "route": {"version": "1"}, "versions": [_version("1", first)]},
    ]  # fmt: skip
    (folder / "snapshot" / "deployments").mkdir(parents=True)
    entries = []
    for document in documents:
        content = json.dumps(document).encode()
        digest = hashlib.sha256(content).hexdigest()
        (folder / "snapshot" / "deployments" / f"{digest}.json").write_bytes(content)
        entries.append({"name": document["name"], "digest": f"sha256:{digest}"})
    index = folder / "snapshot" / "index.json"
    index.write_text(json.dumps({"format": 1, "generation": 1, "deployments": entries}))
    return index


def _version(version: str, path: Path) -> Json:
    digest = "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
    return {"version": version, "artifact": {"path": str(path), "digest": digest, "external_data": []}}
