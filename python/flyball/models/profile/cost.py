"""Lower bounds of an operator's work: bytes moved, operations, and this machine's minimum time for them.

Operators whose work depends on values, such as trees, texts and loops, have no floor: None. Must not know times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flyball.models.profile.profile import Call, Shaped
    from flyball.native.model_documents import Ceiling

TREES = frozenset({"TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"})
CONTROL = frozenset({"If", "Loop", "Scan"})
PRODUCTS = frozenset({
    *("Gemm", "FusedGemm", "QGemm", "MatMul", "FusedMatMul", "MatMulInteger", "MatMulIntegerToFloat", "QLinearMatMul"),
    *("DynamicQuantizeMatMul", "MatMulNBits"),
})  # fmt: skip
CONVOLUTIONS = frozenset({"Conv", "FusedConv", "NhwcFusedConv", "ConvInteger", "QLinearConv"})
_RECURRENT = frozenset({"GRU", "LSTM", "RNN", "DynamicQuantizeLSTM"})
_VALUES_DECIDE = TREES | CONTROL | {"SVMClassifier", "SVMRegressor", "TfIdfVectorizer", "NonMaxSuppression", "NonZero"}
# Neither computed nor copied: the output is the reshaped input, or only its shape.
_VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Shape", "Size", "Squeeze", "Unsqueeze"})
# They read no more of their input than they return.
_PICKS = frozenset({"Gather", "GatherElements", "GatherND", "Slice"})
_MOVES = frozenset({"Concat", "Expand", "Pad", "ReorderInput", "ReorderOutput", "Split", "Tile", "Transpose"}) | _PICKS
_EIGHT_BITS = ("int8", "uint8")


@dataclass(frozen=True, slots=True)
class Floor:
    """The minimum time, and its cause."""

    us: float
    by: Literal["bytes", "operations"]


@dataclass(frozen=True, slots=True)
class Machine:
    """Machine limits for a model with this many weight bytes, which come from the cache that holds them all."""

    ceiling: Ceiling
    weight_bytes: int

    def floor(self, call: Call) -> Floor | None:
        """A call's minimum time, if it can be computed."""
        operations, moved = operations_of(call), moved_bytes(call)
        if operations is None or moved is None:
            return None
        weights = min(moved, call.weight_bytes)
        others = moved - weights
        bytes_us = (weights / self._speed(self.weight_bytes) + others / self._speed(others)) * 1e6
        peak = self.ceiling.flops * (self.ceiling.int8_times if eight_bits(call) else 1.0)
        operations_us = operations / peak * 1e6
        return Floor(bytes_us, "bytes") if bytes_us >= operations_us else Floor(operations_us, "operations")

    def _speed(self, set_bytes: int) -> float:
        """The speed of the largest measured set that is not larger: a floor must not be too high."""
        reads = self.ceiling.reads
        return next((read for read in reversed(reads) if read.set_bytes <= set_bytes), reads[0]).bytes_a_second


def eight_bits(call: Call) -> bool:
    """Whether it multiplies 8-bit integers."""
    return call.op in PRODUCTS | CONVOLUTIONS and any(tensor.kind in _EIGHT_BITS and tensor.shape for tensor in call.inputs)


def moved_bytes(call: Call) -> int | None:
    """The minimum of bytes read and written; None if it depends on values."""
    if _unknown(call):
        return None
    if call.op in _VIEWS:
        return 0
    if call.op in _PICKS:
        return 2 * call.output_bytes
    return call.input_bytes + call.weight_bytes + call.output_bytes


def operations_of(call: Call) -> int | None:
    """Additions and multiplications; None if they depend on values or an unknown shape."""
    if _unknown(call) or not call.outputs:
        return None
    for ops, count in _COUNTS:
        if call.op in ops:
            return count(call.inputs, call.outputs[0])
    if call.op in _VIEWS | _MOVES:
        return 0
    return max(tensor.elements for tensor in (*call.inputs, *call.outputs))


def _unknown(call: Call) -> bool:
    return call.op in _VALUES_DECIDE or any(tensor.kind == "string" for tensor in (*call.inputs, *call.outputs))


def _of_product(inputs: Sequence[Shaped], output: Shaped) -> int | None:
    """Two per output element and summed index; the summed length follows from the left input."""
    if not inputs:
        return None
    left = inputs[0].shape
    if len(left) < 2 or len(output.shape) < 2:
        return 2 * output.elements * (left[-1] if left else 1)
    return 2 * output.elements * (left[-2] * left[-1] // max(output.shape[-2], 1))


def _of_convolution(inputs: Sequence[Shaped], output: Shaped) -> int | None:
    """Two per output element and filter element."""
    filters = _filters(inputs)
    return None if filters is None else 2 * output.elements * (filters.elements // max(filters.shape[0], 1))


def _of_transposed(inputs: Sequence[Shaped], _output: Shaped) -> int | None:
    """Each input element meets each filter of its channel."""
    filters = _filters(inputs)
    return None if filters is None else 2 * inputs[0].elements * (filters.elements // max(filters.shape[0], 1))


def _filters(inputs: Sequence[Shaped]) -> Shaped | None:
    """The next input with the first one's rank; scales and zero points come between."""
    return next((tensor for tensor in inputs[1:] if len(tensor.shape) == len(inputs[0].shape)), None)


def _of_recurrence(inputs: Sequence[Shaped], _output: Shaped) -> int | None:
    """Both weight matrices, for each step of each row."""
    if len(inputs) < 3 or len(inputs[0].shape) != 3:
        return None
    steps, rows, _ = inputs[0].shape
    return 2 * steps * rows * (inputs[1].elements + inputs[2].elements)


_COUNTS: tuple[tuple[frozenset[str], Callable[[Sequence[Shaped], Shaped], int | None]], ...] = (
    (PRODUCTS, _of_product),
    (CONVOLUTIONS, _of_convolution),
    (frozenset({"ConvTranspose"}), _of_transposed),
    (_RECURRENT, _of_recurrence),
)
