"""The search for the highest rate: it ends, is right within its precision, and tries few rates."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyball.bench.search import RATE_MAX, RATE_MIN, highest_rate


@given(
    truth=st.floats(2, 900_000),
    start=st.floats(0.01, 10_000_000),
    step=st.floats(1.05, 4),
    precision=st.floats(0.01, 0.4),
)
def test_the_rate_found_is_kept_and_near_the_truth(truth, start, step, precision):
    tried = []

    def keeps(rate):
        tried.append(rate)
        return rate <= truth

    found = highest_rate(keeps, start, step=step, precision=precision)
    assert found is not None
    assert found <= truth < found * (1 + precision) * (1 + 1e-9)
    assert all(RATE_MIN <= rate <= RATE_MAX for rate in tried)


def test_a_server_that_keeps_nothing_has_no_rate():
    assert highest_rate(lambda rate: False, 1000, step=2, precision=0.05) is None


def test_a_server_that_keeps_everything_has_the_highest_rate_that_is_tried():
    assert highest_rate(lambda rate: True, 1000, step=2, precision=0.05) == RATE_MAX


def test_a_first_search_from_half_the_peak_tries_few_rates():
    tried = []

    def keeps(rate):
        tried.append(rate)
        return rate <= 40_000

    highest_rate(keeps, 25_000, step=2, precision=0.05)
    assert len(tried) <= 8


@pytest.mark.parametrize("seed", range(5))
def test_a_noisy_server_ends_the_search_all_the_same_near_its_limit(seed):
    noise = random.Random(seed)
    found = highest_rate(lambda rate: rate * noise.gauss(1, 0.05) <= 10_000, 6000, step=2, precision=0.05)
    assert found is not None
    assert 7_000 < found < 14_000
