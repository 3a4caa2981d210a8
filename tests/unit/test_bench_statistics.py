"""Statistics are held against what is known: pooled samples, laws of chance by seeded simulation, made-up drifts."""

import math
import re
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal, stats

from flyball.bench.record import MemorySample
from flyball.bench.statistics import (
    QUANTILES,
    RESOLUTION,
    STEAL_MAX,
    Estimate,
    Interval,
    Latencies,
    compare,
    figures,
    mean_interval,
    memory_slope,
    trend,
)
from flyball.errors import MissingExtraError, UsageError
from tests.support.bench_windows import encoded, window

TRIALS = 100
LATENCY_US = st.floats(0.01, 5e7)


@pytest.fixture(scope="module", autouse=True)
def fewer_draws():
    """A quarter of them is enough to tell intervals that hold from those that do not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flyball.statistics.resampling._DRAWS", 250)
        yield


def lognormal(random, count, *, median_us=200.0, memory=0.0):
    """So many latencies of one law; with `memory` each takes after the one before it."""
    noise = random.standard_normal(count + 200)
    noise = signal.lfilter([math.sqrt(1 - memory**2)], [1, -memory], noise)[200:]
    return median_us * np.exp(0.5 * noise)


def truth_us(share, median_us=200.0):
    return median_us * math.exp(0.5 * stats.norm.ppf(share))


def blocks(latencies_us, count=20):
    return np.split(latencies_us, count)


def pairs(seed, *, slower=1.0, count=8, arrivals="closed"):
    """Windows of A and B in turn, on a machine that gets slower from pair to pair and treats no two windows alike."""
    random = np.random.default_rng(seed)
    sides = {"A": [], "B": []}
    for pair in range(count):
        for side in "AB" if pair % 2 == 0 else "BA":
            median_us = (
                200 * (1 + 0.02 * pair) * math.exp(0.03 * random.standard_normal()) * (slower if side == "B" else 1.0)
            )
            latencies_us = lognormal(random, 1000, median_us=median_us)
            elapsed_s = latencies_us.sum() / 1e6 / 16
            sides[side].append(window([latencies_us], subject=side, arrivals=arrivals, elapsed_s=elapsed_s, raw=False))
    return sides["A"], sides["B"]


@given(st.lists(st.lists(LATENCY_US, min_size=1, max_size=60), min_size=1, max_size=4), st.floats(0, 1))
def test_a_quantile_of_merged_windows_is_that_of_the_pooled_samples(parts, share):
    merged = Latencies([encoded(part) for part in parts])
    pooled_us = np.concatenate(parts)
    # One nanosecond is what there is below a microsecond.
    truth = np.quantile(np.round(pooled_us * 1000) / 1000, share, method="inverted_cdf")
    assert merged.count == len(pooled_us)
    assert merged.quantile(share) == pytest.approx(truth, rel=RESOLUTION, abs=0.001)
    assert merged.max_us == pytest.approx(pooled_us.max(), rel=RESOLUTION, abs=0.001)


def test_windows_and_encoded_histograms_can_be_merged():
    made = window([[100.0] * 3, [300.0]])
    for found in (Latencies.of([made, made]), Latencies([made.result.histogram] * 2)):
        assert (found.count, found.quantile(0.5), found.quantile(0.76)) == (
            8,
            pytest.approx(100, 1e-3),
            pytest.approx(300, 1e-3),
        )


def test_quantiles_are_not_the_mean_of_the_windows_quantiles():
    fast, slow = window(blocks(np.full(900, 100.0))), window(blocks(np.full(100, 900.0)))
    assert figures([fast, slow])["p50"].value == pytest.approx(100, rel=RESOLUTION)
    assert figures([fast, slow])["p95"].value == pytest.approx(900, rel=RESOLUTION)


def covered(trials=TRIALS, windows=1, between=0.0, order=None, **law):
    """How often the 80 % interval of each figure holds the truth."""
    truths = {"p50": truth_us(0.5), "p95": truth_us(0.95), "mean": 200 * math.exp(0.125)}
    hits = dict.fromkeys(truths, 0)
    for seed in range(trials):
        random = np.random.default_rng(seed)
        drawn = [
            lognormal(random, 600, median_us=200 * math.exp(m), **law) for m in between * random.standard_normal(windows)
        ]
        found = figures([window(blocks(order(random, one) if order else one)) for one in drawn], 0.8)
        for name, truth in truths.items():
            hits[name] += found[name].interval.low <= truth <= found[name].interval.high
    return hits


@pytest.mark.parametrize("memory", [0.0, 0.9], ids=["independent requests", "requests that take after each other"])
def test_intervals_hold_the_truth_as_often_as_they_say(memory):
    """At 80 % both too narrow and too wide would show; 64 and 94 are four standard deviations away."""
    for name, hits in covered(memory=memory).items():
        assert 64 <= hits <= 94, name


def test_intervals_that_take_requests_for_independent_would_hold_it_far_less():
    """The same requests with their order lost: what drawing single requests would see."""
    assert covered(memory=0.9, order=lambda random, latencies_us: random.permutation(latencies_us))["p50"] < 50


def test_a_disturbance_that_outlasts_an_interval_is_less_sure_than_many_short_ones():
    random = np.random.default_rng(1)
    slow = [lognormal(random, 50) * (1.3 if place // 15 % 2 else 1.0) for place in range(60)]
    long, short = (
        figures([window([slow[place] for place in order])])["p50"].interval for order in (range(60), random.permutation(60))
    )
    assert long.high - long.low > 1.4 * (short.high - short.low)


def test_what_changes_from_window_to_window_is_in_the_interval():
    """Drawing inside windows alone would hold the truth in 7 of the 40 at most."""
    for name, hits in covered(trials=40, windows=4, between=0.2).items():
        assert 20 <= hits <= 38, name


def test_windows_that_disagree_widen_the_interval_and_windows_that_agree_narrow_it():
    made = [blocks(lognormal(np.random.default_rng(seed), 1000)) for seed in range(4)]
    one, same, apart = (
        figures(windows)["p50"].interval
        for windows in (
            [window(made[0])],
            [window(parts) for parts in made],
            [window(np.multiply(parts, factor)) for parts, factor in zip(made, (0.7, 0.9, 1.1, 1.3), strict=True)],
        )
    )
    assert same.high / same.low < one.high / one.low < 1.2
    assert apart.low < 170
    assert apart.high > 230


def test_figures_are_the_same_every_time():
    windows = [window(blocks(lognormal(np.random.default_rng(1), 2000)))]
    assert figures(windows) == figures(windows)


def test_every_figure_lies_in_its_interval():
    found = figures([window(blocks(lognormal(np.random.default_rng(seed), 20_000)), failed=100) for seed in range(3)])
    assert set(found) == {*QUANTILES, "max", "mean", "rate", "error_share"}
    for name, estimate in found.items():
        if name != "max":
            assert 0 < estimate.interval.low <= estimate.value <= estimate.interval.high, name
    assert found["max"].interval is None


@pytest.mark.parametrize(
    ("count", "in_blocks", "told"),
    [
        (1000, 20, {"p50", "p95", "p99", "mean", "rate"}),
        (980, 20, {"p50", "p95", "mean", "rate"}),
        (10_000, 20, {"p50", "p95", "p99", "p999", "mean", "rate"}),
        (9000, 9, set()),
    ],
    ids=["ten beyond p99", "fewer than ten beyond p99", "ten beyond p999", "nine intervals"],
)
def test_where_too_little_was_seen_there_is_no_interval(count, in_blocks, told):
    found = figures([window(blocks(lognormal(np.random.default_rng(1), count), in_blocks))])
    assert {name for name, estimate in found.items() if estimate.interval} - {"error_share"} == told


def test_the_rate_counts_right_answers_over_the_seconds_of_all_windows():
    first, second = window([[1.0] * 5] * 20, elapsed_s=1.0), window([[1.0] * 10] * 20, elapsed_s=3.0)
    assert figures([first, second])["rate"].value == pytest.approx(300 / 4)


def test_a_short_last_interval_does_not_look_like_a_fall_of_the_rate():
    whole = window([*[[1.0] * 50] * 20, [1.0] * 5], elapsed_s=2.1)
    cut = [interval.model_copy(update={"start_s": 0.1 * place}) for place, interval in enumerate(whole.result.timeline)]
    result = whole.result.model_copy(update={"timeline": cut, "elapsed_s": 2.01})
    interval = figures([whole.model_copy(update={"result": result})])["rate"].interval
    assert (interval.low, interval.high) == pytest.approx((500, 500))


def test_no_failure_in_a_thousand_requests_is_no_proof_that_there_are_none():
    found = figures([window(blocks(np.full(1000, 1.0)))])["error_share"]
    assert (found.value, found.interval.low) == (0, 0)
    assert found.interval.high == pytest.approx(1 - 0.025 ** (1 / 1000))


@pytest.mark.parametrize(("failed", "answered"), [(3, 1000), (5, 0)])
def test_few_failures_have_the_exact_interval(failed, answered):
    found = figures([window(blocks(np.full(answered, 1.0)), failed=failed)])["error_share"]
    exact = stats.binomtest(failed, failed + answered).proportion_ci(0.95)
    assert found.interval == Interval(pytest.approx(exact.low), pytest.approx(exact.high))


def test_failures_that_come_together_are_less_sure_than_failures_that_come_one_by_one():
    def width(failed):
        found = figures([window(blocks(np.full(2000, 1.0)), failed=failed)])["error_share"]
        assert found.value == pytest.approx(100 / 2100)
        assert found.interval.low < found.value < found.interval.high
        return found.interval.high - found.interval.low

    assert width([50, 50, *[0] * 18]) > 3 * width([4, 6] * 10)


def test_without_any_answer_latencies_are_not_a_number_and_all_failed():
    found = figures([window([[]] * 20, failed=50)])
    assert all(math.isnan(found[name].value) and found[name].interval is None for name in (*QUANTILES, "mean", "max"))
    assert (found["rate"].value, found["error_share"].value) == (0, 1)


def test_figures_of_nothing_are_refused():
    with pytest.raises(UsageError, match="no window"):
        figures([])


def test_a_mean_of_rates_is_geometric_with_student_s_interval_on_the_logarithm():
    values = [900.0, 1000.0, 1200.0]
    found = mean_interval(values)
    logs = np.log(values)
    low, high = stats.t.interval(0.95, 2, logs.mean(), stats.sem(logs))
    assert found.value == pytest.approx(stats.gmean(values))
    assert (found.interval.low, found.interval.high) == (pytest.approx(math.exp(low)), pytest.approx(math.exp(high)))


def test_one_value_has_a_mean_and_no_interval_and_zero_has_no_logarithm():
    assert mean_interval([7.0]) == Estimate(pytest.approx(7.0), None)
    assert mean_interval([0.0, 4.0]) == Estimate(2.0, None)
    with pytest.raises(UsageError, match="no value"):
        mean_interval([])


def test_no_difference_is_shown_between_a_server_and_itself():
    shown = [seed for seed in range(TRIALS) if compare(*pairs(seed), paired=True).shown]
    assert len(shown) <= 5


def test_a_fifth_slower_is_found_with_eight_pairs():
    found = [compare(*pairs(seed, slower=1.2), paired=True) for seed in range(TRIALS)]
    right = [c for c in found if [f.verdict for f in c.figures] == ["slower", "slower", "lower"]]
    assert len(right) >= 95
    assert sum(c.figures[0].interval.low <= 1.2 <= c.figures[0].interval.high for c in found) >= 90


def test_windows_without_partners_are_compared_too():
    shown = sum(compare(*pairs(seed), paired=False).shown for seed in range(TRIALS))
    found = sum(compare(*pairs(seed, slower=1.2), paired=False).shown for seed in range(TRIALS))
    assert (shown <= 5, found >= 95) == (True, True)


def test_welch_s_interval_is_that_of_scipy():
    a, b = pairs(1, count=5)[0], pairs(2, count=9, slower=1.1)[1]
    (p50, *_) = compare(a, b, paired=False).figures
    logs = [np.log([w.result.latency_us.p50 for w in side]) for side in (b, a)]
    scipys = stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.95 ** (1 / 3))
    blur = math.exp(RESOLUTION)
    assert p50.interval.low * blur == pytest.approx(math.exp(scipys.low))
    assert p50.interval.high / blur == pytest.approx(math.exp(scipys.high))


def test_the_rate_is_judged_in_closed_loops_only():
    assert [f.name for f in compare(*pairs(1), paired=True).figures] == ["p50", "p99", "rate"]
    assert [f.name for f in compare(*pairs(1, arrivals="constant"), paired=True).figures] == ["p50", "p99"]


def test_what_the_histograms_cannot_tell_apart_is_no_difference_however_often_it_is_repeated():
    def equal(us):
        return [window([[us] * 100], raw=False)] * 20

    assert not compare(equal(1000.0), equal(1000.5), paired=True).shown
    assert compare(equal(1000.0), equal(1003.0), paired=True).figures[0].verdict == "slower"


def test_fewer_than_five_windows_are_refused_with_the_number_that_is_needed():
    with pytest.raises(UsageError, match="needs 5 windows per side, found 4") as caught:
        compare(*pairs(1, count=4), paired=True)
    assert "--repeats 5" in caught.value.next_step


def disturbed(windows, places):
    host = windows[0].host.model_copy(update={"steal_share": STEAL_MAX + 0.01})
    return [w.model_copy(update={"host": host}) if place in places else w for place, w in enumerate(windows)]


def test_windows_that_the_host_disturbed_are_left_out_with_their_partners():
    a, b = pairs(1, count=8)
    found = compare(disturbed(a, {0, 1}), disturbed(b, {1, 2}), paired=True)
    assert (found.windows, found.left_out) == (5, 6)
    assert found.figures == compare(a[3:], b[3:], paired=True).figures
    assert "6 windows were skipped" in found.notes[0]
    alone = compare(disturbed(a, {0, 1}), disturbed(b, {1, 2, 3}), paired=False)
    assert (alone.windows, alone.left_out) == (5, 5)
    with pytest.raises(UsageError, match="found 4 after 8 were skipped: CPU steal above 3%"):
        compare(disturbed(a, {0, 1}), disturbed(b, {2, 3}), paired=True)


def test_pairs_that_are_none_are_refused():
    a, b = pairs(1)
    with pytest.raises(UsageError, match="8 of A and 7 of B"):
        compare(a, b[:7], paired=True)


def test_a_window_without_an_answer_cannot_be_compared():
    a, b = pairs(1)
    silent = window([[]], subject="B", failed=9, raw=False)
    with pytest.raises(UsageError, match="a window of B has no correct answer") as caught:
        compare(a, [*b[:7], silent], paired=True)
    assert "connection reset" in caught.value.next_step


def test_the_summary_is_one_sentence_with_the_size_of_what_is_shown_or_may_be_there():
    assert compare(*pairs(1, slower=1.2), paired=True).summary.startswith("B differs from A: p50 +")
    quiet = compare(*pairs(1), paired=True).summary
    assert quiet.startswith("no difference shown between A and B: p50 ")
    assert quiet.endswith("; 8 pairs, 95% level")
    a, _ = pairs(1)
    assert compare(a, a, paired=False).summary.startswith("no difference shown between A and B: p50 +0.0 %")


def test_what_qualifies_a_comparison_is_noted():
    a, b = pairs(1)
    limited = [w.model_copy(update={"result": w.result.model_copy(update={"bottleneck": "busy"})}) for w in a[:2]]
    failing = [w.model_copy(update={"result": w.result.model_copy(update={"sent": 1250, "failed": 250})}) for w in b]
    found = compare([*limited, *a[2:]], failing, paired=True)
    assert (found.windows, found.left_out) == (6, 4)
    assert "or a saturated generator" in found.notes[0]
    assert found.notes[1:] == ["B gave no correct answer to 20.00% of its requests"]


def test_whoever_answers_fewer_requests_is_told_however_fast_the_rest_was():
    a, b = pairs(1)
    failing = [w.model_copy(update={"result": w.result.model_copy(update={"sent": 1250, "failed": 250})}) for w in b]
    (answered,) = (figure for figure in compare(a, failing, paired=True).figures if figure.name == "answered")
    assert (answered.verdict, round(answered.ratio, 2)) == ("lower", 0.8)


def drifting(total, *, seed=1, arrivals="closed", count=60):
    """A window whose median changes by `total` from its start to its end."""
    random = np.random.default_rng(seed)
    factors = 1 + total * np.linspace(-0.5, 0.5, count)
    return window([lognormal(random, 50) * factor for factor in factors], arrivals=arrivals)


def test_a_drift_is_told_with_its_size():
    words = re.fullmatch(r"p50 rose by (\d+)% from the start of the window to its end", trend(drifting(0.5)))
    assert 40 <= int(words[1]) <= 60
    assert trend(drifting(-0.5)).startswith("p50 fell by ")


def test_noise_is_no_drift():
    assert [seed for seed in range(20) if trend(drifting(0.0, seed=seed))] == []
    assert trend(window([[100.0] * 5] * 20)) is None


def test_a_drift_too_small_to_matter_is_not_told():
    """However sure it is: here each median is above the last."""
    assert trend(window([[100 + 0.15 * place] * 5 for place in range(60)])) is None
    assert trend(window([[100 + 0.25 * place] * 5 for place in range(60)])).startswith("p50 rose by 14%")


def test_a_ramp_is_meant_to_drift_and_few_intervals_tell_nothing():
    assert trend(drifting(0.5, arrivals="ramp")) is None
    assert trend(drifting(0.5, count=9)) is None


def leaking(per_hour, *, count=300, every_s=1.0, noise=50_000.0):
    random = np.random.default_rng(1)
    sizes = 100e6 + per_hour * np.arange(count) * every_s / 3600 + noise * random.standard_normal(count)
    sizes[count // 2] += 30e6  # one jump, as of a collection that came late
    return [MemorySample(at_s=place * every_s, memory_bytes=int(size)) for place, size in enumerate(sizes)]


def test_the_slope_of_a_leak_is_found_beside_noise_and_a_jump():
    found = memory_slope(leaking(36e6))
    assert found.interval.low < 36e6 < found.interval.high
    assert found.value == pytest.approx(36e6, rel=0.02)


def test_steady_memory_has_a_slope_that_may_be_nothing():
    interval = memory_slope(leaking(0.0)).interval
    assert interval.low < 0 < interval.high


def test_a_day_of_samples_is_thinned_before_every_pair_is_looked_at():
    assert memory_slope(leaking(36e6, count=86_400)).value == pytest.approx(36e6, rel=0.02)


def test_few_samples_have_a_slope_and_no_interval():
    assert memory_slope(leaking(36e6, count=9, every_s=600.0, noise=0.0)).interval is None
    with pytest.raises(UsageError, match="two memory samples"):
        memory_slope(leaking(0.0)[:1])


def test_without_scipy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    with pytest.raises(MissingExtraError, match="scipy") as caught:
        mean_interval([1.0, 2.0])
    assert "flyball[bench]" in caught.value.next_step
