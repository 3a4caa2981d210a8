"""XGBoost's trees, from its own JSON. Covers are sums of hessians, as its `pred_contribs` weighs them.

Takes a Booster or any of XGBoost's scikit-learn classes. Never imports XGBoost: whoever has a model has it.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from flyball.errors import UsageError
from flyball.models.attribution.ensemble import Ensemble, Tree, refusal

# The base score is kept as the objective answers; trees add to the margin before its link.
_LOGITS = ("binary:logistic", "reg:logistic")
_LOGS = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")
_COVER_MIN = 1e-16  # XGBoost's own least hessian; a leaf without any would weigh nothing


def ensemble(model: Any, element: int | None) -> Ensemble:
    """The trees that move one element of the model's output."""
    booster = answering(model)
    learner = json.loads(bytes(booster.save_raw("json")))["learner"]
    kind = learner["gradient_booster"]["name"]
    if kind != "gbtree":
        raise refusal(f"it is of the kind {kind}; only gbtree has plain trees")
    held = learner["gradient_booster"]["model"]
    objective = str(learner["objective"]["name"])
    base, columns = _base(learner, objective), int(learner["learner_model_param"]["num_feature"])
    codes = _codes(held, columns)
    found = list(zip(held["tree_info"], held["trees"], strict=True))
    classes = max(int(learner["learner_model_param"]["num_class"]), 1)
    if int(learner["learner_model_param"].get("num_target", "1")) > 1:
        raise refusal("it has several targets")
    if classes > 1:
        if element is None or not 0 <= element < classes:
            raise UsageError(f"say which of the {classes} classes is the score:  element=0 to {classes - 1}")
        trees = [_tree(tree, codes) for group, tree in found if group == element]
        return Ensemble(columns, f"margin of class {element}, {objective}", base[element % len(base)], trees, below="<")
    two = objective.startswith("binary")
    if element not in ((None, 0, 1) if two else (None, 0)):
        raise UsageError(f"the model has no element {element} of its output")
    whole = Ensemble(columns, f"margin, {objective}", base[0], [_tree(tree, codes) for _, tree in found], below="<")
    # What raises the first class's probability lowers the second's.
    return whole.scaled(-1.0) if two and element == 0 else whole


def answering(model: Any) -> Any:
    """The booster with the rounds that the model answers by.

    Of training that stopped early a scikit-learn class uses the rounds up to the best; a Booster itself uses all of them.
    """
    if not hasattr(model, "get_booster"):
        return model
    booster, rounds = model.get_booster(), best_rounds(model)
    return booster if rounds is None else booster[:rounds]


def best_rounds(model: Any) -> int | None:
    """How many rounds training that stopped early found best, where it went on beyond them."""
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    best = booster.attr("best_iteration")
    return None if best is None or int(best) + 1 >= booster.num_boosted_rounds() else int(best) + 1


def _base(learner: dict[str, Any], objective: str) -> list[float]:
    """What the trees start from; a list since XGBoost 3.1, one number before."""
    told = json.loads(learner["learner_model_param"]["base_score"])
    scores = [float(score) for score in (told if isinstance(told, list) else [told])]
    if objective in _LOGITS:
        return [math.log(score / (1.0 - score)) for score in scores]
    return [math.log(score) for score in scores] if objective in _LOGS else scores


def _codes(held: dict[str, Any], columns: int) -> list[int]:
    """How many codes each column has: its categories where the model keeps them, else those that its splits name."""
    named = [len(column.get("offsets", [])) - 1 for column in (held.get("cats") or {}).get("enc", [])]
    counts = [max(count, 0) for count in named] or [0] * columns
    for tree in held["trees"]:
        for node in tree["categories_nodes"]:
            column = tree["split_indices"][node]
            counts[column] = max(counts[column], max(_categories(tree, node)) + 1)
    return counts


def _categories(tree: dict[str, Any], node: int) -> list[int]:
    place = tree["categories_nodes"].index(node)
    begin = tree["categories_segments"][place]
    return [int(code) for code in tree["categories"][begin : begin + tree["categories_sizes"][place]]]


def _tree(told: dict[str, Any], codes: list[int]) -> Tree:
    if told["tree_param"].get("size_leaf_vector", "1") not in ("0", "1"):
        raise refusal("its leaves are vectors")
    tree = Tree()
    # A list instead of recursion: chains of splits can be deeper than Python's stack.
    open_ends = [(0, -1, True)]
    while open_ends:
        node, parent, left = open_ends.pop()
        if told["left_children"][node] < 0:
            cover = max(float(told["sum_hessian"][node]), _COVER_MIN)
            here = tree.add_leaf(_float32(told["split_conditions"][node]), cover)
        else:
            here, first, second = _split(tree, told, node, codes)
            open_ends += [(second, here, False), (first, here, True)]
        if parent >= 0:
            tree.attach(here, parent, left=left)
    return tree


def _split(tree: Tree, told: dict[str, Any], node: int, codes: list[int]) -> tuple[int, int, int]:
    """A split, and which of XGBoost's nodes stand left and right of it."""
    column, left = told["split_indices"][node], bool(told["default_left"][node])
    below, above = told["left_children"][node], told["right_children"][node]
    if not told["split_type"][node]:
        threshold = _float32(told["split_conditions"][node])
        return tree.add_split(column, threshold, "left" if left else "right"), below, above
    # XGBoost sends what is in the set right; here what is listed goes left, and what is missing right.
    inside = _categories(told, node)
    if left:
        return tree.add_split(column, 0.0, "right", sorted(inside)), above, below
    # What is missing goes with the set, so all others are listed; the code after the last one stands for the unseen.
    others = [code for code in range(codes[column] + 1) if code not in set(inside)]
    return tree.add_split(column, 0.0, "right", others), below, above


def _float32(text: float) -> float:
    """XGBoost compares floats; their shortest decimals read as doubles would lie beside them."""
    return float(np.float32(text))
