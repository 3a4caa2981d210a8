"""What fitting finds in rows, step by step, and the file that it writes."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from flyball.decision.fit.columns import Columns
from flyball.decision.fit.fitted import Fitted, read_fitted
from flyball.decision.fit.learn import complete, fit_transforms
from flyball.errors import InvalidInputError
from flyball.rows.columns import read_columns

NAN = float("nan")


def texts(*values: str | None) -> np.ndarray[Any, np.dtype[Any]]:
    return np.array(values, dtype=object)


def columns() -> Columns:
    return {
        "amount": np.array([1.0, NAN, 3.0, 8.0]),
        "flat": np.array([2.0, 2.0, 2.0, 2.0]),
        "country": texts("DE", "FR", None, "DE"),
    }


def found(step: dict[str, Any], **more: Any) -> dict[str, Any]:
    (one,) = fit_transforms([step], columns(), **more).transforms
    return {key: value for key, value in one.items() if key not in ("at", "op", "of")}


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        ({"op": "impute", "of": ["amount"], "by": "mean"}, {"values": [4.0]}),
        ({"op": "impute", "of": ["amount"]}, {"values": [3.0]}),
        ({"op": "impute", "of": ["amount", "country"], "by": "most_frequent"}, {"values": [1.0, "DE"]}),
        ({"op": "scale", "of": ["amount"]}, {"factor": [1 / 7], "offset": [-1 / 7]}),
        ({"op": "scale", "of": ["flat"], "range": [0, 2]}, {"factor": [2.0], "offset": [-4.0]}),
        (
            {"op": "standardize", "of": ["amount", "flat"]},
            {"mean": [4.0, 2.0], "scale": [float(np.std([1.0, 3.0, 8.0])), 1.0]},
        ),
        ({"op": "bucket", "of": ["amount"], "quantiles": 2}, {"edges": [3.0]}),
        ({"op": "bucket", "of": ["flat"], "quantiles": 5}, {"edges": [2.0]}),
        ({"op": "one_hot", "of": ["country"]}, {"values": [["DE", "FR"]]}),
        ({"op": "ordinal", "of": ["country"]}, {"values": [["DE", "FR"]], "unknown": -1.0}),
        (
            {"op": "encode", "of": ["country"], "by": "frequency"},
            {"maps": [{"DE": 0.5, "FR": 0.25}], "default": [0.0]},
        ),
    ],
)
def test_each_op_s_parameters_are_found_where_values_are_there(step: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found(step) == wanted


def test_target_encoding_draws_rare_categories_towards_the_mean_of_all() -> None:
    target = np.array([1.0, 0.0, 0.0, 1.0])
    step = {"op": "encode", "of": ["country"], "by": "target", "smoothing": 2}
    assert found(step, target=target) == {"maps": [{"DE": 3 / 4, "FR": 1 / 3}], "default": [0.5]}


def test_a_step_is_fitted_on_what_the_steps_before_it_leave() -> None:
    steps = [{"op": "impute", "of": ["amount"], "values": [0.0]}, {"op": "standardize", "of": ["amount"]}]
    (one,) = fit_transforms(steps, columns()).transforms
    assert (one["at"], one["mean"]) == (1, [3.0])


def test_what_has_its_parameters_is_left_alone_and_how_is_not_kept() -> None:
    steps = [
        {"op": "clip", "of": ["amount"], "min": 0.0},
        {"op": "impute", "of": ["amount"], "by": "median"},
        {"op": "ordinal", "of": ["country"], "values": [["FR"]], "unknown": 9.0},
    ]
    fitted = fit_transforms(steps, columns())
    assert [one["at"] for one in fitted.transforms] == [1]
    assert complete(steps, fitted) == [steps[0], {"op": "impute", "of": ["amount"], "values": [3.0]}, steps[2]]


def test_parameters_of_another_step_are_not_taken() -> None:
    fitted = fit_transforms([{"op": "standardize", "of": ["amount"]}], columns())
    with pytest.raises(InvalidInputError, match=r"transforms\[0\]: standardize of flat was not fitted"):
        complete([{"op": "standardize", "of": ["flat"]}], fitted)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"op": "standardize", "of": ["country"]}, "has text"),
        ({"op": "one_hot", "of": ["amount"]}, "has no text"),
        ({"op": "standardize", "of": ["amout"]}, "no column 'amout'"),
        ({"op": "encode", "of": ["country"], "by": "target"}, "needs the target column"),
        ({"op": "bucket", "of": ["amount", "flat"], "quantiles": 3}, "its own bucket step"),
        ({"op": "bucket", "of": ["amount"], "quantiles": 1}, "allowed: 2 to 1000"),
        ({"op": "fold", "of": ["amount"]}, "unknown transform 'fold'"),
    ],
)
def test_what_cannot_be_fitted_is_refused_with_its_place(step: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said) as refused:
        fit_transforms([step], columns())
    assert refused.value.message.startswith("transforms[0]: ")


def test_the_file_is_the_same_for_the_same_rows_and_reads_back(tmp_path: Path) -> None:
    steps = [{"op": "standardize", "of": ["amount"]}, {"op": "one_hot", "of": ["country"]}]
    fitted = fit_transforms(steps, columns())
    fitted.write(tmp_path / "card.fitted.json")
    assert read_fitted(tmp_path / "card.fitted.json") == fitted
    assert fit_transforms(steps, columns()).content() == fitted.content()
    assert [path.name for path in tmp_path.iterdir()] == ["card.fitted.json"]


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b'{"format": 2, "rows": 1, "transforms": []}', b'{"format": 1, "rows": 1, "transforms": [{"op": "log"}]}'],
)
def test_a_file_of_another_form_is_refused_with_the_command_that_writes_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "card.fitted.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError) as refused:
        read_fitted(path)
    assert "flyball fit" in str(refused.value)


def test_rows_come_from_parquet_and_from_csv_alike(tmp_path: Path) -> None:
    table = pa.table({
        "amount": pa.array([1.5, None]),
        "known": pa.array([True, None]),
        "word": pa.array(["é", None]),
        "when": pa.array(["2026-11-15T07:30:00Z", None]),
        "label": pa.array([1, 0]),
    })  # fmt: skip
    parquet.write_table(table, tmp_path / "rows.parquet")
    csv.write_csv(table, tmp_path / "rows.csv")
    kinds = {"amount": "float", "known": "bool", "word": "category", "when": "time"}
    for name in ("rows.parquet", "rows.csv"):
        read, target = read_columns(tmp_path / name, kinds, target="label")
        assert np.array_equal(read["amount"], [1.5, NAN], equal_nan=True)
        assert np.array_equal(read["known"], [1.0, NAN], equal_nan=True)
        assert list(read["word"]) == ["é", None]
        assert str(read["when"][0]) == "2026-11-15T07:30:00.000000000"
        assert np.isnat(read["when"][1])
        assert target is not None
        assert list(target) == [1.0, 0.0]


def test_a_column_that_the_rows_lack_is_named(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "rows.parquet")
    with pytest.raises(InvalidInputError, match="has no column 'spent_1h'"):
        read_columns(tmp_path / "rows.parquet", {"a": "int", "spent_1h": "float"})


@pytest.mark.parametrize("name", ["nope.parquet", "nope.csv", "nope.jsonl"])
def test_a_file_that_is_not_there_is_told_by_its_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{name}"):
        read_columns(tmp_path / name, {"a": "float"})


def test_nothing_is_fitted_on_no_rows() -> None:
    with pytest.raises(InvalidInputError, match="no rows"):
        fit_transforms([], {"a": np.array([])})
    assert Fitted(1).content() == b'{"format": 1, "rows": 1, "transforms": [\n\n]}\n'
