"""The data plane's transforms beside scikit-learn's steps, the fit's NumPy and a row by hand: equal to the last bit.

Only logarithms may differ, by one unit in the last place: two mathematical libraries compute them.
"""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from numpy.typing import NDArray

from flyball import _native
from flyball.decision.decision import Decision
from flyball.decision.fit.columns import Columns, apply
from flyball.decision.fit.sklearn_steps import from_sklearn
from tests.reference import agree, loan, loan_rows
from tests.support import pipelines

POLICY = {"bands": [{"name": "any"}], "outcomes": ["any"]}
LOG_ULPS = 1


def native(fields: list[dict[str, Any]], transforms: list[dict[str, Any]], columns: list[str], rows: Any) -> NDArray[Any]:
    """The columns that a model would get, by the walk's own code."""
    score = {"output": "y", "element": 0}
    document = {
        "owner": "tests@example.com",
        "purpose": "tests",
        "input": fields,
        "transforms": transforms,
        "models": [{"name": "m", "version": "1", "inputs": [{"tensor": "x", "columns": columns}], "score": score}],
        "variants": [{"name": "champion", "models": ["m"], "weights": {"m": 1.0}}],
        "policy": POLICY,
    }
    answer = _native.transform_columns(json.dumps(document).encode(), json.dumps(rows).encode())
    return np.frombuffer(answer, "<f8").reshape(len(rows), len(columns))


def field(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "required": False}


SKLEARN_FIELDS = [field(name, "float" if name in pipelines.NUMBERS else "string") for name in pipelines.FIELDS]


def as_row(values: Any) -> dict[str, Any]:
    """A row as a request brings it: what is missing is not sent."""
    row = dict(zip(pipelines.FIELDS, values, strict=True))
    return {name: value for name, value in row.items() if not (isinstance(value, float) and math.isnan(value))}


@pytest.mark.parametrize("name", pipelines.CASES)
@given(seed=some.integers(0, 2**32 - 1))
def test_the_walk_s_columns_are_scikit_learn_s(name: str, seed: int) -> None:
    make, missing, unseen = pipelines.CASES[name]
    case = pipelines.fitted(make, seed, missing, unseen)
    translated = from_sklearn(case.steps, pipelines.FIELDS)
    rows = [as_row(values) for values in case.rows]
    got, wanted = native(SKLEARN_FIELDS, translated.transforms, translated.columns, rows), case.wanted()
    np.testing.assert_array_max_ulp(got, wanted, LOG_ULPS if name in pipelines.ULPS else 0)


KINDS = {"n": "float", "i": "int", "b": "bool", "s": "string", "u": "string", "t": "time"}
NUMBER = some.none() | some.floats(allow_nan=False, allow_infinity=False, width=64)
ROWS = some.lists(
    some.fixed_dictionaries({
        "n": NUMBER,
        "i": some.none() | some.integers(-(2**53), 2**53),
        "b": some.none() | some.booleans(),
        "s": some.none() | some.sampled_from(pipelines.WORDS) | some.text(max_size=12),
        "u": some.none() | some.text(max_size=4),
        "t": some.none() | some.integers(-(2**33), 2**33),
    }),
    min_size=1,
    max_size=80,
)  # fmt: skip
STEPS: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "impute": ([{"op": "impute", "of": ["n", "i"], "values": [2.5, -7], "indicator": True}], ["n", "n=missing", "i"]),
    "impute a text": (
        [{"op": "impute", "of": ["s"], "values": ["EUR"]}, {"op": "one_hot", "of": ["s"], "values": [["EUR", "ß"]]}],
        ["s=EUR", "s=ß"],
    ),
    "cast": ([{"op": "cast", "of": ["n"], "to": "int"}, {"op": "cast", "of": ["i"], "to": "bool"}], ["n", "i", "b"]),
    "cast a time": ([{"op": "cast", "of": ["t"], "to": "float"}], ["t"]),
    "cast to text": (
        [{"op": "cast", "of": ["i"], "to": "text"}, {"op": "hash", "of": ["i"], "buckets": 1000}],
        ["i"],
    ),
    "cast a text": ([{"op": "cast", "of": ["s"], "to": "float"}], ["s"]),
    "scale": ([{"op": "scale", "of": ["n", "i"], "factor": [0.1, 3.3], "offset": [7.7, -0.3]}], ["n", "i"]),
    "standardize": ([{"op": "standardize", "of": ["n", "i"], "mean": [0.1, 5.5], "scale": [0.7, 3.0]}], ["n", "i"]),
    "clip": ([{"op": "clip", "of": ["n"], "min": -1.5}, {"op": "clip", "of": ["i"], "min": 0.0, "max": 9.0}], ["n", "i"]),
    "bucket": ([{"op": "bucket", "of": ["n"], "edges": [-1e9, -0.0, 0.5, 1e300]}], ["n"]),
    "one_hot": ([{"op": "one_hot", "of": ["s"], "values": [pipelines.WORDS]}], [f"s={word}" for word in pipelines.WORDS]),
    "ordinal": ([{"op": "ordinal", "of": ["s"], "values": [pipelines.WORDS], "unknown": -1.0}], ["s"]),
    "hash": ([{"op": "hash", "of": ["s"], "buckets": 97}], ["s"]),
    "encode": ([{"op": "encode", "of": ["s"], "maps": [{"EUR": 0.1, "日本": 0.7}], "default": [0.3]}], ["s"]),
    "cross": ([{"op": "cross", "of": ["n", "i", "b"], "into": "x"}], ["x", "n"]),
    "cross texts": (
        [{"op": "cross", "of": ["s", "u"], "into": "x"}, {"op": "hash", "of": ["x"], "buckets": 1000}],
        ["x"],
    ),
    "date_parts": (
        [{"op": "date_parts", "of": ["t"], "parts": ["year", "month", "day", "hour", "minute", "weekday", "weekend"]}],
        ["t.year", "t.month", "t.day", "t.hour", "t.minute", "t.weekday", "t.weekend"],
    ),
}


