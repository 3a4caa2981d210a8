"""Fitted scikit-learn steps over random rows, for tests that compare transforms with scikit-learn's own.

Rows come from a seed: numbers of all sizes, texts of many scripts, missing values where a step takes them. It knows
nothing of flyball.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)

NUMBERS = ["a", "b", "c"]
TEXTS = ["t", "u"]
FIELDS = [*NUMBERS, *TEXTS]
WORDS = ["EUR", "USD", "", " ", "ß", "straße", "日本", "é", "e\u0301", "🙂", "a|b", "x=y", "NaN", "null", "0"]
UNSEEN = ["never", "EUR ", "eur", "日", "🙂🙂"]


@dataclass(frozen=True)
class Case:
    """Steps that were fitted, and rows that they were not fitted on."""

    steps: Any
    rows: NDArray[Any]

    def wanted(self) -> NDArray[np.float64]:
        made = self.steps.transform(self.rows)
        return np.asarray(made.toarray() if hasattr(made, "toarray") else made, dtype=np.float64)


def rows(random: np.random.Generator, count: int, words: list[str], missing: float = 0.0) -> NDArray[Any]:
    """Columns a, b, c of numbers and t, u of texts, as objects."""
    made = np.empty((count, len(FIELDS)), dtype=object)
    for place in range(len(NUMBERS)):
        sizes = 10.0 ** random.uniform(-12, 12, count)
        values = np.where(random.random(count) < 0.2, random.integers(-3, 4, count), random.normal(size=count) * sizes)
        made[:, place] = np.where(random.random(count) < missing, np.nan, values)
    for place in range(len(NUMBERS), len(FIELDS)):
        made[:, place] = random.choice(np.array(words, dtype=object), count)
    return made


def fitted(make: Callable[[], Any], seed: int, missing: float = 0.0, unseen: bool = True) -> Case:
    random = np.random.default_rng(seed)
    target = random.integers(0, 2, 400).astype(np.float64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Bins whose width are too small")  # equal numbers fall on one edge: as it should
        steps = make().fit(rows(random, 400, WORDS, missing), target)
    return Case(steps, rows(random, 200, [*WORDS, *(UNSEEN if unseen else [])], missing))


def numeric(step: Any) -> Any:
    return ColumnTransformer([("n", step, [0, 1, 2])])


def textual(step: Any) -> Any:
    return ColumnTransformer([("t", step, [3, 4])], sparse_threshold=0)


def positive(step: Any) -> Any:
    """Numbers that log1p takes: moved into 0 to 10 first."""
    return numeric(Pipeline([("scale", MinMaxScaler((0, 10), clip=True)), ("log", step)]))


def whole() -> Any:
    """What a real pipeline has: every kind of branch, one inside the other, and what is left over."""
    numbers = Pipeline([("impute", SimpleImputer(strategy="median", add_indicator=True)), ("scale", StandardScaler())])
    branches = ColumnTransformer(
        [
            ("numbers", numbers, [0, 1]),
            ("words", OneHotEncoder(handle_unknown="ignore"), [3]),
            ("rank", TargetEncoder(target_type="binary"), [4]),
        ],
        remainder="passthrough",
        sparse_threshold=0,
    )
    return Pipeline([("columns", branches), ("impute", SimpleImputer()), ("last", MinMaxScaler((-1, 1)))])


# Of each: how it is made, the share of missing numbers, and whether unseen words are among the rows.
CASES: dict[str, tuple[Callable[[], Any], float, bool]] = {
    "StandardScaler": (lambda: numeric(StandardScaler()), 0.1, True),
    "StandardScaler without mean": (lambda: numeric(StandardScaler(with_mean=False)), 0.1, True),
    "StandardScaler without std": (lambda: numeric(StandardScaler(with_std=False)), 0.1, True),
    "MinMaxScaler": (lambda: numeric(MinMaxScaler((-2, 5))), 0.1, True),
    "MinMaxScaler with clip": (lambda: numeric(MinMaxScaler(clip=True)), 0.1, True),
    "RobustScaler": (lambda: numeric(RobustScaler()), 0.1, True),
    "RobustScaler without centre": (lambda: numeric(RobustScaler(with_centering=False)), 0.1, True),
    "MaxAbsScaler": (lambda: numeric(MaxAbsScaler()), 0.1, True),
    "SimpleImputer mean": (lambda: numeric(SimpleImputer()), 0.3, True),
    "SimpleImputer with indicators": (lambda: numeric(SimpleImputer(add_indicator=True)), 0.3, True),
    "SimpleImputer constant": (lambda: numeric(SimpleImputer(strategy="constant", fill_value=-1.5)), 0.3, True),
    "OneHotEncoder": (lambda: textual(OneHotEncoder(handle_unknown="ignore")), 0.0, True),
    "OneHotEncoder without the first": (lambda: textual(OneHotEncoder(drop="first")), 0.0, False),
    "OrdinalEncoder": (
        lambda: textual(OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-7)),
        0.0,
        True,
    ),
    "KBinsDiscretizer": (
        lambda: numeric(KBinsDiscretizer(8, encode="ordinal", quantile_method="averaged_inverted_cdf")),
        0.0,
        True,
    ),
    "TargetEncoder": (lambda: textual(TargetEncoder(target_type="binary")), 0.0, True),
    "FunctionTransformer log1p": (lambda: positive(FunctionTransformer(np.log1p)), 0.1, True),
    "a whole pipeline": (whole, 0.2, True),
}
# Everything is equal to the last bit but the logarithm, which two mathematical libraries compute.
ULPS = {"FunctionTransformer log1p": 1}
