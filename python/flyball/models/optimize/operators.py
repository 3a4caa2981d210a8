"""Reads a model's operators and the columns its trees use from the file, without running it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flyball.errors import needing
from flyball.models.profile.cost import TREES


def operators_of(path: Path) -> list[str]:
    """Operator names, most frequent first."""
    counts = Counter(node.op_type for node in _nodes(_read(path).graph))
    return sorted(counts, key=lambda op: (-counts[op], op))


def columns_used(path: Path) -> set[int] | None:
    """The columns that the trees split on; None unless the model is one tree ensemble over its input."""
    splits = _splits(path)
    return None if splits is None else {column for column, _ in splits}


def thresholds_of(path: Path) -> dict[str, list[float]]:
    """All split values by column, as text; empty for a model without trees over its input."""
    found: dict[str, list[float]] = {}
    for column, value in _splits(path) or ():
        found.setdefault(str(column), []).append(value)
    return found


def _splits(path: Path) -> list[tuple[int, float]] | None:
    """The column and value of each split; None unless the model is one tree ensemble over its input."""
    model = _read(path)
    inputs = {one.name for one in model.graph.input}
    trees = [node for node in model.graph.node if node.op_type in TREES]
    others = {name for node in model.graph.node if node not in trees for name in node.input}
    if not trees or inputs & others or any(node.input[0] not in inputs for node in trees):
        return None
    splits: list[tuple[int, float]] = []
    for node in trees:
        held = {one.name: one for one in node.attribute}
        if not {"nodes_featureids", "nodes_modes", "nodes_values"} <= held.keys():
            return None
        nodes = zip(held["nodes_featureids"].ints, held["nodes_values"].floats, held["nodes_modes"].strings, strict=True)
        splits += [(int(column), float(value)) for column, value, mode in nodes if mode != b"LEAF"]
    return splits


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
