"""The phases of a scenario on a pretended server: which windows are taken, which are taken again, and what is kept."""

import numpy as np
import pytest

from flyball.bench.measure import Measurement, ServerGoneError, Subject
from flyball.bench.phases import Phases, arrivals_at, threads_on
from flyball.bench.record import BenchRecord
from flyball.bench.scenario import Scenario
from tests.support.bench_records import record, scenario
from tests.support.bench_windows import window as made_window

LIMIT = 8000.0


class Pretended(Measurement):
    """Instead of a load: a server that keeps 5 ms up to `LIMIT`, unless the script says otherwise for a window."""

    def __init__(self, folder, wanted, script=None):
        super().__init__(record(scenario=wanted.model_dump()), folder / "record.json", b"")
        self._script = script or {}
        self._random = np.random.default_rng(1)

    def window(self, subject, phase, plan, *, repeat=0, progress=None):
        rate = plan.arrivals.rate_per_s or 1.5 * LIMIT
        blocks = np.split(self._random.lognormal(0, 0.2, 1000) * (300 if rate <= LIMIT else 30_000), 20)
        changes = self._script.get(len(self.record.windows), {})
        if changes.get("gone"):
            raise ServerGoneError("the server stopped answering")
        made = made_window(blocks, subject=subject.name, elapsed_s=1000 / rate, **changes)
        made = made.model_copy(update={"phase": phase, "plan": plan, "repeat": repeat})
        self.keep(windows=[*self.record.windows, made])
        return made


class Silent:
    def begin(self, name, total):
        return self

    def update(self, completed, told):
        pass

    def end(self, told):
        self.told = told


def phases(folder, script=None, **parts):
    wanted = Scenario.model_validate(scenario(search={"repeats": 2, "precision": 0.2}, **parts))
    pretended = Pretended(folder, wanted, script)
    return Phases(wanted, pretended, Subject("s", "http://h"), [0], Silent()), pretended


def test_a_search_brackets_the_limit_and_keeps_every_bisection(tmp_path):
    search, pretended = phases(tmp_path)
    search.search()
    (kept,) = pretended.record.rates_kept
    assert len(kept.estimates_per_s) == 2
    assert all(rate <= LIMIT < broken for rate, broken in zip(kept.estimates_per_s, kept.broken_per_s, strict=True))
    assert kept.estimates_per_s[0] != kept.estimates_per_s[1], "the second starts elsewhere"
    assert kept.low_per_s < kept.rate_per_s < kept.high_per_s
    assert BenchRecord.read(pretended.path).rates_kept == [kept]


def test_a_rate_counts_as_kept_only_after_two_windows_with_other_arrivals(tmp_path):
    search, pretended = phases(tmp_path)
    search.search(repeats=1)
    by_rate = {}
    for one in pretended.record.windows[1:]:
        by_rate.setdefault(one.plan.arrivals.rate_per_s, []).append(one.plan.arrivals.seed)
    assert all(len(seeds) >= 2 for rate, seeds in by_rate.items() if rate <= LIMIT)
    seeds = [seed for found in by_rate.values() for seed in found]
    assert len(set(seeds)) == len(seeds)


def test_windows_that_the_host_disturbed_are_taken_again(tmp_path):
    search, pretended = phases(tmp_path, script={1: {"steal_share": 0.5}, 2: {"steal_share": 0.5}})
    search.search(repeats=1)
    rates = [one.plan.arrivals.rate_per_s for one in pretended.record.windows[1:5]]
    assert len(set(rates)) == 1
    assert pretended.record.rates_kept[0].rate_per_s <= LIMIT


def test_where_the_generator_is_the_limit_the_rate_is_told_as_a_least(tmp_path):
    search, pretended = phases(tmp_path, script={place: {"bottleneck": "busy"} for place in range(3, 60)})
    search.search(repeats=1)
    (kept,) = pretended.record.rates_kept
    assert kept.note == "the generator was saturated above it"
    assert kept.rate_per_s <= LIMIT
    assert kept.high_per_s is None


def test_a_server_that_dies_in_the_second_bisection_leaves_the_first(tmp_path):
    search, pretended = phases(tmp_path)
    search.search(repeats=1)
    first = pretended.record.rates_kept
    pretended._script = {len(pretended.record.windows) + 2: {"gone": True}}
    with pytest.raises(ServerGoneError):
        search.search(repeats=1)
    assert BenchRecord.read(pretended.path).rates_kept == first


def test_steady_windows_are_numbered_and_have_arrivals_of_their_own(tmp_path):
    steady, pretended = phases(tmp_path)
    steady.steady(repeats=2, first_repeat=5)
    assert [one.repeat for one in pretended.record.windows] == [5, 6]
    assert len({one.plan.arrivals.seed for one in pretended.record.windows}) == 2


def test_a_curve_is_drawn_in_shares_of_the_rate_that_was_kept(tmp_path):
    curve, pretended = phases(tmp_path, curve={"shares": [0.5, 1.5]})
    curve.curve()
    assert pretended.record.windows == [], "without a search there is nothing to take shares of"
    curve.search(repeats=1)
    before = len(pretended.record.windows)
    curve.curve()
    rate = pretended.record.rates_kept[0].rate_per_s
    rates = [one.plan.arrivals.rate_per_s for one in pretended.record.windows[before:]]
    assert rates == [0.5 * rate, 1.5 * rate]


def test_a_sweep_of_connections_is_a_closed_loop_at_each(tmp_path):
    sweep, pretended = phases(tmp_path, concurrency={"connections": [1, 4]})
    sweep.concurrency()
    assert [(one.plan.connections, one.plan.arrivals.kind) for one in pretended.record.windows] == [
        (1, "closed"),
        (4, "closed"),
    ]


@pytest.mark.parametrize(
    ("arrivals", "wanted"),
    [
        ({"kind": "constant"}, {"kind": "constant", "rate_per_s": 100.0}),
        ({"kind": "poisson"}, {"kind": "poisson", "rate_per_s": 100.0, "seed": 9}),
        ({"kind": "ramp"}, {"kind": "ramp", "from_per_s": 10.0, "to_per_s": 100.0}),
        (
            {"kind": "burst", "burst": {"times": 3, "burst_s": 0.1, "every_s": 1}},
            {"kind": "burst", "rate_per_s": 100.0, "burst_per_s": 300.0, "burst_s": 0.1, "every_s": 1.0},
        ),
    ],
)
def test_each_kind_of_arrivals_has_its_own_numbers_at_a_rate(arrivals, wanted):
    found = arrivals_at(Scenario.model_validate(scenario(arrivals=arrivals)), 100.0, seed=9)
    assert found.model_dump() == wanted


@pytest.mark.parametrize(
    ("cpus", "connections", "threads"), [(None, 32, 1), ([1], 32, 1), (list(range(16)), 32, 8), ([1, 2], 1, 1)]
)
def test_a_generator_has_a_thread_for_each_of_its_cores_within_limits(cpus, connections, threads):
    assert threads_on(cpus, connections) == threads
