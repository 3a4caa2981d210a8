"""Reads XGBoost's trees from its own JSON. Covers are sums of hessians, as in `pred_contribs`.

Accepts a Booster or XGBoost's scikit-learn classes. Never imports XGBoost: the caller already has.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from flyball.models.attribution.ensemble import Ensemble, Tree, direction, grown, one_of, refusal

# The base score is stored on the objective's scale; trees add to the margin before the link function.
_LOGITS = ("binary:logistic", "reg:logistic")
_LOGS = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")
_COVER_MIN = 1e-16  # XGBoost's own minimum hessian; a leaf without cover would weigh nothing


def ensemble(model: Any, element: int | None) -> Ensemble:
    """The trees that move one element of the model's output."""
    booster = answering(model)
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    kind = learner["gradient_booster"]["name"]
    if kind != "gbtree":
        raise refusal(f"its booster is {kind}; only gbtree has plain trees")
    held = learner["gradient_booster"]["model"]
    objective = str(learner["objective"]["name"])
    base, columns = _base(learner, objective), int(learner["learner_model_param"]["num_feature"])
    codes = _codes(held, columns)
    found = list(zip(held["tree_info"], held["trees"], strict=True))
    classes = max(int(learner["learner_model_param"]["num_class"]), 1)
    if int(learner["learner_model_param"].get("num_target", "1")) > 1:
        raise refusal("it has several targets")
    if classes > 1:
        element = one_of(classes, element)
        trees = [_tree(tree, codes) for group, tree in found if group == element]
        return Ensemble(columns, f"margin of class {element}, {objective}", base[element % len(base)], trees, below="<")
    turn = direction(element, two_classes=objective.startswith("binary"))
    whole = Ensemble(columns, f"margin, {objective}", base[0], [_tree(tree, codes) for _, tree in found], below="<")
    return whole.scaled(turn) if turn < 0 else whole


def answering(model: Any) -> Any:
    """The booster cut to the rounds that the model predicts with.

    After early stopping a scikit-learn class predicts with the rounds up to the best one, a Booster with all of them.
    """
    if not hasattr(model, "get_booster"):
        return model
    booster, rounds = model.get_booster(), best_rounds(model)
    return booster if rounds is None else booster[:rounds]


def best_rounds(model: Any) -> int | None:
    """The best number of rounds after early stopping, if training went beyond it."""
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    best = booster.attr("best_iteration")
    return None if best is None or int(best) + 1 >= booster.num_boosted_rounds() else int(best) + 1


def _base(learner: dict[str, Any], objective: str) -> list[float]:
    """The base margin; a list since XGBoost 3.1, one number before."""
    dump = json.loads(learner["learner_model_param"]["base_score"])
    scores = [float(score) for score in (dump if isinstance(dump, list) else [dump])]
    if objective in _LOGITS:
        return [math.log(score / (1.0 - score)) for score in scores]
    return [math.log(score) for score in scores] if objective in _LOGS else scores


def _codes(held: dict[str, Any], columns: int) -> list[int]:
    """The number of category codes per column: from the model's categories, else from its splits."""
    named = [len(column.get("offsets", [])) - 1 for column in (held.get("cats") or {}).get("enc", [])]
    counts = [max(count, 0) for count in named] or [0] * columns
    for tree in held["trees"]:
        for node in tree["categories_nodes"]:
            column = tree["split_indices"][node]
            counts[column] = max(counts[column], max(_categories(tree, node)) + 1)
    return counts


def _categories(tree: dict[str, Any], node: int) -> list[int]:
    index = tree["categories_nodes"].index(node)
    begin = tree["categories_segments"][index]
    return [int(code) for code in tree["categories"][begin : begin + tree["categories_sizes"][index]]]


def _tree(dump: dict[str, Any], codes: list[int]) -> Tree:
    if dump["tree_param"].get("size_leaf_vector", "1") not in ("0", "1"):
        raise refusal("its leaves are vectors")

    def add(tree: Tree, node: int) -> tuple[int, Sequence[int]]:
        if dump["left_children"][node] >= 0:
            return _split(tree, dump, node, codes)
        cover = max(float(dump["sum_hessian"][node]), _COVER_MIN)
        return tree.add_leaf(_float32(dump["split_conditions"][node]), cover), ()

    return grown(0, add)


def _split(tree: Tree, dump: dict[str, Any], node: int, codes: list[int]) -> tuple[int, Sequence[int]]:
    """Add a split; returns it with its left and right child nodes."""
    column, left = dump["split_indices"][node], bool(dump["default_left"][node])
    below, above = dump["left_children"][node], dump["right_children"][node]
    if not dump["split_type"][node]:
        threshold = _float32(dump["split_conditions"][node])
        return tree.add_split(column, threshold, "left" if left else "right"), (below, above)
    # XGBoost sends the set right; a sidecar sends listed categories left and missing values right.
    inside = _categories(dump, node)
    if left:
        return tree.add_split(column, 0.0, "right", sorted(inside)), (above, below)
    # Missing values go with the set, so all others are listed; the code after the last stands for unseen values.
    others = [code for code in range(codes[column] + 1) if code not in set(inside)]
    return tree.add_split(column, 0.0, "right", others), (below, above)


def _float32(text: float) -> float:
    """XGBoost compares float32; its shortest decimals parsed as doubles would be slightly off."""
    return float(np.float32(text))
