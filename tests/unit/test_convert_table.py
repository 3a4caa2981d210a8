"""Rows for a conversion: what each column holds, from files and from memory, and the fields that a draft makes of them."""

import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from flyball.errors import InvalidInputError
from flyball.models.convert import convert
from flyball.models.convert.comparison_rows import UNSEEN
from flyball.models.convert.parts import field_names
from flyball.models.convert.table import read_table
from tests.support import trained_models


def test_a_column_holds_what_its_values_say(tmp_path: Path) -> None:
    columns = {
        "whole": pa.array([1, None, 3]),
        "real": pa.array([0.5, 1.0, None]),
        "flag": pa.array([True, False, None]),
        "text": pa.array(["a", None, "c"]),
        "category": pa.array(["x", "y", "x"]).dictionary_encode(),
        "time": pa.array([datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)] * 3),
        "nothing": pa.nulls(3),
    }
    parquet.write_table(pa.table(columns), tmp_path / "rows.parquet")
    table = read_table(tmp_path / "rows.parquet")
    assert table.holds == {
        "whole": "int", "real": "float", "flag": "bool", "text": "string", "category": "string", "time": "string",
        "nothing": "float",
    }  # fmt: skip
    np.testing.assert_array_equal(table.columns["flag"], [1.0, 0.0, np.nan])
    assert list(table.columns["text"]) == ["a", None, "c"]
    assert table.has_gaps("whole")
    assert not table.has_gaps("category")
    table.write(tmp_path / "again.parquet")
    assert read_table(tmp_path / "again.parquet").holds == table.holds


def test_of_many_rows_some_are_taken_from_all_over() -> None:
    table = read_table({"n": np.arange(1000)}, rows_max=5)
    assert list(table.columns["n"]) == [0.0, 249.0, 499.0, 749.0, 999.0]


def test_rows_in_memory_are_taken_from_frames_arrays_and_dicts() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": pd.Categorical(["x", None])})
    assert read_table(frame).holds == {"a": "int", "b": "string"}
    assert read_table(np.zeros((2, 3))).holds == {"f0": "float", "f1": "float", "f2": "float"}
    with pytest.raises(InvalidInputError, match=r"cannot read rows from a list"):
        read_table([1, 2])
    with pytest.raises(InvalidInputError, match=r"the data has no rows"):
        read_table({"a": []})


def test_fields_have_names_that_rules_can_write() -> None:
    assert field_names(["card age", "card_age", "2nd", "größe", "amount"]) == {
        "card_age": "card age", "card_age_2": "card_age", "_2nd": "2nd", "gr__e": "größe", "amount": "amount",
    }  # fmt: skip


def test_rows_with_infinity_are_left_out_and_told(tmp_path: Path) -> None:
    frame = trained_models.payments(200)[["amount", "mcc"]]
    model = Ridge().fit(frame, frame["mcc"])
    frame.loc[3, "amount"] = np.inf
    made = convert(model, data=frame, out=tmp_path / "out", rows=300)
    assert made.document["notes"] == ["skipped 1 rows with an infinite number, which no request can contain"]


@pytest.mark.filterwarnings("ignore")  # a gap in the rows of training is told
def test_categories_that_the_data_does_not_have_are_tried_too(tmp_path: Path) -> None:
    frame = trained_models.payments(400)
    coded = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["country", "channel", "mcc"]), sparse_threshold=0
    )
    model = make_pipeline(coded, Ridge()).fit(frame.drop(columns="fraud"), frame["fraud"])
    data = frame[(frame["country"] != "IT") & (frame["mcc"] != 5412)]
    made = convert(model, data=data, out=tmp_path / "out", target="fraud", rows=300)
    asked = pd.read_parquet(made.folder / "expected.parquet")
    assert "IT" in set(asked["country"])
    assert 5412 in set(asked["mcc"])
    # A missing channel is a category, too, which a text of the decision's own stands for: no caller sends that.
    assert set(asked["channel"].dropna()) == {"chip", "web", "phone", UNSEEN}


def test_a_category_called_other_is_not_taken_for_those_that_are_unseen(tmp_path: Path) -> None:
    booster, frame = trained_models.lightgbm_booster(3), trained_models.payments()
    made = convert(booster, data=frame, out=tmp_path / "out", target="fraud", name="fraud", rows=300)
    fields = made.decision().spec.input
    assert fields["country"].values == ["DE", "FR", "IT", "other"]
    assert fields["country"].unknown == "unknown"
    assert not fields["channel"].required
    assert fields["card_age"].type == "int"
