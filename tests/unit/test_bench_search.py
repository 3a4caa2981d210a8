"""The search for the highest rate: it ends, is right within its precision, and lucky tries do not count."""

import random
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyball.bench.search import RATE_MAX, RATE_MIN, Bisection, Bracket


def search(attempt, start, *, step=2.0, precision=0.05):
    return Bisection(attempt, step=step, precision=precision).run(start)


def up_to(truth):
    return lambda rate: "kept" if rate <= truth else "broken"


def noisily(truth, noise, random, rate):
    return up_to(truth)(rate * float(random.normal(1, noise)))


@given(
    truth=st.floats(2, 900_000),
    start=st.floats(0.01, 10_000_000),
    step=st.floats(1.05, 4),
    precision=st.floats(0.01, 0.4),
)
def test_the_rate_found_is_kept_and_the_truth_lies_in_the_bracket(truth, start, step, precision):
    tried = []

    def attempt(rate):
        tried.append(rate)
        return up_to(truth)(rate)

    found = search(attempt, start, step=step, precision=precision)
    assert found.kept is not None
    assert found.broken is not None
    assert found.kept <= truth < found.broken <= found.kept * (1 + precision) * (1 + 1e-9)
    assert all(RATE_MIN <= rate <= RATE_MAX for rate in tried)
    assert tried[-1] == found.kept, "the last try confirms what is told"


def test_a_server_that_keeps_nothing_has_no_rate():
    assert search(lambda _: "broken", 1000) == Bracket(None, RATE_MIN)


def test_a_server_that_keeps_everything_has_the_highest_rate_that_is_tried():
    assert search(lambda _: "kept", 1000) == Bracket(RATE_MAX, None)


def test_a_rate_that_cannot_be_judged_ends_the_search_with_what_was_kept_below():
    bisection = Bisection(lambda rate: "kept" if rate <= 5000 else "unknown", step=2.0, precision=0.05)
    found = bisection.run(3000)
    assert bisection.unknown
    assert found == Bracket(3000, None)


def test_one_lucky_try_is_not_what_is_told():
    lucky = iter([True])

    def attempt(rate):
        return "kept" if rate <= 10_000 or next(lucky, False) else "broken"

    found = search(attempt, 16_000)
    assert found.kept is not None
    assert found.kept <= 10_000


def test_a_first_search_from_half_the_peak_tries_few_rates():
    tried = []

    def attempt(rate):
        tried.append(rate)
        return up_to(40_000)(rate)

    search(attempt, 25_000)
    assert len(tried) <= 9


@pytest.mark.parametrize("seed", range(5))
def test_a_noisy_server_is_found_near_its_limit(seed):
    noise = random.Random(seed)
    found = search(lambda rate: up_to(10_000)(rate * noise.gauss(1, 0.03)), 6000)
    assert found.kept is not None
    assert 8_500 < found.kept < 11_000


@pytest.mark.parametrize("noise", [0.0, 0.005, 0.02])
def test_the_interval_of_three_searches_holds_the_truth(noise):
    from flyball.bench.phases import rate_kept

    draws = np.random.default_rng(7)
    held = 0
    for _ in range(200):
        truth = float(draws.uniform(5_000, 50_000))
        brackets: list[Bracket] = []
        for _ in range(3):
            start, step = (brackets[-1].kept * float(draws.uniform(0.9, 1.1)), 1.15) if brackets else (truth / 1.7, 2.0)
            attempt = partial(noisily, truth, noise, draws)
            brackets.append(search(attempt, start, step=step))
        told = rate_kept("s", brackets, None)
        assert told.low_per_s is not None
        assert told.high_per_s is not None
        held += told.low_per_s <= truth <= told.high_per_s
    assert held >= 180
