"""Models that never end: loops, and uninterruptible operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import helper

from bench.claims.hardening.zoo.build import BOOL, FLOAT, INT64, Hostile, body, const, loop, model, node, value

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

_FOR_EVER = 2**62
_GENERATOR = np.random.default_rng(7)


def _adding() -> GraphProto:
    return body([node("Add", ["v_in", "f_one"], ["v_out"])], carried=[("v", FLOAT)])


def nested(levels: int, trips: str = "count") -> GraphProto:
    """The body of so many Loops inside each other."""
    inner = _adding()
    for level in range(1, levels):
        own = f"v{level}"
        inner = body([loop(trips, inner, [f"{own}_in"], [f"{own}_out"])], carried=[(own, FLOAT)], level=level)
    return inner


def _multiplying() -> ModelProto:
    inner = body([node("MatMul", ["v_in", "square"], ["v_out"])], carried=[("v", FLOAT)])
    return model([loop("count", inner, ["square"])], [const("square", _GENERATOR.random((256, 256)), np.float32)])


def _while() -> ModelProto:
    inner = body(
        [node("Greater", ["count", "zero"], ["more"]), node("Add", ["v_in", "f_one"], ["v_out"])],
        carried=[("v", FLOAT)],
        go_on="more",
    )
    # The node that tells whether to go on comes before the one that passes it on.
    inner.node.insert(0, inner.node[1])
    del inner.node[2]
    return model([node("Loop", ["", "yes", "f_one"], ["y"], body=inner)], [const("yes", True, np.bool_)])


def _choosing() -> ModelProto:
    branches = [
        helper.make_graph([node("Add", ["v_in", "f_one"], [name])], name, [], [value(name, FLOAT, None)])
        for name in ("a", "b")
    ]
    odd = [
        node("Mod", ["trip0", "two"], ["rest"]),
        node("Cast", ["rest"], ["odd"], to=BOOL),
        node("If", ["odd"], ["v_out"], then_branch=branches[0], else_branch=branches[1]),
    ]
    return model([loop("count", body(odd, carried=[("v", FLOAT)]), ["f_one"])], [const("two", 2)])


def _scanning() -> ModelProto:
    inner = helper.make_graph(
        [node("Add", ["s_in", "x"], ["s_out"]), node("Identity", ["s_out"], ["each"])],
        "body",
        [value("s_in", FLOAT, []), value("x", FLOAT, [])],
        [value("s_out", FLOAT, []), value("each", FLOAT, [])],
    )
    nodes = [
        node("Expand", ["f_one", "shape"], ["all"]),
        node("Scan", ["f_zero", "all"], ["y", "rest"], body=inner, num_scan_inputs=1),
    ]
    return model(nodes, [const("f_zero", 0.0, np.float32)])


def _constant_trips(levels: int) -> ModelProto:
    """Runs on whatever its input is: the probe at load never ends."""
    return model([loop("ever", nested(levels, "ever"), ["f_one"])], [const("ever", _FOR_EVER)])


def _wide(*nodes: NodeProto, kind: int = FLOAT) -> ModelProto:
    """`all` is n ones."""
    return model([node("Expand", ["f_one", "shape"], ["all"]), *nodes], kind=kind)


def _squares(last: NodeProto) -> ModelProto:
    """`a` is n by n."""
    return model([node("Concat", ["shape", "shape"], ["square"], axis=0), node("Expand", ["f_one", "square"], ["a"]), last])


def _convolution() -> ModelProto:
    nodes = [
        node("Concat", ["c1_64", "shape", "shape"], ["size"], axis=0),
        node("Expand", ["f_one", "size"], ["image"]),
        node("Conv", ["image", "kernel"], ["y"], pads=[5, 5, 5, 5]),
    ]
    return model(nodes, [const("c1_64", [1, 64]), const("kernel", np.ones((64, 64, 11, 11)), np.float32)])


def _boxes() -> ModelProto:
    """Boxes that do not overlap: each is compared with every other."""
    nodes = [
        node("Range", ["zero", "count", "one"], ["numbers"]),
        node("Cast", ["numbers"], ["at"], to=FLOAT),
        node("Mul", ["at", "two"], ["x1"]),
        node("Add", ["x1", "f_one"], ["x2"]),
        node("Expand", ["f_zero", "shape"], ["y1"]),
        node("Expand", ["f_one", "shape"], ["y2"]),
        *(node("Unsqueeze", [name, "last"], [f"{name}_"]) for name in ("x1", "y1", "x2", "y2")),
        node("Concat", ["y1_", "x1_", "y2_", "x2_"], ["flat"], axis=-1),
        node("Unsqueeze", ["flat", "axis"], ["boxes"]),
        node("Unsqueeze", ["at", "first_two"], ["scores"]),
        node("NonMaxSuppression", ["boxes", "scores", "shape", "half"], ["y"]),
    ]
    constants = [
        const("two", 2.0, np.float32),
        const("f_zero", [0.0], np.float32),
        const("last", [-1]),
        const("first_two", [0, 1]),
        const("half", [0.5], np.float32),
    ]
    return model(nodes, constants, kind=INT64)


def _recurrent() -> ModelProto:
    hidden = 64
    nodes = [
        node("Concat", ["shape", "c1_16"], ["size"], axis=0),
        node("Expand", ["f_one", "size"], ["steps"]),
        node("LSTM", ["steps", "w", "r"], ["", "y"], hidden_size=hidden),
    ]
    constants = [
        const("c1_16", [1, 16]),
        const("w", _GENERATOR.random((1, 4 * hidden, 16)), np.float32),
        const("r", _GENERATOR.random((1, 4 * hidden, hidden)), np.float32),
    ]
    return model(nodes, constants)


def _frameless() -> ModelProto:
    """ONNX Runtime 1.31 divides by the length of a frame without a check."""
    nodes = [node("Sub", ["count", "one"], ["length"]), node("STFT", ["signal", "one", "", "length"], ["y"])]
    return model(nodes, [const("signal", np.ones((1, 64, 1)), np.float32)])


MODELS = [
    Hostile("endless", "a Loop without end", _FOR_EVER, lambda: model([loop("count", nested(1), ["f_one"])])),
    Hostile("endless_while", "a Loop whose condition stays true", 1, _while, at_load=True),
    Hostile("nested", "three Loops inside each other", 100_000, lambda: model([loop("count", nested(3), ["f_one"])])),
    Hostile("multiplying", "a matrix product in each of n trips", _FOR_EVER, _multiplying),
    Hostile("choosing", "an If in each of n trips", _FOR_EVER, _choosing),
    Hostile("scanning", "a Scan over n steps", 20_000_000, _scanning),
    Hostile(
        "slow_product",
        "one product of n by n, not to be interrupted",
        4500,
        lambda: _squares(node("MatMul", ["a", "a"], ["y"])),
    ),
    Hostile(
        "slow_einsum",
        "one Einsum over n by n, in which ONNX Runtime 1.31 divides by zero where n is 0",
        4000,
        lambda: _squares(node("Einsum", ["a", "a"], ["y"], equation="ij,kj->ik")),
        at_load=True,
    ),
    Hostile("slow_convolution", "one Conv over n by n", 600, _convolution),
    Hostile("slow_top_k", "TopK of n", 40_000_000, lambda: _wide(node("TopK", ["all", "shape"], ["y", "at"]))),
    Hostile(
        "slow_unique",
        "Unique of n",
        20_000_000,
        lambda: model([node("Range", ["zero", "count", "one"], ["all"]), node("Unique", ["all"], ["y"])], kind=INT64),
    ),
    Hostile("slow_boxes", "NonMaxSuppression of n boxes", 40_000, _boxes),
    Hostile("slow_determinant", "Det of n by n", 1500, lambda: _squares(node("Det", ["a"], ["y"]))),
    Hostile(
        "dividing",
        "the smallest integer divided by -1, which the processor traps",
        -(2**63),
        lambda: model([node("Div", ["count", "minus_one"], ["y"])], [const("minus_one", -1)], kind=INT64),
    ),
    Hostile("frameless", "an STFT over frames of n - 1 samples, where n is 1", 1, _frameless),
    Hostile("slow_recurrence", "an LSTM of n steps", 300_000, _recurrent),
    Hostile("endless_at_load", "a Loop without end, whatever the input", 1, lambda: _constant_trips(1), at_load=True),
    Hostile("nested_at_load", "four of them inside each other", 1, lambda: _constant_trips(4), at_load=True),
]
