"""Trees compiled by TL2cgen (Treelite, gcc) behind the bare ASGI application.

Treelite's model builder gets the ONNX file's trees; gcc compiles the C code that TL2cgen writes of them.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import tl2cgen
from bare_asgi import App, serve
from bare_asgi import make_app as make
from serving import arguments
from tree_model import Ensemble, compiled_once, loader
from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

if TYPE_CHECKING:
    from array import array
    from pathlib import Path

    import treelite
    from tree_model import Scorer

# TL2cgen writes the values of leaves as doubles: as such they would be added with other roundings.
_OPTIONS = ["-O3", "-fsingle-precision-constant"]


def model_of(ensemble: Ensemble) -> treelite.Model:
    """The trees as Treelite has them; the logistic function is left out."""
    count = len(ensemble.trees)
    builder = ModelBuilder(
        threshold_type="float32",
        leaf_output_type="float32",
        metadata=Metadata(ensemble.columns, "kBinaryClf", False, 1, [1], (1, 1)),
        tree_annotation=TreeAnnotation(count, [0] * count, [0] * count),
        postprocessor=PostProcessorFunc("identity"),
        base_scores=[0.0],
    )
    for tree in ensemble.trees:
        builder.start_tree()
        for node in tree:
            builder.start_node(node.number)
            if node.leaf is not None:
                builder.leaf(node.leaf)
            else:
                builder.numerical_test(
                    node.feature,
                    node.threshold,
                    default_left=node.missing_left,
                    opname="<=",
                    left_child_key=node.left,
                    right_child_key=node.right,
                )
            builder.end_node()
        builder.end_tree()
    return builder.commit()


def compiled(path: str, ensemble: Ensemble) -> Scorer:
    """The library's own `predict`, which its documentation gives for deployment: a Predictor would copy each row twice."""

    def make(part: Path) -> None:
        tl2cgen.export_lib(model_of(ensemble), toolchain="gcc", libpath=part, params={}, options=_OPTIONS)

    library = ctypes.CDLL(str(compiled_once(path, __file__, make)))
    predict, columns = library.predict, ensemble.columns
    predict.argtypes, predict.restype = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p], None

    # A missing value would be -1 in place of the float; JSON has no NaN, so there is none.
    def score(rows: array[float], sums: array[float]) -> None:
        row, total = rows.buffer_info()[0], sums.buffer_info()[0]
        for at in range(len(sums)):
            predict(row + 4 * columns * at, 1, total + 4 * at)

    return score


def make_app() -> App:
    """The application with trees of its own."""
    return make(loader(compiled))


if __name__ == "__main__":
    serve(arguments())
