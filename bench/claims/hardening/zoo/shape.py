"""Models with a hostile structure: depth, width, recursion, and inconsistent constants."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto, helper

from bench.claims.hardening.zoo.build import BOOL, FLOAT, INT64, Hostile, const, loop, model, node, value, whole
from bench.claims.hardening.zoo.running import nested

if TYPE_CHECKING:
    from onnx import FunctionProto, ModelProto

_DOMAIN = "hostile"


def _deep_if(levels: int) -> ModelProto:
    inner = helper.make_graph([node("Identity", ["f_one"], ["r0"])], "g0", [], [value("r0", FLOAT, None)])
    for level in range(1, levels):
        branch = node("If", ["yes"], [f"r{level}"], then_branch=inner, else_branch=inner if level < 8 else _leaf(level))
        inner = helper.make_graph([branch], f"g{level}", [], [value(f"r{level}", FLOAT, None)])
    nodes = [node("Cast", ["count"], ["yes"], to=BOOL), node("If", ["yes"], ["y"], then_branch=inner, else_branch=_leaf(0))]
    return model(nodes)


def _leaf(level: int) -> object:
    name = f"leaf{level}"
    return helper.make_graph([node("Identity", ["f_one"], [name])], name, [], [value(name, FLOAT, None)])


def _chain(length: int) -> ModelProto:
    names = ["f_one", *(f"c{number}" for number in range(length - 1)), "y"]
    start = node("Cast", ["count"], ["as_float"], to=FLOAT)
    first = node("Add", ["as_float", "f_one"], [names[1]])
    rest = [node("Sin", [a], [b]) for a, b in pairwise(names[1:])]
    return model([start, first, *rest])


def _fan_out(width: int) -> ModelProto:
    """n wide tensors that are all alive at once."""
    names = [f"w{number}" for number in range(width)]
    nodes = [node("Expand", ["f_one", "shape"], ["all"])]
    # Each by a number of its own: equal ones would be worked out once.
    nodes += [node("Mul", ["all", f"c_{name}"], [name]) for name in names]
    nodes.append(node("Sum", names, ["y"]))
    return model(nodes, [const(f"c_{name}", [number], np.float32) for number, name in enumerate(names)])


def _many_outputs(width: int) -> ModelProto:
    made = model([node("Expand", ["f_one", "shape"], ["y"])])
    for number in range(width):
        made.graph.node.append(node("Identity", ["y"], [f"o{number}"]))
        made.graph.output.append(value(f"o{number}", FLOAT, None))
    return made


def _function(name: str, calls: list[str]) -> FunctionProto:
    outputs = [f"c{number}" for number in range(len(calls))]
    nodes = [node(call, ["a"], [output], domain=_DOMAIN) for call, output in zip(calls, outputs, strict=True)]
    nodes.append(node("Sum", outputs, ["b"]) if outputs else node("Sin", ["a"], ["b"]))
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(_DOMAIN, 1)]
    return helper.make_function(_DOMAIN, name, ["a"], ["b"], nodes, opsets)


def _calling(functions: list[FunctionProto]) -> ModelProto:
    nodes = [node("Cast", ["count"], ["a"], to=FLOAT), node("f0", ["a"], ["y"], domain=_DOMAIN)]
    return model(nodes, opsets=[helper.make_opsetid(_DOMAIN, 1)], functions=functions)


def _explosion(levels: int, calls: int) -> ModelProto:
    """Each function calls the next so many times: written out, it is their power."""
    return _calling(
        [_function(f"f{level}", [f"f{level + 1}"] * calls if level + 1 < levels else []) for level in range(levels)]
    )


def _lying_tensor(dims: list[int], raw_data: bytes = b"") -> ModelProto:
    made = model([node("Cast", ["count"], ["a"], to=FLOAT), node("Add", ["a", "w"], ["y"])])
    made.graph.initializer.append(TensorProto(name="w", data_type=FLOAT, dims=dims, raw_data=raw_data))
    return made


def _external(location: str, length: int) -> ModelProto:
    made = _lying_tensor([length // 4])
    tensor = made.graph.initializer[-1]
    tensor.data_location = TensorProto.EXTERNAL
    for key, content in {"location": location, "offset": "0", "length": str(length)}.items():
        tensor.external_data.add(key=key, value=content)
    return made


def _sparse(size: int) -> ModelProto:
    made = model([node("Cast", ["count"], ["a"], to=FLOAT), node("Add", ["a", "w"], ["y"])])
    values = const("w", [1.0], np.float32)
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, const("w_indices", [size - 1]), [size]))
    return made


def _folded(operator: str, size: int) -> ModelProto:
    """Made of constants alone: worked out while the model is loaded."""
    nodes = [
        node("Expand", ["f_one", "size"], ["big"]) if operator == "Expand" else node(operator, ["size"], ["big"]),
        node("ReduceSum", ["big"], ["sum"], keepdims=0),
        node("Cast", ["count"], ["a"], to=FLOAT),
        node("Add", ["a", "sum"], ["y"]),
    ]
    return model(nodes, [const("size", [size])])


def _huge_constant() -> ModelProto:
    zeros = np.zeros(60_000_000, np.float32)
    nodes = [node("Cast", ["count"], ["a"], to=FLOAT), node("Add", ["a", "w"], ["y"])]
    return model(nodes, [const("w", zeros, np.float32)])


def _no_outputs() -> ModelProto:
    graph = helper.make_graph(
        [node("Identity", ["n"], ["y"])], "bare", [value("n", INT64, [1, 1])], [value("y", INT64, [2**40, 2**40])]
    )
    return whole(graph)


MODELS = [
    Hostile("deep_if", "24 Ifs inside each other", 1, lambda: _deep_if(24)),
    Hostile("deep_loop", "24 Loops inside each other", 2, lambda: model([loop("count", nested(24), ["f_one"])])),
    Hostile("chain", "20,000 nodes in a row", 1, lambda: _chain(20_000)),
    Hostile("fan_out", "3,000 tensors of n at once", 4_000_000, lambda: _fan_out(3_000)),
    Hostile("many_outputs", "2,000 outputs of n", 1_000_000, lambda: _many_outputs(2_000)),
    Hostile("self_call", "a function that calls itself", 1, lambda: _calling([_function("f0", ["f0"])])),
    Hostile(
        "mutual_call",
        "two functions that call each other",
        1,
        lambda: _calling([_function("f0", ["f1"]), _function("f1", ["f0"])]),
    ),
    Hostile("explosion", "functions that write out to 10^9 nodes", 1, lambda: _explosion(10, 10)),
    Hostile(
        "short_constant",
        "a constant with fewer bytes than its shape says",
        1,
        lambda: _lying_tensor([2**34], raw_data=b"0000"),
    ),
    Hostile(
        "overflowing_constant", "a constant whose size overflows", 1, lambda: _lying_tensor([2**33, 2**33], raw_data=b"0000")
    ),
    Hostile("external_outside", "weights in another folder", 1, lambda: _external("../../../../etc/passwd", 4)),
    Hostile("external_missing", "weights in a file that is not there", 1, lambda: _external("nothing.bin", 2**40)),
    Hostile("huge_constant", "240 MB of zeros", 1, _huge_constant),
    Hostile("impossible_shape", "an output of 2^80 elements, as declared", 1, _no_outputs),
    Hostile("sparse_constant", "one value among 2^31", 1, lambda: _sparse(2**31 - 1), at_load=True),
    Hostile(
        "folded_expand", "a constant that grows while it is loaded", 1, lambda: _folded("Expand", 900_000_000), at_load=True
    ),
    Hostile("folded_constant", "another one", 1, lambda: _folded("ConstantOfShape", 900_000_000), at_load=True),
]
