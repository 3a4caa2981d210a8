"""`flyball fit`: rows are read as the schema reads requests, and the decision's own file is written."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

SPEC = """
decision: card
owner: risk@example.com
purpose: tests
input:
  amount: {type: float, missing: 0}
  country: {type: category, values: [DE, FR, other], unknown: other}
transforms:
  - standardize: amount
  - encode: {of: country, by: target, smoothing: 0}
model: {path: card.onnx, score: "y[0]"}
policy:
  bands: {pass: "< 0.5", reject: ">= 0.5"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "card.yaml").write_text(SPEC)
    rows = {"amount": [4.0, None], "country": ["AT", "DE"], "label": [1, 0]}
    parquet.write_table(pa.table(rows), tmp_path / "rows.parquet")
    return tmp_path


def test_rows_are_read_as_requests_are_and_the_result_lies_beside_the_decision(run, folder):
    code, out, _ = run("fit", folder / "card.yaml", "--data", folder / "rows.parquet", "--target", "label")
    assert code == 0
    assert "2 transforms fitted on 2 rows" in out
    assert "fitted: card.fitted.json" in out
    written = json.loads((folder / "card.fitted.json").read_text())
    standardize, encode = written["transforms"]
    assert (standardize["mean"], standardize["scale"]) == ([2.0], [2.0])
    assert encode["maps"] == [{"DE": 0.0, "other": 1.0}]


def test_a_decision_that_names_its_file_gets_it_there_and_is_checked_next(run, folder):
    (folder / "card.yaml").write_text(SPEC + "fitted: values.json\n")
    code, out, _ = run("fit", folder / "card.yaml", "--data", folder / "rows.parquet", "--target", "label", "--json")
    assert code == 0
    assert json.loads(out)["path"] == str(folder / "values.json")
    assert (folder / "values.json").exists()


def test_a_target_that_is_needed_and_not_named_is_asked_for(run, folder):
    code, _, errors = run("fit", folder / "card.yaml", "--data", folder / "rows.parquet")
    assert code == 3
    assert "transforms[1]" in errors
    assert "--target" in errors


def test_a_decision_that_leaves_nothing_open_is_not_fitted(run, folder):
    whole = SPEC.replace("standardize: amount", "log1p: amount").replace(
        "{of: country, by: target, smoothing: 0}", "{of: country, maps: {DE: 1}, default: 0}"
    )
    (folder / "card.yaml").write_text(whole)
    code, _, errors = run("fit", folder / "card.yaml", "--data", folder / "rows.parquet")
    assert (code, "has open parameters" in errors) == (3, True)
