"""Which candidate is chosen, and with how many rows a run."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from flyball.models.optimize.candidate import Candidate
from flyball.models.optimize.choice import choose
from flyball.models.optimize.run import Budget
from flyball.models.optimize.steps.batch import rows_max


def candidate(name: str, *, accepted: bool = True, size: int = 100) -> Candidate:
    return Candidate(name=name, how="", size_bytes=size, outcome="equal" if accepted else "refused")


def figures(**p50: float) -> dict[str, dict[str, dict[str, float]]]:
    return {name: {"1": {"p50_us": value, "p99_us": value * 2}} for name, value in p50.items()}


def test_the_fastest_that_may_serve_is_chosen_and_a_refused_one_never() -> None:
    made = [candidate("plain"), candidate("quick"), candidate("wrong", accepted=False)]
    told = choose(made, figures(plain=100, quick=40, wrong=1), Budget())
    assert told.chosen == "quick"
    assert "2.50 times as fast as plain" in told.reason
    assert {line.name: line.front for line in told.lines} == {"plain": False, "quick": True, "wrong": False}


def test_a_gain_that_is_hardly_there_leaves_the_simplest() -> None:
    told = choose([candidate("plain"), candidate("quick")], figures(plain=100, quick=97), Budget())
    assert told.chosen == "plain"


def test_a_budget_is_kept_before_speed_counts() -> None:
    made = [candidate("plain"), candidate("quick", size=5_000_000)]
    told = choose(made, figures(plain=100, quick=40), Budget(size_mb=1))
    assert told.chosen == "plain"
    assert "none meets the budget" in choose(made, figures(plain=100, quick=40), Budget(p99_ms=0.001)).reason


@given(st.lists(st.tuples(st.floats(1, 1000), st.integers(1, 1000), st.booleans()), min_size=1, max_size=8))
def test_whatever_is_chosen_may_serve_and_lies_on_the_front_or_is_the_simplest(drawn: list[tuple[float, int, bool]]) -> None:
    made = [candidate(f"c{index}", accepted=ok or not index, size=size) for index, (_, size, ok) in enumerate(drawn)]
    told = choose(made, figures(**{f"c{index}": p50 for index, (p50, _, _) in enumerate(drawn)}), Budget())
    line = next(line for line in told.lines if line.name == told.chosen)
    assert line.accepted
    assert line.front or line.name == "c0"
    json.dumps(told.model_dump())


def test_a_larger_batch_is_taken_as_long_as_a_row_gets_cheaper() -> None:
    times = {1: 100.0, 2: 120.0, 4: 150.0, 8: 290.0, 16: 570.0}
    assert rows_max({str(rows): {"p50_us": us} for rows, us in times.items()}) == 4
    assert rows_max({"1": {"p50_us": 900.0}, "2": {"p50_us": 1100.0}}) == 1
