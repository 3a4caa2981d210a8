"""Reads a model's operators and the columns its trees use from the file, without running it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flyball.errors import needing
from flyball.models.profile.cost import TREES


def operators_of(path: Path) -> list[str]:
    """Operator names, most frequent first."""
    counts: dict[str, int] = {}
    for node in _nodes(_read(path).graph):
        counts[node.op_type] = counts.get(node.op_type, 0) + 1
    return sorted(counts, key=lambda op: (-counts[op], op))


def columns_used(path: Path) -> set[int] | None:
    """The columns that the trees split on; None unless the model is one tree ensemble over its input."""
    model = _read(path)
    inputs = {one.name for one in model.graph.input}
    trees = [node for node in model.graph.node if node.op_type in TREES]
    others = {name for node in model.graph.node if node not in trees for name in node.input}
    if not trees or inputs & others or any(node.input[0] not in inputs for node in trees):
        return None
    used: set[int] = set()
    for node in trees:
        attributes = {one.name: one for one in node.attribute}
        if not {"nodes_featureids", "nodes_modes", "nodes_values"} <= attributes.keys():
            return None
        modes = attributes["nodes_modes"].strings
        columns = attributes["nodes_featureids"].ints
        used |= {int(column) for column, mode in zip(columns, modes, strict=True) if mode != b"LEAF"}
    return used


def thresholds_of(path: Path) -> dict[str, list[float]]:
    """All split values by column, as text; empty for a model without trees over its input."""
    if columns_used(path) is None:
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
