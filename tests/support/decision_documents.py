"""A small governed decision as a deployment document, and requests for it.

The score is the amount over a thousand, so that a test chooses score, band and guard by the amount alone.
"""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.support import snapshots
from tests.support.onnx_models import save, value
from tests.support.wire import Http, Reply

Json = dict[str, Any]

POLICY: Json = {
    "guards": [{"of": "score", "min": 0.0, "max": 1.0}],
    "rules": [{"when": "amount > 900.0", "then": "reject", "reason": "R1"}],
    "bands": [{"name": "low", "outcome": "pass", "to": 0.5}, {"name": "high", "outcome": "review", "from": 0.5}],
    "outcomes": ["pass", "review", "reject"],
}


def thousandth(folder: Path, name: str = "thousandth", factor: float = 0.001) -> Path:
    """One float in, the score out."""
    nodes = [helper.make_node("Mul", ["x", "k"], ["score"])]
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 1])], [value("score", TensorProto.FLOAT, ["n", 1])]
    return save(folder / f"{name}.onnx", nodes, inputs, outputs, {"k": np.array([[factor]], np.float32)})


def weighty(folder: Path, steps: int) -> Path:
    """Some milliseconds of work in each step, for any number of rows; the score is 0."""
    wide = 1500
    constants = {
        "in": np.zeros((1, wide), np.float32),
        "w": np.eye(wide, dtype=np.float32),
        "out": np.ones((wide, 1), np.float32),
    }
    names = ["wide", *(f"m{step}" for step in range(steps))]
    nodes = [helper.make_node("MatMul", ["x", "in"], ["wide"])]
    nodes += [helper.make_node("MatMul", [one, "w"], [other]) for one, other in pairwise(names)]
    nodes.append(helper.make_node("MatMul", [names[-1], "out"], ["score"]))
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 1])], [value("score", TensorProto.FLOAT, ["n", 1])]
    return save(folder / "weighty.onnx", nodes, inputs, outputs, constants)


def document(**changes: Any) -> Json:
    """The decision; a change replaces a whole key."""
    return {
        "owner": "tests@example.com",
        "purpose": "tests",
        "input": [
            {"name": "account", "type": "string", "key": True},
            {"name": "amount", "type": "float", "min": 0.0, "max": 1_000_000.0},
        ],
        "models": [model("m", "1")],
        "variants": [{"name": "champion", "models": ["m"], "weights": {"m": 1.0}}],
        "policy": POLICY,
        **changes,
    }


def model(name: str, version: str, *, tensor: str = "x", output: str = "score", columns: list[str] | None = None) -> Json:
    inputs = [{"tensor": tensor, "columns": columns or ["amount"]}]
    return {"name": name, "version": version, "inputs": inputs, "score": {"output": output, "element": 0}}


def with_previous(**changes: Any) -> Json:
    """Two versions: "1" is the previous known-good one, "2" is the champion."""
    return document(
        models=[model("m", "2"), model("m-previous", "1")],
        variants=[
            {"name": "champion", "models": ["m"], "weights": {"m": 1.0}},
            {"name": "previous", "models": ["m-previous"], "weights": {"m-previous": 1.0}},
        ],
        route={"fallback": "previous"},
        **changes,
    )


def deployment(decision: Json, versions: dict[str, Path], name: str = "pay", **terms: Any) -> Json:
    """A deployment that decides."""
    first = next(iter(versions.values()))
    return {**snapshots.deployment(name, first, versions=versions, **terms), "decision": decision}


def ask(server: Any, amount: Any, *, name: str = "pay", account: str = "a1", **headers: str) -> Reply:
    """One decision over HTTP. A header's underscores stand for hyphens."""
    body = json.dumps({"input": {"account": account, "amount": amount}}).encode()
    with Http(server) as connection:
        return connection.post(
            f"/v1/decisions/{name}", body, **{key.replace("_", "-"): text for key, text in headers.items()}
        )


def decided(reply: Reply) -> Json:
    """The decision of an answer that must be one."""
    assert reply.status == 200, (reply.status, reply.body)
    answer: Json = reply.json
    return answer


def problem(reply: Reply, status: int) -> Json:
    """The problem details of an answer that must be a refusal."""
    assert reply.status == status, (reply.status, reply.body)
    assert reply.headers["content-type"] == "application/problem+json"
    told: Json = reply.json
    assert told["status"] == status
    return told
