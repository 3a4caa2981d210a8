"""Reads scikit-learn's trees: gradient boosting, histogram gradient boosting, forests and single trees.

Covers are weighted counts of training rows. Never imports scikit-learn: the caller already has.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from flyball.models.attribution.ensemble import Ensemble, Missing, Tree, direction, grown, one_of, refusal


def ensemble(model: Any, element: int | None) -> Ensemble:
    """The trees that move one element of the model's output."""
    if hasattr(model, "_predictors"):
        return _boosted(model, element, _histogram_trees, _histogram_base)
    if hasattr(model, "estimators_") and hasattr(model, "init_"):
        return _boosted(model, element, _gradient_trees, _gradient_base)
    if hasattr(model, "tree_"):
        return _forest(model, [model], element)
    # AdaBoost and bagging have trees too, but weigh them or give each its own columns.
    if hasattr(model, "estimators_") and any(kind.__name__ == "BaseForest" for kind in type(model).__mro__):
        return _forest(model, model.estimators_, element)
    raise refusal(f"{type(model).__name__} is no additive tree model, or is not fitted")


def _sequence(model: Any, element: int | None) -> tuple[int, float]:
    """Which sequence of trees moves the element, and in which direction."""
    classes = len(model.classes_) if hasattr(model, "classes_") else 1
    if classes > 2:
        return one_of(classes, element), 1.0
    return 0, direction(element, two_classes=classes == 2)


def _boosted(model: Any, element: int | None, trees_of: Any, base_of: Any) -> Ensemble:
    index, direction = _sequence(model, element)
    margin = f"raw score of {type(model).__name__}"
    return Ensemble(int(model.n_features_in_), margin, base_of(model, index), trees_of(model, index)).scaled(direction)


def _gradient_trees(model: Any, index: int) -> list[Tree]:
    rate = float(model.learning_rate)
    return [_array_tree(row[index].tree_, lambda value: float(value[0]) * rate) for row in model.estimators_]


def _gradient_base(model: Any, index: int) -> float:
    if isinstance(model.init_, str):
        return 0.0  # "zero"
    if hasattr(model.init_, "class_prior_"):
        prior = [float(share) for share in model.init_.class_prior_]
        if len(prior) == 2:
            return math.log(prior[1] / prior[0])
        logs = [math.log(share) for share in prior]
        return logs[index] - sum(logs) / len(logs)
    if hasattr(model.init_, "constant_"):
        return float(model.init_.constant_.ravel()[0])
    raise refusal(f"its initial estimator is a {type(model.init_).__name__}")


def _histogram_base(model: Any, index: int) -> float:
    return float(model._baseline_prediction.ravel()[index])


def _histogram_trees(model: Any, index: int) -> list[Tree]:
    return [_histogram_tree(row[index].nodes) for row in model._predictors]


def _histogram_tree(nodes: Any) -> Tree:
    def add(tree: Tree, number: int) -> tuple[int, Sequence[int]]:
        node = nodes[number]
        if node["is_leaf"]:
            return tree.add_leaf(float(node["value"]), float(node["count"])), ()
        if node["is_categorical"]:
            raise refusal("the sidecar does not support scikit-learn's categorical splits")
        missing: Missing = "left" if node["missing_go_to_left"] else "right"
        split = tree.add_split(int(node["feature_idx"]), _finite(node["num_threshold"]), missing)
        return split, (int(node["left"]), int(node["right"]))

    return grown(0, add)


def _forest(model: Any, parts: Any, element: int | None) -> Ensemble:
    """A forest returns the mean of its trees; a leaf holds the share of each class."""
    if getattr(model, "n_outputs_", 1) != 1:
        raise refusal("it has several outputs")
    if hasattr(model, "classes_"):
        classes = len(model.classes_)
        chosen = one_of(classes, 1 if element is None and classes == 2 else element)
        trees = [_array_tree(part.tree_, lambda value: float(value[chosen] / value.sum())) for part in parts]
        margin = f"share of class {chosen}"
    else:
        _sequence(model, element)
        trees = [_array_tree(part.tree_, lambda value: float(value[0])) for part in parts]
        margin = "the answer itself"
    return Ensemble(int(model.n_features_in_), margin, 0.0, trees).scaled(1.0 / len(trees))


def _array_tree(nodes: Any, value_of: Any) -> Tree:
    def add(tree: Tree, node: int) -> tuple[int, Sequence[int]]:
        if nodes.children_left[node] < 0:
            return tree.add_leaf(value_of(nodes.value[node][0]), float(nodes.weighted_n_node_samples[node])), ()
        missing: Missing = "left" if nodes.missing_go_to_left[node] else "right"
        split = tree.add_split(int(nodes.feature[node]), _finite(nodes.threshold[node]), missing)
        return split, (int(nodes.children_left[node]), int(nodes.children_right[node]))

    return grown(0, add)


def _finite(threshold: Any) -> float:
    """An infinite threshold separates only the missing values."""
    return max(min(float(threshold), sys.float_info.max), -sys.float_info.max)
