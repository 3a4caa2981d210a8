"""Intervals and figures of a candidate, against brute force: scans, enumerations, draws, and pandas."""

import math
import random
from itertools import product
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest

from flyball.decision_log.replay.candidate import Pair, Trial
from flyball.decision_log.replay.flips import errors, figures
from flyball.statistics.intervals import Pairs, difference, mean_interval, wilson

Z = NormalDist().inv_cdf(0.975)


@pytest.mark.parametrize(("hits", "rows"), [(0, 7), (1, 10), (5, 10), (10, 10), (3, 400), (399, 400)])
def test_wilson_is_the_set_of_rates_that_a_score_test_does_not_reject(hits: int, rows: int) -> None:
    rates = np.linspace(1e-7, 1 - 1e-7, 2_000_001)
    kept = rates[np.abs(hits / rows - rates) <= Z * np.sqrt(rates * (1 - rates) / rows)]
    found = wilson(hits, rows)
    assert found.value == hits / rows
    assert math.isclose(found.low, kept.min(), abs_tol=2e-6)
    assert math.isclose(found.high, kept.max(), abs_tol=2e-6)


def test_nothing_is_known_of_no_rows() -> None:
    assert (wilson(0, 0).value, wilson(0, 0).low, wilson(0, 0).high) == (None, 0.0, 1.0)
    assert (difference(Pairs(0, 0, 0, 0)).low, difference(Pairs(0, 0, 0, 0)).high) == (-1.0, 1.0)


@pytest.mark.parametrize(
    "chances", [(0.6, 0.1, 0.1, 0.2), (0.05, 0.01, 0.04, 0.9), (0.3, 0.0, 0.2, 0.5), (0.25, 0.25, 0.25, 0.25)]
)
def test_the_interval_of_a_paired_difference_covers_the_truth_as_often_as_it_says(chances: tuple[float, ...]) -> None:
    rows, random_ = 400, np.random.default_rng(3)
    truth = chances[2] - chances[1]
    drawn = random_.multinomial(rows, chances, size=4000)
    covered = sum(found.low <= truth <= found.high for found in (difference(Pairs(*map(int, counts))) for counts in drawn))
    assert 0.935 <= covered / len(drawn) <= 0.985


def test_a_difference_lies_in_its_interval_and_turns_round_with_its_sides() -> None:
    for both, first, second, neither in product((0, 1, 5), repeat=4):
        if both + first + second + neither == 0:
            continue
        found, turned = difference(Pairs(both, first, second, neither)), difference(Pairs(both, second, first, neither))
        assert found.value is not None
        assert turned.value is not None
        assert found.low <= found.value <= found.high
        assert math.isclose(found.low, -turned.high, abs_tol=1e-12)
        assert found.low >= -1.0
        assert found.high <= 1.0


def test_a_mean_has_the_interval_of_the_normal_law() -> None:
    values = [0.1, 0.4, 0.2, 0.3]
    found = mean_interval(values)
    half = Z * np.std(values, ddof=1) / 2
    assert found.value is not None
    assert math.isclose(found.value, 0.25)
    assert math.isclose(found.high - found.value, half)


def trial(count: int = 2000, seed: int = 11) -> tuple[Trial, dict[str, object]]:
    """Outcomes that depend on what segments are made of, and the truth of some."""
    dice = random.Random(seed)
    made = Trial("card", "m sha256:1", ["pass", "review", "reject"], ["reject"], ("country", "amount"))
    truths: dict[str, object] = {}
    for place in range(count):
        country, amount = dice.choice(["DE", "FR", None]), dice.expovariate(0.01)
        was_score, now_score = dice.random(), dice.random()
        was = "pass" if was_score < 0.4 else "review" if was_score < 0.9 else "reject"
        now = was if dice.random() < 0.8 else dice.choice(["pass", "reject"])
        scored = dice.random() < 0.9
        made.pairs.append(Pair(str(place), was, now, was_score if scored else None, now_score, (country, amount)))
        if dice.random() < 0.5:
            truths[str(place)] = dice.choice(["fraud", "good"])
    return made, truths


def frame(made: Trial, truths: dict[str, object]) -> pd.DataFrame:
    rows = [
        {"was": one.was, "now": one.now, "was_score": one.was_score, "now_score": one.now_score, "truth": truths.get(one.id)}
        | dict(zip(made.fields, one.segment, strict=True))
        for one in made.pairs
    ]
    return pd.DataFrame(rows)


