"""A tree ensemble of an ONNX file, for peers that compile trees, and its answers as ONNX Runtime would give them.

Takes what converters make of a binary classifier of gradient-boosted trees: one float input, BRANCH_LEQ nodes, one weight
a leaf, LOGISTIC. Trees keep their order and 32-bit floats, so that sums have the same bits. Must not know compilers.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import os
import struct
import sys
from array import array
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import onnx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    class Scorer(Protocol):
        """A compiled ensemble: the sum of the leaves of each row, before the logistic function."""

        def __call__(self, rows: array[float], sums: array[float]) -> None:
            """Write the sums of these rows; both are of 32-bit floats."""


_FLOAT = struct.Struct("f")


@dataclass(frozen=True)
class Node:
    """A node of a tree; a leaf has a value, other nodes have a threshold and children."""

    number: int
    leaf: float | None
    feature: int
    threshold: float
    missing_left: bool
    left: int
    right: int


@dataclass(frozen=True)
class Ensemble:
    """The trees, and what the graph around them is called."""

    columns: int
    trees: list[list[Node]]
    label: str
    probabilities: str


def read_ensemble(path: str) -> Ensemble:
    """The trees of an ONNX file; SystemExit says what these peers do not serve."""
    graph = onnx.load(path).graph
    ensembles = [node for node in graph.node if node.op_type == "TreeEnsembleClassifier"]
    if len(ensembles) != 1 or len(graph.output) != 2:
        raise SystemExit(f"{path}: not one TreeEnsembleClassifier with a label and probabilities")
    told = {one.name: onnx.helper.get_attribute_value(one) for one in ensembles[0].attribute}
    modes = {mode.decode() for mode in told["nodes_modes"]}
    binary = told["classlabels_int64s"] == [0, 1] and not any(told["class_ids"]) and not told.get("base_values")
    if told["post_transform"] != b"LOGISTIC" or modes != {"BRANCH_LEQ", "LEAF"} or not binary:
        raise SystemExit(f"{path}: not a binary classifier of BRANCH_LEQ nodes with LOGISTIC")
    columns = graph.input[0].type.tensor_type.shape.dim[1].dim_value
    label, probabilities = (output.name for output in graph.output)
    return Ensemble(columns, list(_trees(told)), label, probabilities)


def compiled_once(model: str, script: str, make: Callable[[Path], object]) -> Path:
    """The file that `make` compiles of a model; kept in the peer's environment, as people deploy compiled trees.

    A changed model, or a changed serve.py, is compiled anew; so is everything after the environment was made anew.
    """
    digest = hashlib.sha256(Path(model).read_bytes() + Path(script).read_bytes()).hexdigest()[:16]
    kept = Path(sys.prefix) / "compiled" / f"{digest}.so"
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        part = kept.with_name(f"{digest}-{os.getpid()}.so")  # several workers may compile at a time
        make(part)
        part.replace(kept)
    return kept


def _trees(told: dict[str, Any]) -> Iterator[list[Node]]:
    places = zip(told["class_treeids"], told["class_nodeids"], strict=True)
    leaves = dict(zip(places, told["class_weights"], strict=True))
    nodes: dict[int, list[Node]] = {}
    for at, (tree, number) in enumerate(zip(told["nodes_treeids"], told["nodes_nodeids"], strict=True)):
        node = Node(
            number,
            leaves.get((tree, number)),
            told["nodes_featureids"][at],
            told["nodes_values"][at],
            bool(told["nodes_missing_value_tracks_true"][at]),
            told["nodes_truenodeids"][at],
            told["nodes_falsenodeids"][at],
        )
        nodes.setdefault(tree, []).append(node)
    return iter(nodes.values())


def loader(compiled: Callable[[str, Ensemble], Scorer]) -> Callable[[str], TreeModel]:
    """What makes the model of an ONNX file with trees that `compiled` has compiled."""

    def load(path: str) -> TreeModel:
        ensemble = read_ensemble(path)
        return TreeModel(ensemble, compiled(path, ensemble))

    return load


class TreeModel:
    """V2 JSON in, V2 JSON out, by a compiled ensemble. Python's arrays: NumPy's cost ten times as much for one row."""

    def __init__(self, ensemble: Ensemble, score: Scorer) -> None:
        self._ensemble, self._score = ensemble, score
        # The C library's, as ONNX Runtime uses it: NumPy's differs in the last bit of one row in a hundred.
        self._exp = ctypes.CDLL(ctypes.util.find_library("m")).expf
        self._exp.restype, self._exp.argtypes = ctypes.c_float, [ctypes.c_float]

    def infer(self, document: dict[str, Any]) -> dict[str, Any]:
        """One answer."""
        (tensor,) = document["inputs"]
        return self._answer(document, self._probabilities(tensor["data"]))

    def infer_many(self, documents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The answers from one run over all rows."""
        ends = list(accumulate(document["inputs"][0]["shape"][0] for document in documents))
        found = self._probabilities([number for document in documents for number in document["inputs"][0]["data"]])
        starts = [0, *ends]
        return [self._answer(one, found[2 * starts[at] : 2 * ends[at]]) for at, one in enumerate(documents)]

    def _probabilities(self, data: list[float]) -> list[float]:
        """Of both classes, row by row."""
        rows, sums = array("f", data), array("f", bytes(4 * (len(data) // self._ensemble.columns)))
        self._score(rows, sums)
        return [value for total in sums for value in self._both(total)]

    def _both(self, total: float) -> tuple[float, float]:
        """The logistic function as ONNX Runtime computes it, each step rounded to 32 bits."""
        likelier = _rounded(1 / _rounded(1 + self._exp(-abs(total))))
        other = _rounded(1 - likelier)
        return (likelier, other) if total < 0 else (other, likelier)

    def _answer(self, document: dict[str, Any], both: list[float]) -> dict[str, Any]:
        labels = [int(value > 0.5) for value in both[1::2]]
        count = len(labels)
        outputs = [
            {"name": self._ensemble.label, "datatype": "INT64", "shape": [count], "data": labels},
            {"name": self._ensemble.probabilities, "datatype": "FP32", "shape": [count, 2], "data": both},
        ]
        return {"model_name": "model", "id": document.get("id", ""), "outputs": outputs}


def _rounded(value: float) -> float:
    """To 32 bits. One operation in 64 bits on 32-bit numbers, then rounded, gives what 32 bits would have."""
    found: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    return found