def as_columns(rows: list[dict[str, Any]]) -> Columns:
    made: Columns = {}
    for name, kind in KINDS.items():
        values = [row[name] for row in rows]
        if kind == "string":
            made[name] = np.array([*values, None], dtype=object)[:-1]
        elif kind == "time":
            nat = np.datetime64("NaT", "ns")
            made[name] = np.array(
                [nat if value is None else np.datetime64(value, "s") for value in values], "datetime64[ns]"
            )
        else:
            made[name] = np.array([math.nan if value is None else float(value) for value in values])
    return made


@pytest.mark.parametrize("name", STEPS)
@given(rows=ROWS)
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_the_walk_s_columns_are_the_fit_s(name: str, rows: list[dict[str, Any]]) -> None:
    """What is fitted is what will be seen: both compute every op alike, missing values and extremes included."""
    transforms, columns = STEPS[name]
    fields = [field(key, kind) for key, kind in KINDS.items()]
    wanted = as_columns(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        for transform in transforms:
            wanted = apply(transform, wanted)
    np.testing.assert_array_equal(
        native(fields, transforms, columns, rows), np.column_stack([wanted[column] for column in columns])
    )


def test_logarithms_are_within_one_unit_in_the_last_place() -> None:
    random = np.random.default_rng(5)
    values = np.concatenate([10.0 ** random.uniform(-300, 300, 3000), random.uniform(0, 2, 3000), [0.0, 5e-324, 1.0]])
    rows = [{"n": float(value), "m": float(value)} for value in values]
    fields = [field("n", "float"), field("m", "float")]
    got = native(fields, [{"op": "log", "of": ["n"]}, {"op": "log1p", "of": ["m"]}], ["n", "m"], rows)
    with np.errstate(divide="ignore"):
        wanted = np.column_stack([np.log(values), np.log1p(values)])
    np.testing.assert_array_max_ulp(got, wanted, LOG_ULPS)


def test_a_whole_decision_s_columns_are_those_by_hand(tmp_path: Path) -> None:
    shutil.copy(agree.SPEC, tmp_path / "loan.yaml")
    loan_rows.make_model(tmp_path / "loan.onnx")
    document = Decision.load(tmp_path / "loan.yaml").check().compiled.document
    rows = [row for row in loan_rows.rows(1000, seed=4) if not loan.check(row)[1]]
    answer = _native.transform_columns(json.dumps(document).encode(), json.dumps(rows).encode())
    got = np.frombuffer(answer, "<f8").reshape(len(rows), -1)
    wanted = np.array([loan.columns(loan.check(row)[0]) for row in rows])
    np.testing.assert_array_max_ulp(got, wanted, LOG_ULPS)