def test_flips_are_those_of_a_crosstab() -> None:
    made, truths = trial()
    table, found = frame(made, truths), figures(made, truths)
    cross = pd.crosstab(table.was, table.now).reindex(index=made.outcomes, columns=made.outcomes, fill_value=0)
    assert pd.DataFrame(found.matrix).T.equals(cross.rename_axis(index=None, columns=None))
    assert found.flips.value == (table.was != table.now).mean()
    for share in found.shares:
        assert share.was.value == (table.was == share.outcome).mean()
        assert share.now.value == (table.now == share.outcome).mean()
        moved = (table.now == share.outcome).mean() - (table.was == share.outcome).mean()
        assert share.difference.value is not None
        assert math.isclose(share.difference.value, moved, abs_tol=1e-12)


def test_segments_are_those_of_groups_with_numbers_cut_at_quartiles() -> None:
    made, truths = trial()
    table = frame(made, truths)
    table["bin"] = pd.qcut(table.amount, 4, labels=False)
    groups = table.assign(flip=table.was != table.now, country=table.country.fillna("missing")).groupby(["country", "bin"])
    expected = sorted((len(part), int(part.flip.sum())) for _, part in groups)
    found = figures(made, truths).segments
    assert sorted((one.rows, round((one.flips.value or 0) * one.rows)) for one in found) == expected
    assert {one.values[0] for one in found} == {"DE", "FR", "missing"}


def test_many_segments_are_shown_as_the_largest_and_the_rest() -> None:
    made = Trial("card", "m", ["pass"], [], ("id",))
    made.pairs = [Pair(str(place), "pass", "pass", None, None, (f"c{place}",)) for place in range(120)]
    segments = figures(made, {}).segments
    assert len(segments) == 51
    assert (segments[-1].values, segments[-1].rows) == (("all others",), 70)


def test_the_shift_of_scores_is_that_of_the_differences() -> None:
    made, truths = trial()
    table = frame(made, truths).dropna(subset=["was_score"])
    moved = table.now_score - table.was_score
    shift = figures(made, truths).shift
    assert shift is not None
    assert shift.rows == len(table)
    assert math.isclose(shift.mean.value or 0, moved.mean(), abs_tol=1e-12)
    assert math.isclose(shift.quantiles["p50"], moved.median())
    assert shift.largest == moved.abs().max()
    grid = np.concatenate([table.was_score, table.now_score])
    gaps = [abs((table.was_score <= at).mean() - (table.now_score <= at).mean()) for at in grid]
    assert math.isclose(shift.distance, max(gaps))


def test_equal_scores_do_not_shift() -> None:
    made = Trial("card", "m", ["pass"], [], ())
    made.pairs = [Pair(str(place), "pass", "pass", place / 50, place / 50, ()) for place in range(50)]
    shift = figures(made, {}).shift
    assert shift is not None
    assert (shift.psi, shift.distance, shift.largest) == (0.0, 0.0, 0.0)


def test_errors_are_counted_where_the_truth_is_known() -> None:
    made, truths = trial()
    table = frame(made, truths).dropna(subset=["truth"])
    found = {one.name: one for one in figures(made, truths, bad=["fraud"]).errors}
    bad, good = table[table.truth == "fraud"], table[table.truth == "good"]
    assert found["missed"].rows == len(bad)
    assert found["missed"].was.value == (bad.was != "reject").mean()
    assert found["missed"].now.value == (bad.now != "reject").mean()
    assert found["wrongly stopped"].was.value == (good.was == "reject").mean()
    assert found["wrong"].rows == len(table)


def test_truths_that_nobody_called_bad_are_not_guessed() -> None:
    pairs = [Pair("a", "pass", "reject", None, None, ()), Pair("b", "pass", "pass", None, None, ())]
    assert errors(pairs, {"a": "fraud", "b": "good"}, [], ["reject"]) == []
    told = errors(pairs, {"a": True, "b": 0}, [], ["reject"])
    assert [(one.name, one.was.value, one.now.value) for one in told] == [
        ("missed", 1.0, 0.0), ("wrongly stopped", 0.0, 0.0), ("wrong", 0.5, 0.0),
    ]  # fmt: skip
