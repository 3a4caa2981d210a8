"""What a model is trained on is what serving computes: data that says something else is refused."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.linear_model import LogisticRegression

import flyball

SPEC = """
decision: card
owner: risk@example.com
purpose: tests
input:
  amount: {type: float, missing: 0}
  limit: {type: int}
  country: {type: category, values: [DE, FR], unknown: other}
  at: {type: time}
features:
  used: {compute: amount / double(limit), type: float}
  doubled: {compute: used * 2.0, type: float}
  abroad: {compute: "country != 'DE'", type: bool}
  place: {compute: "country", type: category, values: [DE, FR], unknown: other}
  hour: {compute: "at", type: time}
transforms:
  - standardize: used
  - one_hot: place
  - date_parts: {of: hour, parts: [hour]}
  - cast: {of: abroad, to: float}
fitted: card.fitted.json
model: {path: card.onnx, columns: [used, "place=DE", "place=FR", "hour.hour", abroad], score: "y[0]"}
policy:
  bands: {pass: "< 0.5", reject: ">= 0.5"}
"""
ROWS = {
    "amount": [10.0, 50.0, 90.0, None],
    "limit": [100, 100, 100, 100],
    "country": ["DE", "FR", "AT", "DE"],
    "at": ["2026-01-01T05:00:00Z"] * 4,
    "fraud": [0, 0, 1, 0],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("card.yaml").write_text(SPEC)
    return tmp_path


def rows(**columns: list[object]) -> str:
    parquet.write_table(pa.table({**ROWS, **columns}), "rows.parquet")
    return "rows.parquet"


def test_computed_features_are_computed_as_in_serving(run, folder):
    assert run("fit", "card.yaml", "--data", rows())[0] == 0
    names, found, fraud = flyball.training_rows("card.yaml", "rows.parquet", target="fraud")
    assert names == ["used", "place=DE", "place=FR", "hour.hour", "abroad"]
    used = np.array([0.1, 0.5, 0.9, 0.0])
    assert np.allclose(found[:, 0], (used - used.mean()) / used.std(), rtol=1e-6)
    assert found[:, 1:].tolist() == [[1, 0, 5, 0], [0, 1, 5, 1], [0, 0, 5, 1], [1, 0, 5, 0]]
    assert LogisticRegression().fit(found, fraud).predict(found).shape == (4,)


def test_a_column_that_says_the_same_is_taken_in_float32_too(run, folder):
    assert run("fit", "card.yaml", "--data", rows(used=pa.array([0.1, 0.5, 0.9, 0.0], pa.float32())))[0] == 0


@pytest.mark.parametrize(
    ("column", "words"),
    [({"used": [0.1, 0.5, 1.9, 0.1]}, ["'used'", "row 3", "1.9", "0.9", "2 of 4 rows"]),
     ({"used": [0.1, None, 0.9, 0.0]}, ["'used'", "row 2 it is missing", "0.5", "1 of 4 rows"]),
     ({"place": ["DE", "DE", "AT", "DE"]}, ["'place'", "row 2", "DE", "FR", "1 of 4 rows"]),
     ({"abroad": [True, True, True, False]}, ["'abroad'", "row 1", "1.0", "0.0"]),
     ({"hour": ["2026-01-01T06:00:00Z"] * 4}, ["'hour'", "row 1", "06:00", "05:00", "4 of 4 rows"])],
    ids=["number", "missing", "category", "bool", "time"],
)  # fmt: skip
def test_a_column_that_differs_is_refused_with_its_row_and_both_values(run, folder, column, words):
    assert run("fit", "card.yaml", "--data", rows())[0] == 0
    with pytest.raises(flyball.InvalidInputError) as refused:
        flyball.training_rows("card.yaml", rows(**column), target="fraud")
    assert [word for word in words if word not in str(refused.value)] == []
    assert "remove the column" in str(refused.value)


def test_fit_refuses_the_same(run, folder):
    code, _, errors = run("fit", "card.yaml", "--data", rows(used=[0.1, 0.5, 1.9, 0.0]))
    assert code == 3
    assert "column 'used' differs from the decision's: in row 3 it is 1.9" in errors
    assert not Path("card.fitted.json").exists()


def test_a_feature_that_another_is_computed_from_is_computed_and_compared_too(run, folder):
    Path("card.yaml").write_text(SPEC.replace("standardize: used", "standardize: doubled").replace("[used,", "[doubled,"))
    assert run("fit", "card.yaml", "--data", rows())[0] == 0
    code, _, errors = run("fit", "card.yaml", "--data", rows(used=[9.0] * 4))
    assert (code, "'used'" in errors) == (3, True)


def test_what_a_feature_is_computed_from_must_be_in_the_data(run, folder):
    parquet.write_table(pa.table({name: column for name, column in ROWS.items() if name != "limit"}), "rows.parquet")
    code, _, errors = run("fit", "card.yaml", "--data", "rows.parquet")
    assert (code, "no column 'limit'" in errors) == (3, True)


@pytest.mark.parametrize(
    ("columns", "words"),
    [({"limit": [100, -5, 100, -7]}, ["2 of 4 rows", "the first is row 2", "limit: is -5, allowed: a whole"]),
     ({"limit": [100, 100, None, 100]}, ["1 of 4 rows", "the first is row 3", "limit", "it is required"]),
     ({"limit": [100, 100, 1.5, 100]}, ["1 of 4 rows", "the first is row 3", "limit: is 1.5"]),
     ({"amount": [float("inf"), 50.0, 90.0, None]}, ["1 of 4 rows", "the first is row 1", "amount: is 'inf'"]),
     ({"country": ["DE", "DE", "DE", None]}, ["1 of 4 rows", "the first is row 4", "country", "it is required"])],
    ids=["bound", "required", "whole", "infinite", "category"],
)  # fmt: skip
def test_rows_that_serving_rejects_are_refused_with_the_first_of_them(run, folder, columns, words):
    Path("card.yaml").write_text(SPEC.replace("limit: {type: int}", "limit: {type: int, min: 0}"))
    code, _, errors = run("fit", "card.yaml", "--data", rows(**columns))
    assert [word for word in (*words, "remove or correct these rows") if word not in errors] == []
    assert (code, Path("card.fitted.json").exists()) == (3, False)
    assert run("fit", "card.yaml", "--data", rows())[0] == 0
    with pytest.raises(flyball.InvalidInputError, match="serving rejects") as refused:
        flyball.training_rows("card.yaml", rows(**columns), target="fraud")
    assert [word for word in words if word not in str(refused.value)] == []


def test_a_value_that_is_personal_data_is_not_shown(run, folder):
    Path("card.yaml").write_text(SPEC.replace("limit: {type: int}", "limit: {type: int, min: 0, pii: true}"))
    code, _, errors = run("fit", "card.yaml", "--data", rows(limit=[100, -12345, 100, 100]))
    assert (code, "row 2" in errors, "12345" in errors) == (3, True, False)


def test_many_rejected_rows_are_counted_up_to_a_number(run, folder, monkeypatch):
    Path("card.yaml").write_text(SPEC.replace("limit: {type: int}", "limit: {type: int, min: 0}"))
    monkeypatch.setattr("flyball.decision.training.training_rows._COUNTED_MAX", 2)
    assert "serving rejects 2 or more of 4 rows" in run("fit", "card.yaml", "--data", rows(limit=[-1] * 4))[2]


@pytest.mark.parametrize(
    ("model", "words"),
    [("", "the decision has no model, so it has no training columns"),
     ('model: {path: card.onnx, score: "y[0]"}\n', "the model has no columns")],
)  # fmt: skip
def test_a_decision_without_columns_has_nothing_to_train_on(folder, model, words):
    Path("card.yaml").write_text(SPEC[: SPEC.index("transforms:")] + model + SPEC[SPEC.index("policy:") :])
    with pytest.raises(flyball.InvalidInputError, match=words):
        flyball.training_rows("card.yaml", rows(), target="fraud")
