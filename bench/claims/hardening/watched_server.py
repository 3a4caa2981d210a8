"""Misbehaving models, hand-written snapshots, and servers with logs, shared by the attempts on models.

Imports nothing of `flyball`: a build is driven by its commands and its port.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.claims.hardening.server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from bench.claims.hardening.attempts import Build

T = TypeVar("T")
COMMAND_S = 180.0


def _saved(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: dict[str, NDArray[Any]],
) -> Path:
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def _counts() -> onnx.NodeProto:
    """A loop that adds one to `zero` for `trips` trips."""
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Identity", ["go_on"], ["still"]), helper.make_node("Add", ["before", "one"], ["after"])]
    given = [
        value("trip", TensorProto.INT64, []),
        value("go_on", TensorProto.BOOL, []),
        value("before", TensorProto.FLOAT, [1]),
    ]
    results = [value("still", TensorProto.BOOL, []), value("after", TensorProto.FLOAT, [1])]
    one = numpy_helper.from_array(np.ones(1, np.float32), "one")
    body = helper.make_graph(nodes, "body", given, results, [one])
    return helper.make_node("Loop", ["trips", "", "zero"], ["counted"], body=body)


def doubling(folder: Path) -> Path:
    """A valid model: y = 2 x."""
    value = helper.make_tensor_value_info
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 1])], [value("y", TensorProto.FLOAT, ["n", 1])]
    nodes = [helper.make_node("Add", ["x", "x"], ["y"])]
    return _saved(folder / "doubling.onnx", nodes, inputs, outputs, {})


def endless(folder: Path) -> Path:
    """Counts forever before it answers."""
    value = helper.make_tensor_value_info
    nodes = [_counts(), helper.make_node("Add", ["x", "counted"], ["y"])]
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 1])], [value("y", TensorProto.FLOAT, ["n", 1])]
    constants: dict[str, NDArray[Any]] = {"trips": np.array(2**62, np.int64), "zero": np.zeros(1, np.float32)}
    return _saved(folder / "endless.onnx", nodes, inputs, outputs, constants)


def holding(folder: Path) -> Path:
    """One operator that cannot be interrupted, and takes as long as its input says."""
    value = helper.make_tensor_value_info
    one = helper.make_tensor("value", TensorProto.INT64, [1], [1])
    nodes = [
        _counts(),
        helper.make_node("Cast", ["counted"], ["once"], to=TensorProto.INT64),
        helper.make_node("Concat", ["x", "x"], ["shape"], axis=0),
        helper.make_node("ConstantOfShape", ["shape"], ["ones"], value=one),
        helper.make_node("MatMul", ["ones", "ones"], ["product"]),
        helper.make_node("ReduceMax", ["product"], ["most"], keepdims=0),
        helper.make_node("Add", ["once", "most"], ["y"]),
    ]
    inputs, outputs = [value("x", TensorProto.INT64, [1])], [value("y", TensorProto.INT64, [1])]
    constants: dict[str, NDArray[Any]] = {"trips": np.array(1, np.int64), "zero": np.zeros(1, np.float32)}
    return _saved(folder / "holding.onnx", nodes, inputs, outputs, constants)


def dividing(folder: Path) -> Path:
    """y = x / -1, in integers."""
    value = helper.make_tensor_value_info
    inputs, outputs = [value("x", TensorProto.INT64, [1])], [value("y", TensorProto.INT64, [1])]
    nodes = [helper.make_node("Div", ["x", "minus_one"], ["y"])]
    return _saved(folder / "dividing.onnx", nodes, inputs, outputs, {"minus_one": np.array(-1, np.int64)})


def document(name: str, model: Path, **more: Any) -> dict[str, Any]:
    """An unsigned deployment of one model."""
    artifact = {"path": str(model), "digest": f"sha256:{hashlib.sha256(model.read_bytes()).hexdigest()}"}
    versions = [{"version": "1", "artifact": artifact}]
    return {"format": 1, "name": name, "route": {"version": "1"}, "versions": versions, **more}


def publish(folder: Path, generation: int, documents: list[dict[str, Any]]) -> Path:
    """Write a snapshot with an unsigned index."""
    (folder / "deployments").mkdir(parents=True, exist_ok=True)
    entries = []
    for one in documents:
        content = json.dumps(one).encode()
        digest = hashlib.sha256(content).hexdigest()
        (folder / "deployments" / f"{digest}.json").write_bytes(content)
        entries.append({"name": one["name"], "digest": f"sha256:{digest}"})
    (folder / "index.sig.json").unlink(missing_ok=True)
    fresh = folder / "index.json.new"
    fresh.write_text(json.dumps({"format": 1, "generation": generation, "deployments": entries}))
    fresh.replace(folder / "index.json")
    return folder / "index.json"


class Watched(ServerProcess):
    """A server of a build, with requests to its models."""

    def __init__(self, command: list[str], build: Build, folder: Path) -> None:
        super().__init__(command, folder, {"ORT_DYLIB_PATH": build.ort_library()})

    def ask(self, model: str, datatype: str, shape: list[int], value: float, wait_s: float = 5.0) -> int:
        """The status of an inference; 0 without a reply in time."""
        tensor = {"name": "x", "datatype": datatype, "shape": shape, "data": [value]}
        body = json.dumps({"inputs": [tensor]}).encode()
        return self._status(f"{self.url}/v2/models/{model}/infer", body, wait_s)

    def ready(self, model: str) -> bool:
        """Whether a model serves."""
        return self._status(f"{self.url}/v2/models/{model}/ready", None, 5.0) == 200

    def states(self) -> dict[str, str]:
        """The state of each name in `/v1/deployments`; the first if it is listed twice."""
        with urllib.request.urlopen(f"{self.url}/v1/deployments", timeout=5.0) as reply:  # noqa: S310
            return {one["name"]: one["state"] for one in reversed(json.load(reply)["deployments"])}

    @staticmethod
    def _status(url: str, body: bytes | None, wait_s: float) -> int:
        try:
            with urllib.request.urlopen(url, data=body, timeout=wait_s) as reply:  # noqa: S310
                return int(reply.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0


def until(found: Callable[[], T], wait_s: float) -> T | None:
    """Poll until the result is true or the time is over."""
    end = time.monotonic() + wait_s
    while True:
        try:
            here = found()
        except OSError:
            here = None
        if here or time.monotonic() > end:
            return here or None
        time.sleep(0.05)


def run(build: Build, folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the build in a folder."""
    env = os.environ | environment
    return subprocess.run(
        [build.flyball, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=COMMAND_S, check=False
    )
