"""A tree ensemble in the sidecar format (docs/reference/explain-sidecar.md), and its serialisation.

Must not know which library trained it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from flyball.errors import ModelRefusedError, UsageError

FORMAT = "flyball.trees/1"

Missing = Literal["left", "right", "zero_left", "zero_right", "as_zero"]


def refusal(reason: str) -> ModelRefusedError:
    """The error for a model that the sidecar format cannot represent."""
    return ModelRefusedError(
        f"cannot explain the model by its trees: {reason}",
        next_step="explain it by ablation:  flyball.models.attribution.ablation_block(rows)",
    )


@dataclass
class Tree:
    """One tree. Nodes are added from the root down: a split comes before its children."""

    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    categories: dict[int, list[int]] = field(default_factory=dict)
    value: list[float] = field(default_factory=list)
    cover: list[float] = field(default_factory=list)

    def add_split(self, feature: int, threshold: float, missing: Missing, categories: list[int] | None = None) -> int:
        """Add a split; its children are attached later. `categories` go left."""
        here = len(self.feature)
        self.feature.append(feature)
        self.threshold.append(threshold)
        self.missing.append(missing)
        self.left.append(0)
        self.right.append(0)
        if categories is not None:
            self.categories[here] = categories
        return here

    def add_leaf(self, value: float, cover: float) -> int:
        """Add a leaf with its training weight; returns a child reference."""
        self.value.append(value)
        self.cover.append(cover)
        return -len(self.value)


def grown(root: Any, add: Callable[[Tree, Any], tuple[int, Sequence[Any]]]) -> Tree:
    """Build a tree from its root; `add` adds a node, and returns its reference and its left and right child nodes."""
    tree = Tree()
    # A list instead of recursion: chains of splits can be deeper than Python's stack.
    open_ends = [(root, -1, True)]
    while open_ends:
        node, parent, is_left = open_ends.pop()
        here, children = add(tree, node)
        if children:
            left, right = children
            open_ends += [(right, here, False), (left, here, True)]
        if parent >= 0:
            (tree.left if is_left else tree.right)[parent] = here
    return tree


def one_of(classes: int, element: int | None) -> int:
    """The selected one of several classes."""
    if element is None or not 0 <= element < classes:
        raise UsageError(f"select one of the {classes} classes as the score:  element=0 to {classes - 1}")
    return element


def direction(element: int | None, *, two_classes: bool) -> float:
    """-1 for the first of two classes, because what raises its probability lowers the second's; else 1."""
    if element not in ((None, 0, 1) if two_classes else (None, 0)):
        raise UsageError(f"the model's output has no element {element}")
    return -1.0 if two_classes and element == 0 else 1.0


@dataclass
class Ensemble:
    """Trees and the base value that their leaves add to."""

    columns: int
    margin: str
    base: float
    trees: list[Tree]
    below: Literal["<=", "<"] = "<="

    def scaled(self, factor: float) -> Ensemble:
        """Multiply every leaf and the base by a factor."""
        for tree in self.trees:
            tree.value = [value * factor for value in tree.value]
        self.base *= factor
        return self

    def to_json(self) -> bytes:
        """The sidecar's bytes; deterministic."""
        document: dict[str, Any] = {
            "format": FORMAT,
            "columns": self.columns,
            "margin": self.margin,
            "base": self.base,
            "below": self.below,
            "trees": [_text(tree) for tree in self.trees],
        }
        return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


def _text(tree: Tree) -> dict[str, Any]:
    lists = dict(vars(tree))
    if not tree.categories:
        del lists["categories"]
    return lists
