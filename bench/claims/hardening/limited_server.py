"""A server with models and a memory limit, started by a build's commands. Imports nothing of `flyball`."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.claims.hardening.server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.claims.hardening.attempts import Build
    from bench.claims.hardening.cage import Cage


class Served(ServerProcess):
    """A server with requests to its models and its memory figures."""

    def infer(self, model: str, inputs: list[dict[str, Any]], timeout_s: float = 60.0) -> tuple[int, bytes]:
        """One inference; status 0 if the server ended or did not answer in time."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            body = json.dumps({"inputs": inputs})
            connection.request("POST", f"/v2/models/{model}/infer", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            return 0, repr(error).encode()
        finally:
            connection.close()

    def status_mb(self, key: str) -> float:
        """A value of /proc/PID/status: VmRSS is resident memory, VmHWM its peak."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"^{key}:\s+(\d+) kB", text, re.MULTILINE)
        return int(found[1]) / 1000 if found else 0.0


@contextmanager
def served(
    build: Build, folder: Path, models: Sequence[Path], cage: Cage | None = None, **settings: object
) -> Iterator[Served]:
    """`flyballd` with these models, each named after its file."""
    sources = [f"{path.stem}={path}" for path in models]
    out = folder / "snapshot"
    subprocess.run([build.flyball, "snapshot", *sources, "--out", str(out)], check=True, capture_output=True, timeout=120)
    library = build.ort_library()
    config = folder / "config.json"
    config.write_text(
        json.dumps({"lanes": 1, "listen": ["127.0.0.1:0"], "unsigned": "allow", "ort_path": library, **settings})
    )
    command = [build.flyballd, "--snapshot", str(out / "index.json"), "--config", str(config)]
    server = Served(cage.command(command) if cage else command, folder)
    try:
        yield server
    finally:
        server.stop()


def save_counted(path: Path, operator: str = "Range", *, summed: bool = False) -> Path:
    """A model whose INT64 input of shape [1, 1] sets the number of output elements."""
    made = "all" if summed else "y"
    nodes = [helper.make_node("Squeeze", ["n"], ["count"])]
    if operator == "Range":
        nodes.append(helper.make_node("Range", ["zero", "count", "one"], [made]))
    else:
        nodes += [
            helper.make_node("Unsqueeze", ["count", "axis"], ["shape"]),
            helper.make_node(operator, ["shape"], [made]),
        ]
    if summed:
        nodes.append(helper.make_node("ReduceSum", ["all"], ["y"]))
    kind = TensorProto.INT64 if operator == "Range" else TensorProto.FLOAT
    constants = {"zero": np.array(0), "one": np.array(1), "axis": np.array([0])}
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info("n", TensorProto.INT64, [1, 1])],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(value.astype(np.int64), name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), str(path))
    return path


def count(elements: int) -> list[dict[str, Any]]:
    """The input for this number of output elements."""
    return [{"name": "n", "datatype": "INT64", "shape": [1, 1], "data": [elements]}]
