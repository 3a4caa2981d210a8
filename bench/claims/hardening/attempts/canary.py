"""Attempts on a candidate's faults: which version they are counted under."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from bench.claims.hardening.attempts import Seen, attempt
from bench.claims.hardening.commands import asked, saved, serving

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.hardening.attempts import Build

_REQUESTS = 200
_FAULTS = re.compile(r"^flyball_faults_total\{([^}]*)\} (\d+)", re.MULTILINE)


def _model(path: Path, *, breaks: bool) -> dict[str, Any]:
    """A table of its input's value: the candidate's has one place only, and fails on any other."""
    table = numpy_helper.from_array(np.arange(1 if breaks else 100, dtype=np.float32), "table")
    nodes = [
        helper.make_node("Cast", ["x"], ["index"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "index"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 1]) for name in ("x", "y"))
    saved(path, helper.make_graph(nodes, "g", [x], [y], [table]))
    return {"path": str(path), "digest": f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"}


def _snapshot(folder: Path) -> Path:
    """A deployment with a candidate that gets half of the requests."""
    versions = [{"version": "1", "artifact": _model(folder / "one.onnx", breaks=False)}]
    tried = [{"version": "2", "artifact": _model(folder / "two.onnx", breaks=True)}]
    document = json.dumps({
        "format": 1, "name": "m", "route": {"version": "1"}, "versions": versions,
        "candidate": {"share": 0.5, "shadow": False, "versions": tried},
    }).encode()  # fmt: skip
    digest = hashlib.sha256(document).hexdigest()
    (folder / "deployments").mkdir()
    (folder / f"deployments/{digest}.json").write_bytes(document)
    index = {"format": 1, "generation": 1, "deployments": [{"name": "m", "digest": f"sha256:{digest}"}]}
    (folder / "index.json").write_text(json.dumps(index))
    return folder / "index.json"


@attempt("a fault of a candidate with a share is counted under a random version")
def canary_faults(build: Build, folder: Path) -> Seen:
    """Version 2 fails on every request, version 1 on none: all faults are version 2's."""
    command = [
        build.flyball,
        "serve",
        "--snapshot",
        str(_snapshot(folder)),
        "--unsigned",
        "allow",
        "--listen",
        "127.0.0.1:0",
    ]
    body = {"inputs": [{"name": "x", "shape": [1, 1], "datatype": "FP32", "data": [5.0]}]}
    with serving(command, folder) as address:
        failed = sum(asked(f"http://{address}/v2/models/m/infer", body)[0] != 200 for _ in range(_REQUESTS))
        page = asked(f"http://{address}/metrics")[1]
    counted = {"1": 0, "2": 0}
    for labels, count in _FAULTS.findall(page):
        version = re.search(r'version="(\d*)"', labels)
        if version and version[1] in counted:
            counted[version[1]] += int(count)
    text = f"{failed} of {_REQUESTS} drew version 2 and failed; counted: {counted['1']} under 1, {counted['2']} under 2"
    return Seen(text, holds=failed > 0 and counted == {"1": 0, "2": failed})
