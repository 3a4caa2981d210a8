"""Builds hostile models: nodes, constants and loop bodies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from onnx import GraphProto, ModelProto, NodeProto
    from onnx import TensorProto as Tensor

node = helper.make_node
value = helper.make_tensor_value_info
FLOAT, INT64, BOOL, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING
OPSET, IR = 21, 10


@dataclass(frozen=True, slots=True)
class Hostile:
    """One model, what it tries, and the `n` that it is called with."""

    name: str
    tries: str
    n: int
    make: Callable[[], ModelProto]
    at_load: bool = False

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """The request that sets it off, as the V2 protocol has it."""
        return [{"name": "n", "datatype": "INT64", "shape": [1, 1], "data": [self.n]}]


def const(name: str, content: object, dtype: Any = np.int64) -> Tensor:
    """A constant of the model."""
    return numpy_helper.from_array(np.asarray(content, dtype=dtype), name)


def text(name: str, content: str) -> Tensor:
    """A constant of one text."""
    return numpy_helper.from_array(np.array([content], dtype=object), name)


USUAL = [
    const("zero", 0),
    const("one", 1),
    const("axis", [0]),
    const("ones", [1]),
    const("f_one", [1.0], np.float32),
]


def model(nodes: Sequence[NodeProto], constants: Sequence[Tensor] = (), kind: int = FLOAT, **more: Any) -> ModelProto:
    """`count` is n as a scalar, `shape` n as a list of one; the last output is called y."""
    first = [node("Squeeze", ["n"], ["count"]), node("Unsqueeze", ["count", "axis"], ["shape"])]
    graph = helper.make_graph(
        [*first, *nodes], "hostile", [value("n", INT64, [1, 1])], [value("y", kind, None)], [*USUAL, *constants]
    )
    return whole(graph, **more)


def whole(graph: GraphProto, **more: Any) -> ModelProto:
    """A model of this graph."""
    opsets = [helper.make_opsetid("", OPSET), *more.pop("opsets", [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR, **more)


def body(
    nodes: Sequence[NodeProto],
    carried: Sequence[tuple[str, int]] = (),
    scanned: Sequence[tuple[str, int]] = (),
    constants: Sequence[Tensor] = (),
    *,
    go_on: str = "",
    level: int = 0,
) -> GraphProto:
    """A loop's body: `x_in` becomes `x_out` for each carried x; it goes on for as long as `go_on` says.

    Bodies inside one another need levels of their own, and other names for what they carry: ONNX has one space of names.
    """
    inputs = [
        value(f"trip{level}", INT64, []),
        value(f"go_on{level}", BOOL, []),
        *(value(f"{name}_in", kind, None) for name, kind in carried),
    ]
    outputs = [value(f"still{level}", BOOL, [])]
    outputs += [value(f"{name}_out", kind, None) for name, kind in carried]
    outputs += [value(name, kind, None) for name, kind in scanned]
    return helper.make_graph(
        [node("Identity", [go_on or f"go_on{level}"], [f"still{level}"]), *nodes], "body", inputs, outputs, list(constants)
    )


def loop(trips: str, inner: GraphProto, carried: Sequence[str] = (), outputs: Sequence[str] = ("y",)) -> NodeProto:
    """A loop of so many trips over a body."""
    return node("Loop", [trips, "", *carried], list(outputs), body=inner)
