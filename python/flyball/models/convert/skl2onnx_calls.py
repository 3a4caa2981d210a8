"""Calls skl2onnx, and reports which step it cannot convert and what to do.

Must not know what is done with the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.documents.onnx_graph import tidied
from flyball.errors import ModelRefusedError
from flyball.models.convert.optional_packages import OPSET, needed, quietly

if TYPE_CHECKING:
    from flyball.models.convert.table import Table


def estimator(model: Any, columns: int, name: str, why: str | None) -> tuple[bytes, str, list[str]]:
    """An estimator or the last steps over one tensor `input`; its answer output, and the outputs removed."""
    types = needed("skl2onnx.common.data_types", "sklearn")
    content, answers, cut, _ = _converted(model, [("input", types.FloatTensorType([None, columns]))], name, why)
    return content, answers, cut


def whole_pipeline(model: Any, table: Table, name: str, why: str) -> tuple[bytes, str, list[str], list[str]]:
    """A pipeline with one tensor per column, numbers as floats and text as text; and the tensors' names."""
    types = needed("skl2onnx.common.data_types", "sklearn")
    kinds = {held: types.StringTensorType if held == "string" else types.FloatTensorType for held in table.holds.values()}
    inputs = [(column, kinds[table.holds[column]]([None, 1])) for column in table.columns]
    return _converted(model, inputs, name, why)


def _converted(
    model: Any, inputs: list[tuple[str, Any]], name: str, why: str | None
) -> tuple[bytes, str, list[str], list[str]]:
    skl2onnx = needed("skl2onnx", "sklearn")
    last = model[-1] if hasattr(model, "steps") else model
    options = {id(last): {"zipmap": False}} if hasattr(last, "predict_proba") else None
    try:
        with quietly():
            made = skl2onnx.convert_sklearn(model, initial_types=inputs, options=options, target_opset=OPSET)
    except Exception as error:
        # Its errors have no common base.
        raise _refused(last, why, error) from error
    _with_missing(made.graph, last)
    outputs = [output.name for output in made.graph.output]
    answers = next((output for output in outputs if "prob" in output), outputs[-1])
    tensors = [tensor.name for tensor in made.graph.input]
    return tidied(made, name, {answers}), answers, [output for output in outputs if output != answers], tensors


def _refused(last: Any, why: str | None, error: Exception) -> ModelRefusedError:
    """The error, with `why` a step is no transform and the first sentence of skl2onnx's message."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    reason = lines[0].partition(" You may raise an issue")[0].rstrip(".")
    if why is None:
        return ModelRefusedError(
            f"skl2onnx cannot convert {type(last).__name__}: {reason}",
            next_step="end the pipeline with a supported estimator (gradient boosting, a forest, a linear model,"
            " an MLP), or with LightGBM's or XGBoost's",
        )
    return ModelRefusedError(
        f"a step of the pipeline is supported neither as a transform ({why}) nor by ONNX ({reason})",
        next_step="replace the step by a supported one, see docs/guides/convert.md; or compute its columns before"
        " the request, and train without it",
    )


def _with_missing(graph: Any, model: Any) -> None:
    """Copy scikit-learn's direction of missing values into the graph; skl2onnx omits it, and ONNX sends them right."""
    trees = [part.tree_ for part in getattr(model, "estimators_", [model]) if hasattr(part, "tree_")]
    for node in graph.node:
        held = {attribute.name: attribute for attribute in node.attribute}
        if "nodes_missing_value_tracks_true" not in held or max(held["nodes_treeids"].ints) + 1 != len(trees):
            continue
        indices = zip(held["nodes_treeids"].ints, held["nodes_nodeids"].ints, strict=True)
        lefts = [int(trees[tree].missing_go_to_left[index]) for tree, index in indices]
        held["nodes_missing_value_tracks_true"].ints[:] = lefts
