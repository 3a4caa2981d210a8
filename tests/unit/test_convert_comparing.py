"""What a conversion is judged by: each row within its bound, and rows that float32 cannot tell apart counted as such."""

from typing import Any

import numpy as np

from flyball.models.convert.compare import ComparisonResult, evaluate
from flyball.models.convert.comparison_rows import Reference
from flyball.models.convert.parts import Parts
from flyball.models.convert.table import Table

ROWS = 2000


def examined(expected: Any, of_float32: Any = None, *, probability: bool = True) -> Reference:
    """Half of the rows given, half of them edges."""
    parts = Parts("test", b"", {"x": "x"}, ["x"], "y[0]", probability)
    table = Table({"x": np.arange(ROWS, dtype=np.float64)}, {"x": "float"})
    kinds = ["given"] * (ROWS // 2) + ["edge"] * (ROWS // 2)
    return Reference(parts, table, kinds, expected, expected if of_float32 is None else of_float32, [], [])


def rounded_at(*places: int) -> ComparisonResult:
    """A model whose served answers to these rows are those to the rounded columns, on the other side of a threshold."""
    expected = np.full(ROWS, 0.25)
    of_float32 = expected.copy()
    of_float32[list(places)] = 0.75
    return evaluate(examined(expected, of_float32), of_float32, {}, thresholds=[0.5])


def test_rows_that_float32_cannot_tell_apart_are_of_their_own_kind_and_their_flips_are_counted() -> None:
    told = rounded_at(3, 1500, 1501)
    assert told.equal
    assert (told.rounded.rows, told.rounded.ordinary, told.rounded.max_abs) == (3, 1, 0.5)
    assert {kind: one.rows for kind, one in told.comparison.by_kind.items()} == {"given": 999, "rounded": 3, "edge": 998}
    (flips,) = told.comparison.flips
    assert (flips.rows, flips.flips) == (ROWS // 2, 1)
    assert told.document()["rounded"] == {"rows": 3, "ordinary": 1, "max_abs": 0.5}
    assert [one["row"]["x"] for one in told.worst] == [3.0]


def test_too_many_of_them_are_compared_as_they_are() -> None:
    told = rounded_at(3, 4)
    assert not told.equal
    assert (told.comparison.all.beyond, told.comparison.all.max_abs) == (2, 0.5)
    assert told.comparison.by_kind.keys() == {"given", "edge"}


def test_one_large_answer_hides_no_difference_of_another_row() -> None:
    expected = np.full(ROWS, 20.0)
    expected[0] = 1e7
    found = expected.copy()
    found[0] += 50
    assert evaluate(examined(expected, probability=False), found, {}).equal
    found[1] += 0.01
    told = evaluate(examined(expected, probability=False), found, {})
    assert told.comparison.all.beyond == 1
    assert told.comparison.worst[0].row == 1
    assert [one["row"]["x"] for one in told.worst] == [1.0]


def test_a_small_answer_among_large_ones_may_be_off_as_sums_of_floats_are() -> None:
    expected = np.full(ROWS, 20_000.0)
    expected[0] = 3.0
    found = expected + 0.01
    assert evaluate(examined(expected, probability=False), found, {}).equal
    assert not evaluate(examined(expected, probability=False), found, {}, bound=0.001).equal
    assert not evaluate(examined(expected, probability=True), found, {}).equal


def test_an_infinite_answer_is_equal_to_itself_alone() -> None:
    expected = np.full(ROWS, 20.0)
    expected[0] = np.inf
    assert evaluate(examined(expected, probability=False), expected.copy(), {}).equal
    found = expected.copy()
    found[0] = 20.0
    assert evaluate(examined(expected, probability=False), found, {}).comparison.all.beyond == 1
