"""Small decisions whose score is a feature, so that answers show what the server counted or looked up.

Must not know what is claimed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = """
owner: claims@example.com
purpose: show what was counted and looked up
slo: {timeout: 200ms}
model: {path: sum.onnx, name: sum, columns: %s, score: "score[0]"}
policy:
  bands: {low: "< 1000", high: ">= 1000"}
  outcomes: [low, high, review]
remedies: {feature_error: review}
"""

VELOCITY = (
    "decision: velocity"
    + _HEAD % "[payments_1h, spent_1h]"
    + """
event_time: at
input:
  account: {type: string, key: true}
  amount: {type: float, min: 0, max: 1000}
  at: time
features:
  payments_1h: {window: count() by account last 1h, on_missing: -1}
  spent_1h: {window: sum(amount) by account last 1h, on_missing: -1}
"""
)


def looked_up(url: str, timeout_ms: int) -> str:
    """A decision by one feature of a record in Redis, which is kept for a moment only."""
    return (
        "decision: looked-up"
        + _HEAD % "[risk, amount]"
        + f"""
input:
  account: {{type: string, key: true}}
  amount: {{type: float, min: 0, max: 1000}}
sources:
  accounts: {{redis: "{url}", timeout: {timeout_ms}ms, cache: {{ttl: 50ms, absent_ttl: 50ms}}}}
features:
  risk: {{lookup: accounts, key: account, field: risk, type: float, on_error: fault, on_missing: fault}}
"""
    )


def write(folder: Path, text: str, name: str) -> Path:
    """The spec with its model: the first column and a thousandth of the second."""
    folder.mkdir()
    write_model(folder / "sum.onnx", (1.0, 0.001))
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path


def write_model(path: Path, weights: tuple[float, float]) -> Path:
    """Two columns in, their weighted sum out."""
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["score"])],
        "sum",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["n", 1])],
        [numpy_helper.from_array(np.array(weights, np.float32).reshape(2, 1), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return path
