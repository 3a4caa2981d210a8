"""Writes the tree models of this folder: `python tests/golden/trees/make.py`. Small ones, as converters write them.

`crates/engine/src/native/tests.rs` compares the native trees with ONNX Runtime on them. The files are checked in, because
converters change; a run of this script needs LightGBM, XGBoost and scikit-learn.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightgbm
import numpy as np
import onnx
import onnxmltools
import xgboost
from onnx import TensorProto, helper
from onnxmltools.convert.common.data_types import FloatTensorType as ToolsFloats
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).resolve().parent
COLUMNS = 6
OF_NODES = (
    "treeids",
    "nodeids",
    "featureids",
    "modes",
    "values",
    "truenodeids",
    "falsenodeids",
    "missing_value_tracks_true",
)
OF_LEAVES = ("treeids", "nodeids", "ids", "weights")
MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ")
THRESHOLDS = (0.0, -0.0, 1.0, 2.0, 3.0, -1.5, 0.5, 40.0, 1e-45, float("inf"), float("-inf"))


def trained() -> Iterator[tuple[str, Any]]:
    """Models of training packages, with missing values where the package has them."""
    random = np.random.default_rng(7)
    rows = random.normal(size=(400, COLUMNS)).astype(np.float32)
    rows[:, 2] = np.round(rows[:, 2] * 3)
    two = (rows[:, 0] + rows[:, 1] * rows[:, 2] > 0.3).astype(int)
    three = np.digitize(rows[:, 0] + rows[:, 3], [-0.5, 0.6])
    amount = rows[:, 0] * 2 + rows[:, 1] ** 2
    texts = np.array(["no", "yes"])[two]
    gaps = np.where(random.random(rows.shape) < 0.1, np.nan, rows)

    def of_lightgbm(model: Any, **options: Any) -> Any:
        kind = [("x", ToolsFloats([None, COLUMNS]))]
        return onnxmltools.convert_lightgbm(model, initial_types=kind, **options)

    def of_xgboost(model: Any) -> Any:
        return onnxmltools.convert_xgboost(model, initial_types=[("x", ToolsFloats([None, COLUMNS]))])

    def of_sklearn(model: Any, **options: Any) -> Any:
        kind = [("x", FloatTensorType([None, COLUMNS]))]
        return convert_sklearn(model, initial_types=kind, options={id(model): options} if options else None)

    light: dict[str, Any] = {"n_estimators": 13, "num_leaves": 7, "min_child_samples": 5, "verbose": -1}
    boosted = lightgbm.LGBMClassifier(**light)
    yield "lightgbm_two", of_lightgbm(boosted.fit(gaps, two), zipmap=False)
    yield "lightgbm_three", of_lightgbm(lightgbm.LGBMClassifier(**light).fit(gaps, three), zipmap=False)
    yield "lightgbm_texts", of_lightgbm(lightgbm.LGBMClassifier(**light).fit(gaps, texts), zipmap=False)
    yield "lightgbm_amount", of_lightgbm(lightgbm.LGBMRegressor(**light).fit(gaps, amount))
    forest = lightgbm.LGBMClassifier(boosting_type="rf", bagging_freq=1, bagging_fraction=0.7, **light)
    yield "lightgbm_forest", of_lightgbm(forest.fit(rows, two), zipmap=False)
    yield "xgboost_two", of_xgboost(xgboost.XGBClassifier(n_estimators=9, max_depth=3).fit(gaps, two))
    yield "xgboost_three", of_xgboost(xgboost.XGBClassifier(n_estimators=9, max_depth=3).fit(gaps, three))
    yield "xgboost_amount", of_xgboost(xgboost.XGBRegressor(n_estimators=9, max_depth=3).fit(gaps, amount))
    small: dict[str, Any] = {"n_estimators": 9, "max_depth": 4, "random_state": 0}
    yield "sklearn_forest_two", of_sklearn(RandomForestClassifier(**small).fit(rows, texts), zipmap=False)
    yield "sklearn_forest_three", of_sklearn(RandomForestClassifier(**small).fit(rows, three), zipmap=False)
    yield "sklearn_boosted", of_sklearn(GradientBoostingClassifier(**small).fit(rows, two), zipmap=False)
    yield "sklearn_extra", of_sklearn(ExtraTreesRegressor(**small).fit(rows, np.stack([amount, -amount], 1)))
    hist = HistGradientBoostingClassifier(max_iter=9, max_leaf_nodes=7)
    yield "sklearn_hist", of_sklearn(hist.fit(gaps, two), zipmap=False)


class Grown:
    """A random ensemble, written attribute by attribute."""

    def __init__(self, modes: tuple[str, ...], targets: int, *, trees: int = 13, positive: bool = False) -> None:
        self.random = np.random.default_rng(3)
        self.modes, self.targets, self.positive = modes, targets, positive
        self.nodes: list[tuple[Any, ...]] = []
        self.weights: list[tuple[Any, ...]] = []
        for tree in range(trees):
            self._grow(tree, depth=4)

    def _grow(self, tree: int, depth: int) -> int:
        place = len(self.nodes)
        number = sum(node[0] == tree for node in self.nodes)
        self.nodes.append((tree, number, 0, "LEAF", 0.0, 0, 0, 0))
        if depth == 0 or (number and self.random.random() < 0.2):
            weight = self.random.random() / 30 if self.positive else self.random.normal()
            self.weights.append((tree, number, int(self.random.integers(self.targets)), float(weight)))
            return number
        mode = "BRANCH_" + str(self.random.choice(self.modes))
        feature = int(self.random.integers(COLUMNS))
        threshold = float(self.random.choice([*THRESHOLDS, *self.random.normal(size=5)]))
        yes, no = self._grow(tree, depth - 1), self._grow(tree, depth - 1)
        missing_true = int(self.random.random() < 0.4)
        self.nodes[place] = (tree, number, feature, mode, threshold, yes, no, missing_true)
        return number

    def model(self, axis: int | None = None, **attributes: Any) -> Any:
        """A regressor, or a classifier where it has labels."""
        columns = zip(*self.nodes, strict=True)
        attributes.update({f"nodes_{name}": list(column) for name, column in zip(OF_NODES, columns, strict=True)})
        classifier = "classlabels_int64s" in attributes
        kind = "class" if classifier else "target"
        columns = zip(*self.weights, strict=True)
        for name, column in zip(OF_LEAVES, columns, strict=True):
            attributes[f"{kind}_{name}"] = list(column)
        scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [axis, self.targets])
        label = helper.make_tensor_value_info("label", TensorProto.INT64, [axis])
        outputs = [label, scores] if classifier else [scores]
        operator = "TreeEnsembleClassifier" if classifier else "TreeEnsembleRegressor"
        if not classifier:
            attributes["n_targets"] = self.targets
        names = [output.name for output in outputs]
        node = helper.make_node(operator, ["x"], names, domain="ai.onnx.ml", **attributes)
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [axis, COLUMNS])
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
        graph = helper.make_graph([node], "trees", [x], outputs)
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def grown() -> Iterator[tuple[str, Any]]:
    """What converters do not write today, and the specification allows."""
    yield "every_mode", Grown(MODES, 1).model()
    yield "every_threshold_mode", Grown(MODES[:4], 1).model(base_values=[0.5])
    yield "equality", Grown(("EQ",), 1).model()
    yield "smallest", Grown(MODES[:4], 3).model(aggregate_function="MIN", base_values=[0.5, 0.25, 2.0])
    yield "largest", Grown(MODES[:2], 1).model(aggregate_function="MAX")
    yield "average", Grown(MODES[:2], 2).model(aggregate_function="AVERAGE", post_transform="LOGISTIC")
    two, three = {"classlabels_int64s": [4, 9]}, {"classlabels_int64s": [4, 9, 7]}
    yield "two_sided", Grown(MODES[:2], 2).model(**two)
    yield "softmax_zero", Grown(MODES[:2], 3).model(**three, post_transform="SOFTMAX_ZERO", base_values=[0.1, 0.2, 0.3])
    yield "probit", Grown(MODES[:2], 1, positive=True).model(post_transform="PROBIT", base_values=[0.1])
    yield "fixed_rows", Grown(MODES[:2], 1).model(axis=3)


def main() -> None:
    """Writes all models."""
    warnings.filterwarnings("ignore")
    for name, model in [*trained(), *grown()]:
        onnx.save(model, FOLDER / f"{name}.onnx")


if __name__ == "__main__":
    main()
