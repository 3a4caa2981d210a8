"""Shared by the model makers: the required extra, and silencing of noisy libraries."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

OPSET = 17  # old enough for every supported runtime, new enough for all operators here
IR_VERSION = 9


def checked_model(name: str, nodes: list[Any], weights: list[Any], given: tuple[str, list[Any]], output: list[Any]) -> Any:
    """A model of one input, of a type and shape, and one float32 output, named like the last node's."""
    import onnx
    from onnx import TensorProto, helper

    kind, shape = given
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("input", getattr(TensorProto, kind), shape)],
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, output)],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    return model


@contextmanager
def without_advice() -> Iterator[None]:
    """Hide the quantiser's advice on pre-processing, which would not change these graphs."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
