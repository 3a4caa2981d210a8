"""Pipelines of scikit-learn become decisions that answer as they do: steps as transforms, estimators as models."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import LinearSVC

from flyball.errors import InvalidInputError, ModelRefusedError, RegistryRefusedError, UsageError
from flyball.models.convert import Converted, convert
from flyball.registry.packages.pack import Contents, pack
from tests.support import trained_models

FRAME = trained_models.payments()
ROWS, TARGET = FRAME.drop(columns="fraud"), FRAME["fraud"]


def filled() -> Any:
    """Numbers filled and scaled, texts and numbers of categories one-hot; what is left passes through."""
    numbers = Pipeline([("fill", SimpleImputer(strategy="median")), ("scale", StandardScaler())])
    return ColumnTransformer(
        [
            ("numbers", numbers, trained_models.NUMBERS),
            ("texts", OneHotEncoder(handle_unknown="ignore"), trained_models.TEXTS),
            ("codes", OneHotEncoder(handle_unknown="ignore"), ["mcc"]),
        ],
        remainder="passthrough",
        sparse_threshold=0,
    )


def coded() -> Any:
    """Texts as places, gaps left to the trees."""
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    return ColumnTransformer([("texts", codes, trained_models.TEXTS)], remainder="passthrough")


def lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return make_pipeline(coded(), LGBMClassifier(n_estimators=15, verbose=-1, n_jobs=1))


def xgboost() -> Any:
    from xgboost import XGBClassifier

    return make_pipeline(coded(), XGBClassifier(n_estimators=15, n_jobs=1))


PIPELINES: dict[str, tuple[Callable[[], Any], str]] = {
    "logistic regression": (lambda: make_pipeline(filled(), LogisticRegression(max_iter=500)), "linear"),
    "ridge": (lambda: make_pipeline(filled(), Ridge()), "linear"),
    "linear machine": (lambda: make_pipeline(filled(), LinearSVC()), "linear"),
    "boosting": (lambda: make_pipeline(filled(), GradientBoostingClassifier(n_estimators=10)), "trees"),
    "histogram boosting": (lambda: make_pipeline(coded(), HistGradientBoostingClassifier(max_iter=15)), "trees"),
    "forest over gaps": (
        lambda: make_pipeline(coded(), RandomForestClassifier(10, max_depth=6, random_state=1)),
        "trees",
    ),
    "regression forest over gaps": (
        lambda: make_pipeline(coded(), RandomForestRegressor(10, max_depth=6, random_state=1)),
        "trees",
    ),
    "calibrated": (
        lambda: make_pipeline(filled(), CalibratedClassifierCV(LogisticRegression(max_iter=500), cv=2)),
        "ablation",
    ),
    "perceptron": (lambda: make_pipeline(filled(), MLPClassifier((8,), max_iter=20, random_state=1)), "ablation"),
    "selected columns": (lambda: make_pipeline(filled(), SelectKBest(k=5), LogisticRegression(max_iter=500)), "linear"),
    "principal components": (lambda: make_pipeline(filled(), PCA(4), LogisticRegression(max_iter=500)), "ablation"),
    "LightGBM at the end": (lightgbm, "trees"),
    "XGBoost at the end": (xgboost, "trees"),
}


def answers(model: Any, rows: pd.DataFrame) -> Any:
    if hasattr(model, "predict_proba"):
        return model.predict_proba(rows)[:, 1]
    return (model.decision_function if hasattr(model, "decision_function") else model.predict)(rows)


def made(model: Any, folder: Path, **options: Any) -> Converted:
    return convert(model, data=FRAME, out=folder / "out", target="fraud", name="fraud", rows=600, **options)


@pytest.mark.filterwarnings("ignore")  # models that did not converge, and names that their steps do not keep
@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_s_decision_answers_as_it_does_also_for_gaps_and_unseen_texts(name: str, tmp_path: Path) -> None:
    make, explained = PIPELINES[name]
    model = make().fit(ROWS, TARGET)
    converted = made(model, tmp_path)
    fresh = trained_models.odd(trained_models.payments(300, seed=3))
    expected = answers(model, fresh.drop(columns="fraud"))
    np.testing.assert_allclose(trained_models.scores(converted, fresh), expected, rtol=0, atol=5e-6)
    assert converted.document["explained_by"] == explained
    assert {"given", "random", "edge"} == converted.result.comparison.by_kind.keys() - {"rounded"}
    assert converted.result.rounded.ordinary == 0


def test_a_converted_folder_is_packed_with_other_bands_and_not_with_another_mean(tmp_path: Path) -> None:
    model = make_pipeline(filled(), LogisticRegression(max_iter=500)).fit(ROWS, TARGET)
    folder = made(model, tmp_path).folder
    text = (folder / "decision.yaml").read_text()
    assert "below: 0.5" in text
    (folder / "decision.yaml").write_text(text.replace("below: 0.5", "below: 0.4").replace("at_least: 0.5", "at_least: 0.4"))
    pack(Contents(name="fraud", author="ada", folder=folder), tmp_path / "other bands")
    proof = folder / "equivalence.json"
    pack(
        Contents(name="fraud", author="ada", decision=folder / "decision.yaml", certificate=proof), tmp_path / "by decision"
    )
    fitted = json.loads((folder / "fitted.json").read_text())
    means = next(step["mean"] for step in fitted["transforms"] if "mean" in step)
    means[0] += 1.0
    (folder / "fitted.json").write_text(json.dumps(fitted))
    with pytest.raises(RegistryRefusedError, match="is the compared model, but its decision has changed since"):
        pack(Contents(name="fraud", author="ada", folder=folder), tmp_path / "another mean")


def test_contributions_of_a_pipeline_s_trees_come_by_field(tmp_path: Path) -> None:
    model = make_pipeline(coded(), RandomForestClassifier(5, max_depth=4, random_state=1)).fit(ROWS, TARGET)
    converted = made(model, tmp_path)
    with converted.decision() as decision:
        decided = [decision.decide(row, explain=True) for row in trained_models.requests(FRAME[:20], converted)]
    named = {reason.field for one in decided for reason in one.reasons}
    assert {"amount", "distance"} <= named <= set(converted.document["fields"])


def test_a_text_that_the_pipeline_refuses_is_refused_by_its_decision_too(tmp_path: Path) -> None:
    strict = ColumnTransformer([("texts", OneHotEncoder(), ["country"])], remainder="drop", sparse_threshold=0)
    converted = made(make_pipeline(strict, LogisticRegression()).fit(ROWS, TARGET), tmp_path)
    assert converted.document["fields"] == {"country": "country"}
    with converted.decision() as decision, pytest.raises(InvalidInputError, match="country"):
        decision.decide({"country": "nowhere"})


@pytest.mark.filterwarnings("ignore")
def test_a_step_that_no_transform_repeats_goes_into_the_model_with_one_tensor_for_each_column(tmp_path: Path) -> None:
    from sklearn.preprocessing import PowerTransformer

    texts = OneHotEncoder(handle_unknown="ignore")
    steps = ColumnTransformer(
        [("power", PowerTransformer(), ["amount", "card age"]), ("texts", texts, trained_models.TEXTS)]
    )
    model = make_pipeline(steps, LogisticRegression(max_iter=500)).fit(ROWS, TARGET)
    frame = FRAME[["amount", "card age", "distance", "online", "country", "channel", "mcc", "fraud"]]
    converted = convert(model, data=frame, out=tmp_path / "out", target="fraud", name="fraud")
    assert isinstance(converted.document["columns"], dict)
    assert "PowerTransformer cannot be converted to transforms" in converted.document["notes"][0]


def test_the_best_of_a_search_is_taken(tmp_path: Path) -> None:
    search = GridSearchCV(Ridge(), {"alpha": [1.0, 10.0]}, cv=2).fit(ROWS[["amount", "mcc"]], TARGET)
    converted = made(search, tmp_path)
    expected = search.predict(ROWS[["amount", "mcc"]])
    np.testing.assert_allclose(trained_models.scores(converted, FRAME), expected, rtol=0, atol=1e-5)


def test_of_several_classes_one_is_named(tmp_path: Path) -> None:
    target = np.where(ROWS["amount"] > 60, "high", np.where(TARGET == 1, "fraud", "low"))
    model = RandomForestClassifier(5, max_depth=4, random_state=1).fit(ROWS[["amount", "mcc"]], target)
    with pytest.raises(UsageError, match=r"3 classes.*\n.*--score 0 to 2: 0 is 'fraud', 1 is 'high', 2 is 'low'"):
        made(model, tmp_path)
    with pytest.raises(UsageError, match=r"no element 3"):
        made(model, tmp_path, score=3)
    converted = made(model, tmp_path, score=1)
    expected = model.predict_proba(ROWS[["amount", "mcc"]])[:, 1]
    np.testing.assert_allclose(trained_models.scores(converted, FRAME), expected, rtol=0, atol=1e-6)


def own_words(table: Any) -> Any:
    return table


def test_a_step_that_nothing_can_compute_is_named_with_what_to_do(tmp_path: Path) -> None:
    steps = make_pipeline(FunctionTransformer(own_words), StandardScaler(), LogisticRegression())
    model = steps.fit(ROWS[["amount", "mcc"]], TARGET)
    with pytest.raises(
        ModelRefusedError, match=r"transform \(FunctionTransformer: own_words.* nor by ONNX .*\n.*replace the"
    ):
        made(model, tmp_path)


def test_an_estimator_that_skl2onnx_does_not_know_is_named(tmp_path: Path) -> None:
    from sklearn.semi_supervised import LabelSpreading

    model = LabelSpreading().fit(ROWS[["amount", "mcc"]], TARGET)
    with pytest.raises(ModelRefusedError, match=r"skl2onnx cannot convert LabelSpreading: .*\n.*end the pipeline with"):
        made(model, tmp_path)


def test_what_predicts_nothing_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="StandardScaler, which does not predict"):
        made(make_pipeline(StandardScaler()).fit(ROWS[["amount"]]), tmp_path)
    with pytest.raises(InvalidInputError, match=r"builtins\.dict is not a supported model"):
        made({"a": 1}, tmp_path)


def test_a_column_that_the_data_does_not_have_is_named_and_so_is_one_of_another_case(tmp_path: Path) -> None:
    model = Ridge().fit(ROWS[["amount", "mcc"]], TARGET)
    with pytest.raises(InvalidInputError, match=r"no column 'amount', which.*\n.*rename 'Amount' to 'amount'"):
        convert(model, data=FRAME.rename(columns={"amount": "Amount"}), out=tmp_path / "out", name="x")
    with pytest.raises(InvalidInputError, match=r"no column 'mcc', which.*\n.*its columns are 'amount', 'card age'"):
        convert(model, data=FRAME.drop(columns="mcc"), out=tmp_path / "out", name="x")
    with pytest.raises(InvalidInputError, match=r"no column 'risk', the target"):
        convert(model, data=FRAME, out=tmp_path / "out", name="x", target="risk")
