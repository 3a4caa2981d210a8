"""Contributions equal those of the library that trained the model, and add up; what cannot be told is refused."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from flyball.errors import InvalidInputError, ModelRefusedError, RefusedError, UsageError
from flyball.models import attribution

Table = NDArray[Any]
SEED = 20261115
SETTINGS = {"verbose": -1, "num_threads": 1, "seed": SEED, "deterministic": True, "num_leaves": 31}


def table(count: int, seed: int = SEED) -> tuple[Table, Table]:
    """Eight columns of which the second has gaps, the third many zeros, and the fourth is a category of 12."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(count, 8)).astype(np.float32)
    rows[random.random(count) < 0.2, 1] = np.nan
    rows[random.random(count) < 0.5, 2] = 0.0
    rows[:, 3] = random.integers(0, 12, count)
    pull = rows[:, 0] * np.nan_to_num(rows[:, 1], nan=1.0) + rows[:, 2] + np.isin(rows[:, 3], [1, 4, 7]) - rows[:, 4]
    return rows, (pull + random.normal(size=count) > 0.3).astype(np.int64)


def boosted(trees: int = 300, count: int = 4000, **settings: object) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import lightgbm

        rows, target = table(count)
        data = lightgbm.Dataset(rows, target, categorical_feature=settings.pop("categorical_feature", "auto"))
        return lightgbm.train({**SETTINGS, "objective": "binary", **settings}, data, trees)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"zero_as_missing": True},
        {"use_missing": False},
        {"categorical_feature": [3]},
        {"boosting": "rf", "bagging_fraction": 0.7, "bagging_freq": 1},
    ],
    ids=["plain", "zeros are missing", "nothing is missing", "categories", "forest"],
)
def test_contributions_are_lightgbm_s_own_and_add_up_to_the_raw_margin(settings: dict[str, object]) -> None:
    model = boosted(300 if not settings else 60, **settings)
    rows, _ = table(1000, seed=7)
    rows[::9, 5] = np.nan  # a column that had no gap in training
    rows[::11, 3] = 99  # a category that training has not seen
    got = attribution.contributions(attribution.trees_sidecar(model), rows)
    np.testing.assert_allclose(got, model.predict(rows, pred_contrib=True), rtol=0, atol=1e-5)
    np.testing.assert_allclose(got.sum(axis=1), model.predict(rows, raw_score=True), rtol=0, atol=1e-9)


def test_a_deep_model_agrees_too() -> None:
    model = boosted(20, num_leaves=400, min_data_in_leaf=2, max_depth=-1)
    rows, _ = table(200, seed=7)
    got = attribution.contributions(attribution.trees_sidecar(model), rows)
    np.testing.assert_allclose(got, model.predict(rows, pred_contrib=True), rtol=0, atol=1e-5)


def test_the_first_class_s_contributions_are_the_second_s_turned_round() -> None:
    model, (rows, _) = boosted(20), table(50, seed=7)
    ones, zeros = (attribution.contributions(attribution.trees_sidecar(model, element=which), rows) for which in (1, 0))
    np.testing.assert_allclose(ones, -zeros, rtol=0, atol=0)


def test_each_of_several_classes_has_its_own_trees() -> None:
    import lightgbm

    rows, target = table(1500)
    target = target + (rows[:, 4] > 1)
    model = lightgbm.train({**SETTINGS, "objective": "multiclass", "num_class": 3}, lightgbm.Dataset(rows, target), 12)
    margins = model.predict(rows[:60], raw_score=True)
    for which in range(3):
        got = attribution.contributions(attribution.trees_sidecar(model, element=which), rows[:60])
        np.testing.assert_allclose(got.sum(axis=1), margins[:, which], rtol=0, atol=1e-9)
    with pytest.raises(UsageError, match="one of the 3 classes"):
        attribution.trees_sidecar(model)


def test_the_scikit_learn_class_of_lightgbm_is_taken_as_its_booster(tmp_path: Path) -> None:
    import lightgbm

    rows, target = table(500)
    model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1).fit(rows, target)
    path = attribution.write_trees(model, tmp_path / "m.trees.json")
    assert path.read_bytes() == attribution.trees_sidecar(model.booster_)


OBJECTIVES = {
    "binary:logistic": 1, "binary:logitraw": 1, "reg:logistic": 1, "reg:squarederror": 1, "count:poisson": 1,
    "reg:gamma": 1, "reg:tweedie": 1, "survival:cox": 1, "multi:softprob": 3,
}  # fmt: skip


