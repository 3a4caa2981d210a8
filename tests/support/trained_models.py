"""Small trained models over one table of payments, with categories, gaps and bools, for the tests of conversion.

It knows nothing of flyball.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

SEED = 20261116
NUMBERS = ["amount", "card age", "distance"]
TEXTS = ["country", "channel"]


def payments(count: int = 1200, seed: int = SEED) -> pd.DataFrame:
    """Rows and, in `fraud`, what was to be predicted. Distance and channel have gaps."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "amount": random.lognormal(3.2, 1.1, count),
            "card age": random.integers(0, 4000, count),
            "distance": np.where(random.random(count) < 0.2, np.nan, random.exponential(60, count)),
            "online": random.random(count) < 0.4,
            "country": pd.Series(random.choice(["DE", "FR", "IT", "other"], count), dtype=object),
            "channel": pd.Series(random.choice(["chip", "web", "phone"], count), dtype=object),
            "mcc": random.integers(5410, 5418, count),
        }
    )
    frame.loc[random.random(count) < 0.1, "channel"] = np.nan
    pull = (
        np.log(frame["amount"]) - 3.2 + (frame["country"] == "IT") - (frame["mcc"] == 5412) + frame["online"] * 0.5
        + np.nan_to_num(frame["distance"], nan=90.0) / 80 - 1 + (frame["channel"] == "phone")
    )  # fmt: skip
    frame["fraud"] = (pull + random.normal(size=count) > 0.8).astype(int)
    return frame


def saved(frame: pd.DataFrame, path: Path) -> Path:
    frame.to_csv(path, index=False)
    return path


def inputs(frame: pd.DataFrame, categories: tuple[str, ...] = ("country", "channel", "mcc")) -> pd.DataFrame:
    """What a booster is trained on: without the target, and with categories of pandas."""
    rows = frame.drop(columns="fraud")
    return rows.assign(**{name: rows[name].astype("category") for name in categories})


def odd(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with more gaps, and with texts and numbers of categories that training has not seen."""
    rows = frame.copy()
    rows.loc[rows.index[::7], "distance"] = np.nan
    rows.loc[rows.index[::11], "channel"] = np.nan
    rows.loc[rows.index[::5], "country"] = "nowhere"
    return rows


def lightgbm_booster(trees: int = 30, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import lightgbm

        frame = payments()
        fixed = {"objective": "binary", "verbose": -1, "num_threads": 1, "seed": 7, "deterministic": True}
        categories = settings.pop("categories", ("country", "channel", "mcc"))
        target = settings.pop("target", frame["fraud"])
        rows = inputs(frame, categories)
        rows = rows if categories else rows.drop(columns=TEXTS)
        return lightgbm.train({**fixed, **settings}, lightgbm.Dataset(rows, target), trees)


def xgboost_booster(trees: int = 30, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import xgboost

        frame = payments()
        categories = settings.pop("categories", ("country", "channel", "mcc"))
        target = settings.pop("target", frame["fraud"])
        rows = inputs(frame, categories)
        rows = rows if categories else rows.drop(columns=TEXTS)
        fixed = {"objective": "binary:logistic", "nthread": 1, "seed": 7, "max_depth": 4, "max_cat_to_onehot": 2}
        return xgboost.train({**fixed, **settings}, xgboost.DMatrix(rows, target, enable_categorical=True), trees)


def requests(frame: pd.DataFrame, converted: Any) -> list[dict[str, Any]]:
    """Rows as callers of the converted model send them."""
    fields = converted.document["fields"]
    rows = []
    for _, cells in frame.astype(object).iterrows():
        row = {name: cells[column] for name, column in fields.items() if not pd.isna(cells[column])}
        rows.append({name: value.item() if hasattr(value, "item") else value for name, value in row.items()})
    return rows


def scores(converted: Any, frame: pd.DataFrame) -> np.ndarray[Any, Any]:
    """What the converted decision says of rows, in this process."""
    with converted.decision() as decision:
        decided = [
            row
            for begin in range(0, len(frame), 500)
            for row in decision.decide_rows(requests(frame[begin : begin + 500], converted))
        ]
    assert all(row.decided is not None for row in decided), next(row.fault for row in decided if row.decided is None)
    return np.array([row.decided.score for row in decided if row.decided is not None])
