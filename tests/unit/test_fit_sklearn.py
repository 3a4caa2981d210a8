"""Transforms from scikit-learn's steps: the same columns to the last bit, and a refusal by name for all other steps."""

import re
from typing import Any

import numpy as np
import pipelines
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
    RobustScaler,
    StandardScaler,
)

from flyball.errors import InvalidInputError
from flyball.fit import Columns, Translated, apply, from_sklearn


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


@pytest.mark.parametrize(
    ("steps", "fields", "said"),
    [
        (PCA(1).fit(X), ["a", "b"], "PCA cannot be turned into transforms"),
        (RobustScaler().fit(X), ["a", "b"], "RobustScaler cannot"),
        (
            Pipeline([("s", StandardScaler()), ("m", LogisticRegression())]).fit(X, Y),
            ["a", "b"],
            "LogisticRegression cannot",
        ),
        (StandardScaler(), ["a"], "StandardScaler: it is not fitted"),
        (StandardScaler().fit(X), ["a"], "StandardScaler takes 2 columns; 1 were named"),
        (FunctionTransformer(np.sqrt).fit(X), ["a", "b"], "FunctionTransformer: sqrt is not known"),
        (OneHotEncoder().fit(X), ["a", "b"], "OneHotEncoder: the categories of 'a' are not all texts"),
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
            "ColumnTransformer: column 'a' goes into 'one' and another branch",
        ),
    ],
)
def test_what_no_transform_repeats_is_refused_by_name(steps: Any, fields: list[str], said: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(said)):
        from_sklearn(steps, fields)


def test_a_class_of_one_s_own_is_not_taken_for_scikit_learn_s() -> None:
    mine = type("StandardScaler", (), {"n_features_in_": 1})()
    with pytest.raises(InvalidInputError, match="StandardScaler cannot be turned into transforms"):
        from_sklearn(mine, ["a"])


def test_columns_keep_the_pipeline_s_order_when_branches_reorder_them() -> None:
    steps = ColumnTransformer([("second", StandardScaler(), [1])], remainder="passthrough").fit(X)
    translated = from_sklearn(steps, ["a", "b"])
    assert translated.columns == ["b", "a"]
    assert [transform["of"] for transform in translated.transforms] == [["b"]]
