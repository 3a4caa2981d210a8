"""Values become arrays of a model's datatype: what is converted, what is missing, and what is refused with its place."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from flyball.errors import InvalidInputError
from flyball.rows.casts import is_missing
from flyball.rows.tensors import as_array

NAN = float("nan")


@pytest.mark.parametrize(
    "value", [None, NAN, np.float32("nan"), np.datetime64("NaT"), Decimal("NaN"), pd.NA, pd.NaT], ids=repr
)
def test_a_missing_value_is_recognised_whatever_library_it_comes_from(value):
    assert is_missing(value)


@pytest.mark.parametrize(
    "value", [0, "", False, 0.0, float("inf"), "nan", [], Decimal(0), np.datetime64("2026-01-01")], ids=repr
)
def test_an_empty_value_is_not_a_missing_one(value):
    assert not is_missing(value)


@pytest.mark.parametrize(
    ("value", "datatype", "wanted"),
    [
        ([[1, 2]], "FP32", [[1.0, 2.0]]),
        (((1, 2.5),), "FP32", [[1.0, 2.5]]),
        (np.array([0.1]), "FP32", [np.float32(0.1)]),
        (np.array([0.1], object), "FP32", [np.float32(0.1)]),
        (np.array([1, 2], np.int32), "INT64", [1, 2]),
        ([1.0, 2.0], "INT64", [1, 2]),
        ([Decimal("1.5"), 2], "FP64", [1.5, 2.0]),
        ([True, False], "FP32", [1.0, 0.0]),
        ([1, 0], "BOOL", [True, False]),
        (["true", "FALSE", "1"], "BOOL", [True, False, True]),
        (["1.5", " 2 "], "FP64", [1.5, 2.0]),
        (["7"], "INT8", [7]),
        ([2**53 + 1, 2], "INT64", [2**53 + 1, 2]),
        ([2**63], "UINT64", [2**63]),
        ([[np.array([1, 2]), [3, 4]]], "INT32", [[[1, 2], [3, 4]]]),
        (np.array([np.array([1.0, 2.0]), np.array([3.0, 4.0])]), "FP32", [[1.0, 2.0], [3.0, 4.0]]),
        (["a", "ä"], "BYTES", ["a", "ä"]),
        ([], "INT64", []),
        (3, "INT64", 3),
    ],
)
def test_values_keep_their_worth_in_the_model_s_datatype(value, datatype, wanted):
    array = as_array(value, datatype)
    assert array.tolist() == np.asarray(wanted).tolist()
    assert datatype == "BYTES" or array.dtype == as_array([], datatype).dtype


@pytest.mark.parametrize(
    "values", [[1.0, None], [1.0, NAN], [1.0, pd.NA], np.array([1.0, None], object), ["1", None]], ids=repr
)
def test_a_missing_number_is_nan_in_a_float(values):
    np.testing.assert_array_equal(as_array(values, "FP32"), np.array([1.0, NAN], np.float32))


def test_an_array_of_the_right_type_is_not_copied():
    array = np.ones(3, np.float32)
    assert as_array(array, "FP32") is array


@pytest.mark.parametrize(
    ("value", "datatype", "words"),
    [
        ([1.5], "INT64", "1.5 at row 0; allowed: a whole number from -9223372036854775808"),
        (np.array([[1.0, NAN]]), "INT64", r"a missing value at \[0, 1\]"),
        ([1, None], "INT64", "a missing value at row 1"),
        ([True, None], "BOOL", "a missing value at row 1; allowed: true or false"),
        (["a", None], "BYTES", "a missing value at row 1; allowed: a text"),
        ([1, pd.NA], "INT64", "a missing value at row 1"),
        ([300], "UINT8", "300 at row 0; allowed: a whole number from 0 to 255"),
        ([-1], "UINT64", "-1 at row 0"),
        (np.array([-1]), "UINT64", "-1 at row 0"),
        ([2], "BOOL", "2 at row 0"),
        ([2**70], "INT64", "cannot convert the values to INT64"),
        ([float("inf")], "INT64", "inf at row 0"),
        ([1e300], "FP32", r"1e\+300 at row 0; allowed: a number up to 3.40282e\+38"),
        ([[1.0, "x"]], "FP32", r"'x' at \[0, 1\]"),
        (["maybe"], "BOOL", "'maybe' at row 0"),
        ([object()], "FP32", "at row 0; allowed: a number"),
        ([{}], "FP32", "{} at row 0"),
        (np.array(["2026-01-01"], "datetime64[D]"), "FP32", r"datetime64\[D\] is not a number"),
        (np.ones(1, np.complex128), "FP32", "complex128 is not a number"),
        ([1, 2], "BYTES", "int64 is not text"),
        ([[1], [1, 2]], "FP32", "rows have different lengths"),
        ([[1.0, None], [1.0]], "FP32", "rows have different lengths"),
        ([1.0], "BF16", "pass a NumPy array"),
    ],
)
def test_a_value_that_would_change_is_refused_with_its_place(value, datatype, words):
    with pytest.raises(InvalidInputError, match=words):
        as_array(value, datatype)


def test_infinities_and_nan_stay_what_they_are():
    np.testing.assert_array_equal(as_array([np.inf, -np.inf, NAN], "FP16"), np.array([np.inf, -np.inf, NAN], np.float16))
