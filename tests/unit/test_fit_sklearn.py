"""Transforms from scikit-learn's steps: the same columns to the last bit, and a refusal by name for all other steps."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    StandardScaler,
    TargetEncoder,
)

from flyball.decision.fit.columns import Columns, apply
from flyball.decision.fit.sklearn_steps import Translated, from_sklearn
from flyball.errors import InvalidInputError
from tests.support import pipelines


def computed(translated: Translated, rows: NDArray[Any]) -> NDArray[np.float64]:
    """The columns that the transforms make, in the order of the model."""
    columns: Columns = {}
    for place, name in enumerate(pipelines.FIELDS):
        columns[name] = rows[:, place].astype(np.float64) if name in pipelines.NUMBERS else rows[:, place]
    for transform in translated.transforms:
        columns = apply(transform, columns)
    return np.column_stack([columns[name] for name in translated.columns])


@pytest.mark.parametrize("name", pipelines.CASES)
@given(seed=some.integers(0, 2**32 - 1))
def test_a_step_s_transforms_give_what_scikit_learn_gives(name: str, seed: int) -> None:
    make, missing, unseen = pipelines.CASES[name]
    case = pipelines.fitted(make, seed, missing, unseen)
    got, wanted = computed(from_sklearn(case.steps, pipelines.FIELDS), case.rows), case.wanted()
    assert got.shape == wanted.shape
    if name in pipelines.ULPS:
        np.testing.assert_array_max_ulp(got, wanted, pipelines.ULPS[name])
    else:
        np.testing.assert_array_equal(got, wanted)


X = np.array([[1.0, 2.0], [3.0, 5.0], [4.0, 9.0]])
Y = [0, 1, 0]
WORDS = np.array([["a"], ["b"], ["a"]], dtype=object)
TWICE = np.array([["a"], [None], [np.nan]], dtype=object)
GAPS = np.array([["a"], ["b"], [np.nan], ["a"]], dtype=object)
ODD = np.array([["b"], ["new"], [np.nan], ["a"]], dtype=object)


@pytest.mark.parametrize("rows", [GAPS, np.concatenate([WORDS, WORDS])], ids=["missing is a category", "nothing is missing"])
@pytest.mark.parametrize(
    "step",
    [
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2),
        TargetEncoder(target_type="binary"),
    ],
    ids=["one_hot", "ordinal", "ordinal with a code for missing", "target"],
)
def test_texts_that_are_missing_and_texts_that_are_new_are_told_apart_as_scikit_learn_does(step: Any, rows: Any) -> None:
    step.fit(rows, np.arange(len(rows)) % 2)
    translated = from_sklearn(step, ["w"])
    column = np.array([value if isinstance(value, str) else None for value in ODD[:, 0]], dtype=object)
    columns: Columns = {"w": column}
    for transform in translated.transforms:
        columns = apply(transform, columns)
    got = np.column_stack([columns[name] for name in translated.columns])
    np.testing.assert_array_equal(got, step.transform(ODD).astype(np.float64))


def test_whole_numbers_that_are_categories_are_cast_to_texts() -> None:
    rows = np.array([[3.0], [10.0], [np.nan], [3.0]])
    step = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(rows)
    columns: Columns = {"n": np.array([10.0, 4.0, np.nan, 3.0])}
    translated = from_sklearn(step, ["n"])
    for transform in translated.transforms:
        columns = apply(transform, columns)
    got = np.column_stack([columns[name] for name in translated.columns])
    np.testing.assert_array_equal(got, step.transform([[10.0], [4.0], [np.nan], [3.0]]))


@pytest.mark.parametrize(
    ("steps", "fields", "said"),
    [
        (PCA(1).fit(X), ["a", "b"], "PCA cannot be converted to transforms"),
        (PowerTransformer().fit(X), ["a", "b"], "PowerTransformer cannot"),
        (
            Pipeline([("s", StandardScaler()), ("m", LogisticRegression())]).fit(X, Y),
            ["a", "b"],
            "LogisticRegression cannot",
        ),
        (StandardScaler(), ["a"], "StandardScaler: it is not fitted"),
        (StandardScaler().fit(X), ["a"], "StandardScaler has 2 input columns; 1 were given"),
        (FunctionTransformer(np.sqrt).fit(X), ["a", "b"], "FunctionTransformer: sqrt is not supported"),
        (OneHotEncoder().fit(X / 2), ["a", "b"], "OneHotEncoder: the categories of 'a' are fractional numbers"),
        (OneHotEncoder().fit(TWICE), ["w"], "OneHotEncoder: 'w' has both None and NaN"),
        (OneHotEncoder(max_categories=2).fit(WORDS), ["w"], "OneHotEncoder: infrequent categories are grouped"),
        (
            OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan).fit(WORDS),
            ["w"],
            "OrdinalEncoder: a fitted value is missing",
        ),
        (
            KBinsDiscretizer(2, encode="onehot", quantile_method="averaged_inverted_cdf").fit(X),
            ["a", "b"],
            "KBinsDiscretizer: encode is 'onehot'",
        ),
        (
            ColumnTransformer([("one", StandardScaler(), [0]), ("two", StandardScaler(), [0, 1])]).fit(X),
            ["a", "b"],
            "ColumnTransformer: column 'a' is used by 'one' and another branch",
        ),
    ],
)
def test_what_no_transform_repeats_is_refused_by_name(steps: Any, fields: list[str], said: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(said)):
        from_sklearn(steps, fields)


def test_a_class_of_one_s_own_is_not_taken_for_scikit_learn_s() -> None:
    mine = type("StandardScaler", (), {"n_features_in_": 1})()
    with pytest.raises(InvalidInputError, match="StandardScaler cannot be converted to transforms"):
        from_sklearn(mine, ["a"])


def test_columns_keep_the_pipeline_s_order_when_branches_reorder_them() -> None:
    steps = ColumnTransformer([("second", StandardScaler(), [1])], remainder="passthrough").fit(X)
    translated = from_sklearn(steps, ["a", "b"])
    assert translated.columns == ["b", "a"]
    assert [transform["of"] for transform in translated.transforms] == [["b"]]
