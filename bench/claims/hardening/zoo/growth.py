"""Models whose tensors, sequences or texts grow with an input value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from onnx import helper

from bench.claims.hardening.zoo.build import FLOAT, INT64, STRING, Hostile, body, const, loop, model, node, text

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

_HUGE = 900_000_000
_SIDE = 40_000  # of a square of 6.4 GB


def _square(last: NodeProto) -> ModelProto:
    """`column` and `row` are n long; the last node spans a square of them."""
    return model(
        [
            node("Expand", ["f_one", "shape"], ["flat"]),
            node("Unsqueeze", ["flat", "ones"], ["column"]),
            node("Unsqueeze", ["flat", "axis"], ["row"]),
            last,
        ]
    )


def _doubling() -> ModelProto:
    inner = body([node("Concat", ["v_in", "v_in"], ["v_out"], axis=0)], carried=[("v", FLOAT)])
    return model([loop("count", inner, ["f_one"])])


def _collecting() -> ModelProto:
    inner = body([node("Identity", ["big"], ["each"])], scanned=[("each", FLOAT)])
    return model([loop("count", inner)], [const("big", np.ones(250_000), np.float32)])


def _sequence() -> ModelProto:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    inner = body(
        [node("Expand", ["f_one", "wide"], ["more"]), node("SequenceInsert", ["v_in", "more"], ["v_out"])],
        constants=[const("wide", [1_000_000])],
    )
    inner.input.append(helper.make_value_info("v_in", kind))
    inner.output.append(helper.make_value_info("v_out", kind))
    nodes = [
        node("SequenceEmpty", [], ["empty"], dtype=FLOAT),
        loop("count", inner, ["empty"], ["all"]),
        node("SequenceLength", ["all"], ["y"]),
    ]
    return model(nodes, kind=INT64)


def _texts_doubling() -> ModelProto:
    inner = body([node("StringConcat", ["v_in", "v_in"], ["v_out"])], carried=[("v", STRING)])
    nodes = [loop("count", inner, ["word"], ["long"]), node("Equal", ["long", "word"], ["y"])]
    return model(nodes, [text("word", "0123456789")], kind=9)


def _texts(operator: str) -> ModelProto:
    nodes = [node(operator, ["word", "shape"], ["many"]), node("Equal", ["many", "word"], ["y"])]
    return model(nodes, [text("word", "0123456789" * 10_000)], kind=9)


def _of_texts() -> ModelProto:
    nodes = [
        node("Expand", ["word", "shape"], ["many"]),
        node("StringConcat", ["many", "many"], ["more"]),
        node("StringConcat", ["more", "many"], ["y"]),
    ]
    return model(nodes, [text("word", "0123456789" * 100)], kind=STRING)


def _shaped(*nodes: NodeProto, kind: int = FLOAT) -> ModelProto:
    return model(nodes, [const("c111", [1, 1, 1]), const("image", np.ones((1, 1, 1, 2)), np.float32),
                         const("off_on", [0.0, 1.0], np.float32), const("axis_0", 0)], kind)  # fmt: skip


MODELS = [
    Hostile("range", "a Range of n", _HUGE, lambda: _shaped(node("Range", ["zero", "count", "one"], ["y"]), kind=INT64)),
    Hostile(
        "range_summed",
        "a Range of n that nobody sees",
        _HUGE,
        lambda: _shaped(node("Range", ["zero", "count", "one"], ["all"]), node("ReduceSum", ["all"], ["y"]), kind=INT64),
    ),
    Hostile("expand", "Expand to n", _HUGE, lambda: _shaped(node("Expand", ["f_one", "shape"], ["y"]))),
    Hostile("tile", "Tile n times", _HUGE, lambda: _shaped(node("Tile", ["f_one", "shape"], ["y"]))),
    Hostile("constant_of_shape", "ConstantOfShape of n", _HUGE, lambda: _shaped(node("ConstantOfShape", ["shape"], ["y"]))),
    Hostile(
        "pad",
        "Pad by n",
        _HUGE,
        lambda: _shaped(node("Concat", ["axis", "shape"], ["pads"], axis=0), node("Pad", ["f_one", "pads"], ["y"])),
    ),
    Hostile("one_hot", "OneHot of depth n", _HUGE, lambda: _shaped(node("OneHot", ["ones", "shape", "off_on"], ["y"]))),
    Hostile(
        "resize",
        "Resize to n",
        _HUGE,
        lambda: _shaped(
            node("Concat", ["c111", "shape"], ["sizes"], axis=0), node("Resize", ["image", "", "", "sizes"], ["y"])
        ),
    ),
    Hostile(
        "gather",
        "Gather by n indices",
        _HUGE // 4,
        lambda: _shaped(node("Expand", ["axis", "shape"], ["indices"]), node("Gather", ["f_one", "indices"], ["y"])),
    ),
    Hostile(
        "non_zero",
        "NonZero of n",
        _HUGE // 4,
        lambda: _shaped(node("Expand", ["f_one", "shape"], ["all"]), node("NonZero", ["all"], ["y"]), kind=INT64),
    ),
    Hostile(
        "random",
        "n random numbers",
        _HUGE // 4,
        lambda: _shaped(node("ConstantOfShape", ["shape"], ["all"]), node("RandomNormalLike", ["all"], ["y"])),
    ),
    Hostile(
        "cum_sum",
        "CumSum of n",
        _HUGE // 4,
        lambda: _shaped(node("ConstantOfShape", ["shape"], ["all"]), node("CumSum", ["all", "axis_0"], ["y"])),
    ),
    Hostile("outer_product", "MatMul of n by n", _SIDE, lambda: _square(node("MatMul", ["column", "row"], ["y"]))),
    Hostile("outer_sum", "a broadcast of n by n", _SIDE, lambda: _square(node("Add", ["column", "row"], ["y"]))),
    Hostile(
        "outer_einsum",
        "Einsum of n by n",
        _SIDE,
        lambda: _square(node("Einsum", ["flat", "flat"], ["y"], equation="i,j->ij")),
    ),
    Hostile("doubling", "a Loop that doubles n times", 45, _doubling),
    Hostile("collecting", "a Loop that collects n megabytes", 100_000, _collecting),
    Hostile("sequence", "a sequence of n tensors", 100_000, _sequence),
    Hostile("texts_doubling", "a text that doubles n times", 45, _texts_doubling),
    Hostile("texts_tiled", "n texts by Tile", 100_000, lambda: _texts("Tile")),
    Hostile("texts_expanded", "n texts by Expand", 100_000, lambda: _texts("Expand")),
    Hostile("texts_joined", "n texts that are joined", 3_000_000, _of_texts),
]
