"""Commands, small models and a server, for attempts on actors, training, remedies, checks and candidates.

Imports nothing of `flyball`: it uses only a build's commands.
"""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from bench.claims.hardening.server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.claims.hardening.attempts import Build

_COMMAND_S = 60


def flyball(build: Build, folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """One command, in the attempt's folder; it has a minute."""
    plain = {key: value for key, value in os.environ.items() if not key.startswith("FLYBALL_")}
    return subprocess.run(
        [build.flyball, *words],
        cwd=folder,
        env={**plain, **environment},
        capture_output=True,
        text=True,
        timeout=_COMMAND_S,
        check=False,
    )


def done(build: Build, folder: Path, *words: str) -> str:
    """The same for a command that must work, or the attempt is broken."""
    ran = flyball(build, folder, *words)
    if ran.returncode:
        raise RuntimeError(f"flyball {' '.join(words)}: {ran.stderr.strip()[:200]}")
    return ran.stdout


def linear(path: Path, columns: int, *, across: bool = False) -> Path:
    """A model whose score is the sum of its columns, scaled down; `across`: each row's depends on the others of its run."""
    weight = numpy_helper.from_array(np.full((columns, 1), 0.01, dtype=np.float32), "w")
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["sum"]),
            helper.make_node("ReduceMax", ["sum"], ["most"], axes=[0], keepdims=1),
            helper.make_node("Add", ["sum", "most"], ["score"])
            if across
            else helper.make_node("Identity", ["sum"], ["score"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", columns])],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["N", 1])],
        [weight],
    )
    return saved(path, graph)


def saved(path: Path, graph: Any) -> Path:
    """The model's file."""
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


@contextmanager
def serving(command: list[str], folder: Path) -> Iterator[str]:
    """The address of a server that is ready."""
    server = ServerProcess(command, folder)
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        server.stop()


def asked(url: str, body: object = None) -> tuple[int, str]:
    """Status and text of an answer."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"content-type": "application/json"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
