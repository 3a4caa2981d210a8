"""A latency contract is kept, broken or not proven, and the reason is told; windows that say nothing are tried again."""

import numpy as np
import pytest

from flyball.bench.gate import evaluate
from flyball.bench.phases import clearly_keeps, keeps, says_something
from flyball.bench.scenario import Contract, Slo
from tests.support.bench_windows import window


def contract(**changes):
    return Contract.model_validate(
        {"contract": "c", "model": "m", "rate_per_s": 1000, "p99_ms": 5, "error_budget": 0.01} | changes
    )


def windows(p50_us, *, count=2000, repeats=3, **changes):
    """Windows at about 1000/s whose p99 is about 2.5 times the median."""
    random = np.random.default_rng(1)
    return [
        window(
            np.split(p50_us * random.lognormal(0, 0.4, count), 20), arrivals="constant", elapsed_s=count / 1000, **changes
        )
        for _ in range(repeats)
    ]


def test_a_contract_is_kept_where_the_whole_interval_is_below_the_limit():
    verdict = evaluate(contract(), windows(500))
    assert (verdict.outcome, verdict.reasons) == ("kept", [])


def test_a_contract_is_broken_where_p99_is_above_the_limit_and_both_figures_are_told():
    verdict = evaluate(contract(), windows(4000))
    assert verdict.outcome == "broken"
    assert "p99 is 10" in verdict.reasons[0]
    assert "limit 5.00 ms" in verdict.reasons[0]


def test_a_contract_is_not_proven_where_the_limit_lies_in_the_interval():
    found = windows(500)
    from flyball.bench.statistics import figures

    p99 = figures(found)["p99"]
    assert p99.interval is not None
    between_ms = (p99.value + p99.interval.high) / 2000
    verdict = evaluate(contract(p99_ms=between_ms), found)
    assert verdict.outcome == "not proven"
    assert "interval reaches" in verdict.reasons[0]


def test_a_contract_is_not_proven_by_a_handful_of_requests():
    verdict = evaluate(contract(), windows(500, count=20, repeats=1))
    assert verdict.outcome == "not proven"
    assert "too few answers" in verdict.reasons[0]


def test_requests_without_a_right_answer_break_a_contract_beyond_its_budget_and_their_reasons_are_told():
    errors = [{"reason": "http 503", "count": 100}]
    verdict = evaluate(contract(), windows(500, failed=100, errors=errors))
    assert verdict.outcome == "broken"
    assert "300 × http 503" in verdict.reasons[0]
    assert evaluate(contract(error_budget=0.1), windows(500, failed=100, errors=errors)).outcome == "kept"


def test_a_broken_promise_is_not_held_against_the_server_while_the_generator_was_at_its_limit():
    slow, fast = windows(4000, bottleneck="the generator was busy"), windows(500, bottleneck="the generator was busy")
    assert evaluate(contract(), slow).outcome == "not proven"
    assert evaluate(contract(), fast).outcome == "kept"


def test_a_budget_that_so_few_requests_cannot_show_is_not_proven():
    verdict = evaluate(contract(error_budget=0.0001), windows(500))
    assert verdict.outcome == "not proven"
    assert "may have no correct answer" in verdict.reasons[0]


def test_a_disturbed_host_is_told_beside_the_reason():
    verdict = evaluate(contract(), windows(4000, steal_share=0.2))
    assert verdict.outcome == "broken"
    assert "CPU steal above 3%" in verdict.reasons[-1]


@pytest.mark.parametrize(("p50_us", "kept"), [(500, True), (4000, False)])
def test_a_clear_window_ends_a_try(p50_us, kept):
    found = windows(p50_us, repeats=1)
    assert clearly_keeps(found, Slo(p99_ms=5)) is kept
    assert keeps(found, Slo(p99_ms=5)) is kept


def test_a_window_whose_interval_holds_the_limit_asks_for_another():
    found = windows(500, repeats=1)
    assert clearly_keeps(found, Slo(p99_ms=found[0].result.latency_us.p99 / 1000)) is None


def test_errors_beyond_the_budget_are_a_clear_no_however_fast_the_answers_were():
    assert clearly_keeps(windows(500, failed=100), Slo(p99_ms=5, error_budget=0.01)) is False


def test_windows_of_a_disturbed_host_and_of_a_generator_at_its_limit_say_nothing_unless_they_keep_the_promise():
    slo = Slo(p99_ms=5)
    (stolen,) = windows(500, repeats=1, steal_share=0.2)
    (limited,) = windows(4000, repeats=1, bottleneck="busy")
    (kept,) = windows(500, repeats=1, bottleneck="busy")
    assert [says_something(one, slo) for one in (stolen, limited, kept)] == [False, False, True]
