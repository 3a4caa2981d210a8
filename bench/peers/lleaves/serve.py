"""Trees compiled by lleaves (LLVM) behind the bare ASGI application.

lleaves reads LightGBM's text format, so the ONNX file's trees are written in it; compiling
300 of them takes half a minute, once a model: see tree_model.compiled_once.
"""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lleaves
from bare_asgi import App, serve
from bare_asgi import make_app as make
from serving import arguments
from tree_model import Ensemble, Node, compiled_once, loader

if TYPE_CHECKING:
    from array import array

    from tree_model import Scorer

_NAN_IS_MISSING, _DEFAULT_LEFT = 8, 2


def text_of(ensemble: Ensemble) -> str:
    """The trees as LightGBM writes a model."""
    columns = range(ensemble.columns)
    head = [
        "tree",
        "version=v4",
        "num_class=1",
        "num_tree_per_iteration=1",
        f"max_feature_idx={ensemble.columns - 1}",
        "objective=binary sigmoid:1",
        "feature_infos=" + " ".join("[-1:1]" for _ in columns),
        "tree_sizes=" + " ".join("0" for _ in ensemble.trees),
        "",
    ]
    lines = [line for number, tree in enumerate(ensemble.trees) for line in _tree(number, tree)]
    return "\n".join([*head, *lines, "end of trees", "", "pandas_categorical:null", ""])


def _tree(number: int, nodes: list[Node]) -> list[str]:
    leaves = [node for node in nodes if node.leaf is not None]
    splits = [node for node in nodes if node.leaf is None]
    place = {node.number: at for at, node in enumerate(splits)} | {node.number: -at - 1 for at, node in enumerate(leaves)}

    def line(name: str, values: list[Any]) -> str:
        return f"{name}={' '.join(map(str, values))}"

    return [
        f"Tree={number}",
        f"num_leaves={len(leaves)}",
        "num_cat=0",
        line("split_feature", [node.feature for node in splits]),
        line("threshold", [node.threshold for node in splits]),
        line("decision_type", [_NAN_IS_MISSING + _DEFAULT_LEFT * node.missing_left for node in splits]),
        line("left_child", [place[node.left] for node in splits]),
        line("right_child", [place[node.right] for node in splits]),
        line("leaf_value", [node.leaf for node in leaves]),
        "",
    ]


def compiled(path: str, ensemble: Ensemble) -> Scorer:
    """The function that LLVM made, called as lleaves' own `predict` does, without its checks and copies."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "model.txt"
        text.write_text(text_of(ensemble))
        model = lleaves.Model(model_file=str(text))
        # One block: blocks pay off for many rows, and would change the order of the sum.
        options = {"raw_score": True, "use_fp64": False, "fblocksize": len(ensemble.trees), "fcodemodel": "small"}
        kept = compiled_once(path, __file__, lambda part: model.compile(cache=str(part), **options))
        model.compile(cache=str(kept), **options)  # reads it
    address = ctypes.cast(model._c_entry_func, ctypes.c_void_p).value
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32)(address)

    def score(rows: array[float], sums: array[float], _owner: lleaves.Model = model) -> None:
        entry(rows.buffer_info()[0], sums.buffer_info()[0], 0, len(sums))

    return score


def make_app() -> App:
    """The application with trees of its own."""
    return make(loader(compiled))


if __name__ == "__main__":
    serve(arguments())
