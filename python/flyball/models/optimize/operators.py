"""Which operators a model has, and which columns its trees ask: read from the file, nothing is run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.errors import needing
from flyball.models.profile.cost import TREES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def operators_of(path: Path) -> list[str]:
    """Their names, each once, by how often they stand there."""
    counts: dict[str, int] = {}
    for node in _nodes(_read(path).graph):
        counts[node.op_type] = counts.get(node.op_type, 0) + 1
    return sorted(counts, key=lambda op: (-counts[op], op))


def columns_asked(path: Path) -> set[int] | None:
    """The columns that any split of the model's trees asks; None where it is not one ensemble of trees over its input."""
    model = _read(path)
    inputs = {one.name for one in model.graph.input}
    trees = [node for node in model.graph.node if node.op_type in TREES]
    others = {name for node in model.graph.node if node not in trees for name in node.input}
    if not trees or inputs & others or any(node.input[0] not in inputs for node in trees):
        return None
    asked: set[int] = set()
    for node in trees:
        attributes = {one.name: one for one in node.attribute}
        if not {"nodes_featureids", "nodes_modes", "nodes_values"} <= attributes.keys():
            return None
        modes = attributes["nodes_modes"].strings
        columns = attributes["nodes_featureids"].ints
        asked |= {int(column) for column, mode in zip(columns, modes, strict=True) if mode != b"LEAF"}
    return asked


def thresholds_of(path: Path) -> dict[str, list[float]]:
    """By column, in text: every value at which a tree splits; empty for a model without trees over its input."""
    if columns_asked(path) is None:
        return {}
    found: dict[str, list[float]] = {}
    for node in _read(path).graph.node:
        if node.op_type in TREES:
            attributes = {one.name: one for one in node.attribute}
            parts = (
                attributes["nodes_featureids"].ints,
                attributes["nodes_values"].floats,
                attributes["nodes_modes"].strings,
            )
            for column, value, mode in zip(*parts, strict=True):
                if mode != b"LEAF":
                    found.setdefault(str(column), []).append(float(value))
    return found


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _nodes(inner)


def _read(path: Path) -> Any:
    with needing("optimising needs onnx", extra="optimize"):
        import onnx
    return onnx.load(path, load_external_data=False)
