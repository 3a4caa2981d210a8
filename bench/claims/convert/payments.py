"""Payments with categories and gaps, and three models trained on them and saved to files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEED, TREES = 10, 200
TEXTS = ["country", "channel"]
NUMBERS = ["amount", "age_days", "distance_km"]
UNSEEN = "never seen"
_COUNTRIES = ["DE", "FR", "IT", "NL", "PL"]


@dataclass(frozen=True, slots=True)
class Saved:
    """A model in its file, what it answers itself, the columns that its last step gets, and what its package explains."""

    name: str
    path: Path
    predict: Callable[[Any], Any]
    columns: Callable[[Any], Any]
    explained: Callable[[Any], Any] | None = None
    """None: its contributions add up to its answer, and nothing else explains it."""


def payments(count: int, seed: int) -> Any:
    """Rows and, in `fraud`, what was to be predicted."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "amount": random.lognormal(3.2, 1.1, count),
            "age_days": random.integers(0, 4000, count),
            "distance_km": np.where(random.random(count) < 0.2, np.nan, random.exponential(60, count)),
            "country": pd.Series(random.choice(_COUNTRIES, count), dtype=object),
            "channel": pd.Series(random.choice(["chip", "web", "phone"], count), dtype=object),
        }
    )
    frame.loc[random.random(count) < 0.1, "channel"] = np.nan
    pull = np.log(frame["amount"]) - 3 + (frame["country"] == "IT") + np.nan_to_num(frame["distance_km"], nan=90.0) / 80
    frame["fraud"] = (pull + (frame["channel"] == "phone") + random.normal(size=count) > 1.8).astype(int)
    return frame


def odd(count: int) -> Any:
    """Rows of another seed, with more gaps and with texts that nobody has seen."""
    frame = payments(count, SEED + 1).drop(columns="fraud")
    frame.loc[::5, "distance_km"] = np.nan
    frame.loc[::7, "country"] = UNSEEN
    return frame


def rows_file(folder: Path, count: int) -> Path:
    """The rows of training, as a conversion gets them."""
    path = folder / "payments.csv"
    payments(count, SEED).to_csv(path, index=False)
    return path


def requests(frame: Any) -> list[dict[str, Any]]:
    """Rows as callers send them: what is missing is left out."""
    rows = frame.astype(object).to_dict("records")
    return [{name: value for name, value in row.items() if not pd.isna(value)} for row in rows]


def pipeline(folder: Path) -> Saved:
    """scikit-learn's: texts one-hot and as places, gaps filled, a forest."""
    import joblib
    from sklearn.compose import ColumnTransformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    places = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2)
    one_hot = OneHotEncoder(handle_unknown="ignore")
    branches = [("numbers", numbers, NUMBERS), ("country", one_hot, ["country"]), ("channel", places, ["channel"])]
    model = make_pipeline(
        ColumnTransformer(branches, sparse_threshold=0), RandomForestClassifier(100, max_depth=10, random_state=1)
    )
    frame = payments(10_000, SEED)
    model.fit(frame.drop(columns="fraud"), frame["fraud"])
    joblib.dump(model, folder / "pipeline.joblib")
    return Saved(
        "scikit-learn",
        folder / "pipeline.joblib",
        lambda rows: model.predict_proba(rows)[:, 1],
        model[:-1].transform,
    )


def lightgbm(folder: Path) -> Saved:
    """LightGBM's own text."""
    import lightgbm as package

    frame = payments(10_000, SEED)
    inputs = _categories(frame.drop(columns="fraud"))
    settings = {"objective": "binary", "verbose": -1, "num_threads": 1, "seed": SEED, "deterministic": True}
    booster = package.train(settings, package.Dataset(inputs, frame["fraud"]), TREES)
    booster.save_model(folder / "lightgbm.txt")
    return Saved(
        "LightGBM",
        folder / "lightgbm.txt",
        lambda rows: booster.predict(_categories(rows)),
        _codes,
        lambda rows: booster.predict(_categories(rows), pred_contrib=True),
    )


def xgboost(folder: Path) -> Saved:
    """XGBoost's binary JSON; what it has not seen is asked by a code that no split has, because it refuses the text."""
    import xgboost as package

    frame = payments(10_000, SEED)
    inputs = _categories(frame.drop(columns="fraud"))
    settings = {"objective": "binary:logistic", "nthread": 1, "seed": SEED}
    booster = package.train(settings, package.DMatrix(inputs, frame["fraud"], enable_categorical=True), TREES)
    booster.save_model(folder / "xgboost.ubj")

    def held(rows: Any) -> Any:
        named = {"feature_names": booster.feature_names, "feature_types": booster.feature_types}
        return package.DMatrix(_codes(rows, unseen=True), enable_categorical=True, **named)

    return Saved(
        "XGBoost",
        folder / "xgboost.ubj",
        lambda rows: booster.predict(held(rows)),
        lambda rows: _codes(rows, unseen=True),
        lambda rows: booster.predict(held(rows), pred_contribs=True),
    )


def _categories(rows: Any) -> Any:
    return rows.assign(**{name: rows[name].astype("category") for name in TEXTS})


def _codes(rows: Any, *, unseen: bool = False) -> Any:
    """Texts by their place among those of training, which are sorted; those that it has not seen after the last one."""
    known = payments(10_000, SEED)
    coded = rows.copy()
    for name in TEXTS:
        values = sorted(known[name].dropna().unique())
        codes = rows[name].map({value: place for place, value in enumerate(values)}).astype(float)
        coded[name] = np.where(rows[name].notna() & codes.isna(), len(values), codes) if unseen else codes
    return coded.to_numpy(dtype=np.float32)