def xgboosted(objective: str, classes: int = 1, trees: int = 20, **settings: object) -> tuple[Any, Any]:
    """A booster over rows whose fourth column is of categories, and these rows with gaps and unseen codes."""
    import xgboost

    rows, target = table(1500)
    rows[::13, 3] = np.nan
    wanted = target + (rows[:, 4] > 1) if classes > 1 else target + 0.5 if "gamma" in objective else target
    kinds = ["q", "q", "q", "c", "q", "q", "q", "q"]
    held = xgboost.DMatrix(rows, wanted, feature_types=kinds, enable_categorical=True)
    fixed = {"objective": objective, "nthread": 1, "seed": SEED, "max_depth": 5, "max_cat_to_onehot": 2}
    several = {"num_class": classes} if classes > 1 else {}
    fresh, _ = table(500, seed=7)
    fresh[::9, 5] = np.nan  # a column that had no gap in training
    fresh[::11, 3] = np.nan
    fresh[::12, 3] = 12  # the code after the last one
    return xgboost.train({**fixed, **several, **settings}, held, trees), fresh


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_contributions_are_xgboost_s_own_and_add_up_to_the_margin(objective: str) -> None:
    import xgboost

    classes = OBJECTIVES[objective]
    model, rows = xgboosted(objective, classes)
    held = xgboost.DMatrix(rows, feature_types=model.feature_types, enable_categorical=True)
    told, margin = model.predict(held, pred_contribs=True), model.predict(held, output_margin=True)
    for element in range(classes) if classes > 1 else [None]:
        wanted, raw = (told, margin) if element is None else (told[:, element], margin[:, element])
        got = attribution.contributions(attribution.trees_sidecar(model, element=element), rows)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5)
        np.testing.assert_allclose(got.sum(axis=1), raw, rtol=0, atol=1e-5)


def test_xgboost_compares_floats_by_less_than() -> None:
    import xgboost

    model, rows = xgboosted("reg:squarederror", trees=5)
    sidecar = json.loads(attribution.trees_sidecar(model))
    assert sidecar["below"] == "<"
    places = [(at, place) for at, tree in enumerate(sidecar["trees"]) for place in range(len(tree["feature"]))]
    numbers = [(tree, place) for tree, place in places if str(place) not in sidecar["trees"][tree].get("categories", {})]
    rows = rows[: len(numbers)]
    for row, (tree, place) in zip(rows, numbers, strict=True):
        row[sidecar["trees"][tree]["feature"][place]] = sidecar["trees"][tree]["threshold"][place]
    held = xgboost.DMatrix(rows, feature_types=model.feature_types, enable_categorical=True)
    got = attribution.contributions(attribution.trees_sidecar(model), rows).sum(axis=1)
    np.testing.assert_allclose(got, model.predict(held, output_margin=True), rtol=0, atol=1e-5)


def test_the_scikit_learn_class_of_xgboost_is_taken_as_its_booster() -> None:
    import xgboost

    rows, target = table(500)
    model = xgboost.XGBClassifier(n_estimators=5, n_jobs=1).fit(rows, target)
    assert attribution.trees_sidecar(model) == attribution.trees_sidecar(model.get_booster())
    ones, zeros = (attribution.contributions(attribution.trees_sidecar(model, element=which), rows) for which in (1, 0))
    np.testing.assert_array_equal(ones, -zeros)


