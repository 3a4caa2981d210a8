"""Reads LightGBM's trees from its own dump.

Covers are counts of training rows, as in `pred_contrib`. A random forest's raw score is the sum of its trees, like a
boosted model's; only the probability uses their mean. Accepts a Booster or LightGBM's scikit-learn classes. Never imports
LightGBM: the caller already has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flyball.models.attribution.ensemble import Ensemble, Missing, Tree, direction, grown, one_of, refusal


def ensemble(model: Any, element: int | None) -> Ensemble:
    """The trees that move one element of the model's output."""
    booster = getattr(model, "booster_", model)
    dump = booster.dump_model()
    objective = str(dump.get("objective", "none"))
    classes = int(dump["num_tree_per_iteration"])
    columns = int(dump["max_feature_idx"]) + 1
    found = dump["tree_info"]
    if classes > 1:
        element = one_of(classes, element)
        trees = [_tree(info) for info in found if info["tree_index"] % classes == element]
        return Ensemble(columns, f"raw score of class {element}, {objective}", 0.0, trees)
    turn = direction(element, two_classes=objective.startswith("binary"))
    whole = Ensemble(columns, f"raw score, {objective}", 0.0, [_tree(info) for info in found])
    return whole.scaled(turn) if turn < 0 else whole


def _tree(info: dict[str, Any]) -> Tree:
    root = info["tree_structure"]
    if "leaf_value" in root:
        # A tree without splits has no count in the dump; its cover does not matter.
        return grown(root, lambda tree, _: (tree.add_leaf(root["leaf_value"], float(root.get("leaf_count") or 1)), ()))
    return grown(root, _add)


def _add(tree: Tree, node: dict[str, Any]) -> tuple[int, Sequence[Any]]:
    if "leaf_value" not in node:
        return _split(tree, node), (node["left_child"], node["right_child"])
    if "leaf_coeff" in node or "leaf_const" in node:
        raise refusal("its leaves are linear models")
    return tree.add_leaf(node["leaf_value"], float(node["leaf_count"])), ()


def _split(tree: Tree, node: dict[str, Any]) -> int:
    _check_count(node)
    if node["decision_type"] == "==":
        categories = sorted(int(category) for category in str(node["threshold"]).split("||"))
        return tree.add_split(node["split_feature"], 0.0, "right", categories)
    if node["decision_type"] != "<=":
        raise refusal(f"unsupported split type {node['decision_type']}")
    return tree.add_split(node["split_feature"], float(node["threshold"]), _missing(node))


def _missing(node: dict[str, Any]) -> Missing:
    left = bool(node["default_left"])
    match node["missing_type"]:
        case "None":
            return "as_zero"
        case "Zero":
            return "zero_left" if left else "zero_right"
        case "NaN":
            return "left" if left else "right"
        case other:
            raise refusal(f"unsupported handling of missing values: {other}")


def _check_count(node: dict[str, Any]) -> None:
    """A sidecar stores only leaf counts, but LightGBM weighs by split counts: these must be the leaves' sums."""
    children = (node["left_child"], node["right_child"])
    counts = [child.get("leaf_count", child.get("internal_count")) for child in children]
    if sum(counts) != node["internal_count"]:
        raise refusal("its node counts do not add up; it was not trained in one piece")
