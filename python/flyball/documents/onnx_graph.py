"""Prepares a converted ONNX graph for serving: free batch axis, no unused outputs, a fixed name.

Works on a loaded `ModelProto`, so it imports no ONNX package. Must not know where the graph came from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection

ROWS = "rows"
_FLOAT = 1  # ONNX's tensor type FLOAT


def tidied(model: Any, name: str, outputs: Collection[str] = ()) -> bytes:
    """The model's bytes with a free batch axis, only these outputs (default: all), and this graph name.

    Converters use random graph names and any order of operator sets, so the digest would differ each time.
    """
    if outputs:
        keep_outputs(model, outputs)
    set_rows(model)
    model.graph.name = name
    _sort_opsets(model)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def answers_alone(model: Any, name: str) -> tuple[bytes, str, list[str]]:
    """A tree ensemble's bytes with only its answers as output; that output's name, and the removed ones."""
    outputs = [output.name for output in model.graph.output]
    answers = "probabilities" if "probabilities" in outputs else outputs[0]
    return tidied(model, name, {answers}), answers, [output for output in outputs if output != answers]


def set_rows(model: Any, rows: int | str = ROWS) -> None:
    """Make the first axis of every input and output free, or of a fixed number of rows.

    Converters declare one output row, or different symbols for the same batch axis.
    """
    for tensor in (*model.graph.input, *model.graph.output):
        dimensions = tensor.type.tensor_type.shape.dim
        if dimensions:
            dimensions[0].Clear()
            if isinstance(rows, int):
                dimensions[0].dim_value = rows
            else:
                dimensions[0].dim_param = rows


def without_maps(model: Any) -> bool:
    """Replace a classifier's maps per row by its tensor of probabilities; returns whether there were any."""
    found = False
    for node in model.graph.node:
        if node.op_type == "ZipMap":
            classes = max(len(part.ints) + len(part.strings) for part in node.attribute)
            node.op_type, node.domain = "Identity", ""
            del node.attribute[:]
            output = next(output for output in model.graph.output if output.name == node.output[0])
            _set_table(output, classes)
            found = True
    return found


def maps_taken_off(model: Any) -> dict[str, str]:
    """Remove maps of classes and output their input tensors; returns tensor names by map name."""
    graph, tensors = model.graph, {}
    for node in [node for node in graph.node if node.op_type == "ZipMap"]:
        output = next(output for output in graph.output if output.name == node.output[0])
        tensors[output.name], output.name = node.input[0], node.input[0]
        _set_table(output, max(len(part.ints) + len(part.strings) for part in node.attribute))
        graph.node.remove(node)
    return tensors


def keep_outputs(model: Any, names: Collection[str]) -> list[str]:
    """Remove all other outputs and what only they need; returns the removed names."""
    graph = model.graph
    cut = [output.name for output in graph.output if output.name not in names]
    _keep(graph.output, lambda output: output.name in names)
    wanted = {output.name for output in graph.output}
    kept = []
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            wanted.update(name for name in node.input if name)
            # Outer values that a branch or loop body reads are not listed as inputs.
            wanted.update(_read_inside(node))
            kept.append(node)
    if len(kept) < len(graph.node):
        nodes = list(reversed(kept))
        del graph.node[:]
        graph.node.extend(nodes)
    _keep(graph.initializer, lambda tensor: tensor.name in wanted)
    return cut


def _set_table(output: Any, columns: int) -> None:
    """Declare an output as a table of floats."""
    output.type.Clear()
    output.type.tensor_type.elem_type = _FLOAT
    output.type.tensor_type.shape.dim.add().dim_param = ROWS
    output.type.tensor_type.shape.dim.add().dim_value = columns


def _sort_opsets(model: Any) -> None:
    """Sort operator sets and remove duplicates; the last of two counts."""
    versions = {opset.domain: opset.version for opset in model.opset_import}
    del model.opset_import[:]
    for domain, version in sorted(versions.items()):
        model.opset_import.add(domain=domain, version=version)


def _read_inside(node: Any) -> set[str]:
    names: set[str] = set()
    for attribute in node.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
            for inner in graph.node:
                names.update(inner.input)
                names.update(_read_inside(inner))
    return names


def _keep(entries: Any, wanted: Any) -> None:
    for place in reversed(range(len(entries))):
        if not wanted(entries[place]):
            del entries[place]