def test_what_stopped_early_is_explained_by_the_rounds_that_it_answers_by() -> None:
    import xgboost

    rows, target = table(900)
    model = xgboost.XGBClassifier(n_estimators=100, early_stopping_rounds=2, learning_rate=0.8, n_jobs=1)
    model.fit(rows[:600], target[:600], eval_set=[(rows[600:], target[600:])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    got = attribution.contributions(attribution.trees_sidecar(model), rows).sum(axis=1)
    np.testing.assert_allclose(got, model.predict(rows, output_margin=True), rtol=0, atol=1e-5)


def test_boosters_of_xgboost_without_plain_trees_are_refused_with_another_way() -> None:
    for kind in ("dart", "gblinear"):
        model, _ = xgboosted("reg:squarederror", trees=3, booster=kind) if kind == "dart" else (linear_booster(), None)
        with pytest.raises(ModelRefusedError, match=rf"its booster is {kind}.*\n.*ablation"):
            attribution.trees_sidecar(model)


def linear_booster() -> Any:
    import xgboost

    rows, target = table(200)
    return xgboost.train({"booster": "gblinear", "nthread": 1}, xgboost.DMatrix(np.nan_to_num(rows), target), 2)


def test_trees_that_do_not_simply_add_up_are_refused() -> None:
    from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier

    rows, target = table(300)
    for model in (AdaBoostClassifier(n_estimators=3), BaggingClassifier(n_estimators=3, max_features=4)):
        with pytest.raises(ModelRefusedError, match="is no additive tree model"):
            attribution.trees_sidecar(model.fit(np.nan_to_num(rows), target))


def test_linear_leaves_are_refused_with_another_way() -> None:
    import lightgbm

    rows, target = table(500)
    settings = {**SETTINGS, "objective": "regression", "linear_tree": True, "num_leaves": 4}
    model = lightgbm.train(settings, lightgbm.Dataset(np.nan_to_num(rows), target.astype(float)), 3)
    with pytest.raises(ModelRefusedError, match=r"linear models\n.*ablation"):
        attribution.trees_sidecar(model)


def sklearn_models() -> dict[str, Any]:
    from sklearn import ensemble, tree

    return {
        "gradient boosting": ensemble.GradientBoostingClassifier(n_estimators=15, random_state=1),
        "histogram boosting": ensemble.HistGradientBoostingClassifier(max_iter=15, random_state=1),
        "forest": ensemble.RandomForestClassifier(n_estimators=10, max_depth=6, random_state=1),
        "regression forest": ensemble.ExtraTreesRegressor(n_estimators=10, max_depth=6, random_state=1),
        "regression boosting": ensemble.GradientBoostingRegressor(n_estimators=15, random_state=1),
        "tree": tree.DecisionTreeClassifier(max_depth=5, random_state=1),
    }


@pytest.mark.parametrize("kind", list(sklearn_models()))
def test_contributions_of_scikit_learn_s_trees_add_up_to_what_the_model_says(kind: str) -> None:
    model = sklearn_models()[kind]
    rows, target = table(1000)
    rows = rows if kind == "histogram boosting" else np.nan_to_num(rows)
    model.fit(rows, target)
    got = attribution.contributions(attribution.trees_sidecar(model), rows[:200]).sum(axis=1)
    if hasattr(model, "decision_function"):
        said = model.decision_function(rows[:200])
    elif hasattr(model, "predict_proba"):
        said = model.predict_proba(rows[:200])[:, 1]
    else:
        said = model.predict(rows[:200])
    np.testing.assert_allclose(got, said, rtol=0, atol=1e-6)


def test_a_linear_model_gives_its_coefficients_and_the_means_of_its_rows() -> None:
    from sklearn.linear_model import LogisticRegression

    rows, target = table(500)
    rows = np.nan_to_num(rows)
    model = LogisticRegression(max_iter=500).fit(rows, target)
    block = attribution.linear_block(model, rows)["linear"]
    moved = np.array(block["coefficients"]) * (rows - np.array(block["means"]))
    base = model.decision_function(np.array([block["means"]]))
    np.testing.assert_allclose(moved.sum(axis=1) + base, model.decision_function(rows), rtol=0, atol=1e-6)
    assert attribution.linear_block(model, rows, element=0)["linear"]["coefficients"] == [-c for c in block["coefficients"]]
    with pytest.raises(UsageError, match="8 columns"):
        attribution.linear_block(model, rows[:, :3])


def test_the_baseline_of_an_ablation_is_the_median_of_each_column() -> None:
    rows = np.array([[1.0, np.nan], [2.0, 5.0], [9.0, 7.0]])
    assert attribution.ablation_block(rows) == {"ablation": {"baseline": [2.0, 6.0]}}


def test_what_has_no_trees_is_refused_with_another_way() -> None:
    from sklearn.linear_model import LogisticRegression

    for model in (object(), LogisticRegression()):
        with pytest.raises((UsageError, ModelRefusedError), match="ablation"):
            attribution.trees_sidecar(model)


def test_a_sidecar_that_is_not_one_is_refused_in_words() -> None:
    sidecar = json.loads(attribution.trees_sidecar(boosted(2)))
    sidecar["trees"][1]["cover"][0] = -1
    with pytest.raises(RefusedError, match=r"trees\[1\] with covers above 0; one is -1"):
        attribution.contributions(json.dumps(sidecar).encode(), np.zeros((1, 8)))
    with pytest.raises(InvalidInputError, match="3 columns; it has 8"):
        attribution.contributions(attribution.trees_sidecar(boosted(2)), np.zeros((1, 3)))
