"""One command from a trained model's file to a server that answers as the model does."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support import serving, trained_models
from tests.support.wire import Http

COUNT = 200


def lightgbm(folder: Path) -> tuple[Path, Any]:
    booster = trained_models.lightgbm_booster(20)
    booster.save_model(folder / "fraud.txt")
    return folder / "fraud.txt", lambda rows: booster.predict(trained_models.inputs(rows))


def xgboost(folder: Path) -> tuple[Path, Any]:
    import xgboost

    booster = trained_models.xgboost_booster(20)
    booster.save_model(folder / "fraud.ubj")
    held = lambda rows: xgboost.DMatrix(trained_models.inputs(rows), enable_categorical=True)  # noqa: E731
    return folder / "fraud.ubj", lambda rows: booster.predict(held(rows))


def pipeline(folder: Path) -> tuple[Path, Any]:
    import joblib
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    texts = OneHotEncoder(handle_unknown="ignore")
    branches = [("numbers", numbers, trained_models.NUMBERS), ("texts", texts, trained_models.TEXTS)]
    steps = ColumnTransformer(branches, remainder="passthrough")
    frame = trained_models.payments()
    model = make_pipeline(steps, LogisticRegression(max_iter=500)).fit(frame.drop(columns="fraud"), frame["fraud"])
    joblib.dump(model, folder / "fraud.joblib")
    return folder / "fraud.joblib", lambda rows: model.predict_proba(rows.drop(columns="fraud"))[:, 1]


def request(cells: Any) -> dict[str, Any]:
    named = {name.replace(" ", "_"): value for name, value in cells.items() if name != "fraud" and not pd.isna(value)}
    return {name: value.item() if hasattr(value, "item") else value for name, value in named.items()}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("make", [lightgbm, xgboost, pipeline])
def test_a_saved_model_is_served_with_equal_answers(make: Any, tmp_path: Path) -> None:
    path, predict = make(tmp_path)
    data = trained_models.saved(trained_models.payments(), tmp_path / "payments.csv")
    words = ["convert", str(path), "--data", str(data), "--target", "fraud", "--out", str(tmp_path / "out")]
    command = [*serving.flyball(), *words, "--rows-max", "500", "--trust-pickle"]
    if make is lightgbm:
        # In one command; the others in two, which start within any server's time.
        command += ["--serve", "--listen", "127.0.0.1:0"]
    else:
        ending = serving.run(command, timeout_s=60.0)
        assert ending.code == 0, ending.text
        decision = str(tmp_path / "out" / "decision.yaml")
        command = [*serving.flyball(), "serve", "--decision", decision, "--listen", "127.0.0.1:0"]
    fresh = trained_models.payments(COUNT, seed=3)
    fresh.loc[::7, "distance"] = np.nan
    rows = [{"id": str(at), "input": request(cells)} for at, (_, cells) in enumerate(fresh.astype(object).iterrows())]
    with serving.serving(command) as server, Http(server) as connection:
        reply = connection.post("/v1/decisions/fraud", {"rows": rows})
        assert reply.status == 200, reply.body
    found = [row["score"] for row in reply.json["rows"]]
    np.testing.assert_allclose(found, predict(fresh), rtol=0, atol=1e-5)
