"""Two records held together: only the same load is compared, and what else differs is told."""

from pathlib import Path

import numpy as np
import pytest

from flyball.bench.compare import compare_records
from flyball.errors import UsageError
from tests.support.bench_records import record
from tests.support.bench_windows import window

A, B = Path("a.json"), Path("b.json")
PLAN = {"arrivals": {"kind": "poisson", "rate_per_s": 1000.0, "seed": 1}}


def windows(count=6, *, median_us=200.0, seed=0, plan=None, **changes):
    """Windows that are enough for a comparison, under one plan."""
    drawn = np.random.default_rng(seed)
    found = [window([median_us * drawn.lognormal(0.0, 0.1, 200)], raw=False, **changes) for _ in range(count)]
    given = found[0].plan.model_validate({**found[0].plan.model_dump(), **PLAN, **(plan or {})})
    return [each.model_copy(update={"plan": given}) for each in found]


def compared(a, b, subject=None):
    return compare_records((A, a), (B, b), subject)


def changed(found, part, **changes):
    return found.model_copy(update={part: getattr(found, part).model_copy(update=changes)})


def test_records_of_the_same_make_have_one_caveat_only():
    comparison, caveats = compared(record(windows()), record(windows(seed=1)))
    assert comparison.windows == 6
    assert caveats == ["measured at different times: the intervals do not cover changes of the machine in between"]


def test_a_difference_between_records_is_shown():
    assert compared(record(windows()), record(windows(median_us=300.0)))[0].shown


@pytest.mark.parametrize(
    "plan",
    [
        {"url": "http://elsewhere:9"},
        {"cpus": [1]},
        {"path": "/predict"},
        {"interval_s": 0.5},
        {"arrivals": {**PLAN["arrivals"], "seed": 2}},
    ],
    ids=lambda plan: next(iter(plan)),
)
def test_where_a_load_comes_from_and_goes_to_may_differ(plan):
    _, caveats = compared(record(windows()), record(windows(plan=plan)))
    assert len(caveats) == 1


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ({"protocol": "grpc"}, "protocol is http and grpc"),
        ({"connections": 8}, "connections is 16 and 8"),
        ({"threads": 2}, "threads is 1 and 2"),
        ({"duration_s": 2.0}, "duration_s is 5.0 and 2.0"),
        ({"timeout_ms": 50}, "timeout_ms is 1000 and 50"),
        ({"deadline_ms": 20}, "deadline_ms is none and 20"),
        ({"warmup": {"least_s": 1.0, "most_s": 9.0}}, "warmup.most_s is 1.0 and 9.0"),
        ({"arrivals": {**PLAN["arrivals"], "rate_per_s": 900.0}}, "arrivals.rate_per_s is 1000.0 and 900.0"),
        (
            {"arrivals": {"kind": "closed"}, "streams": 2},
            "streams is 1 and 2, arrivals.kind is poisson and closed, arrivals.rate_per_s is 1000.0 and none",
        ),
    ],
)
def test_another_load_is_refused_with_all_that_differs(plan, told):
    with pytest.raises(UsageError) as caught:
        compared(record(windows()), record(windows(plan=plan)))
    assert caught.value.message == f"the records were measured under different loads: {told}"


@pytest.mark.parametrize(
    ("part", "changes", "told"),
    [
        ("machine", {"cpu_model": "Real CPU"}, "different machine: Imaginary CPU @ 3.1 GHz and Real CPU"),
        ("machine", {"server_cpus": [0]}, "different number of server cores: 2 and 1"),
        ("machine", {"server_cpus": None}, "different number of server cores: 2 and none"),
        ("machine", {"governor": "powersave"}, "different frequency governor: performance and powersave"),
        ("machine", {"cgroup_cpu_quota": None}, "different cgroup quota: 2.0 and none"),
        ("machine", {"kernel": "Linux 6.9.0"}, "different kernel: Linux 6.8.0 and Linux 6.9.0"),
        ("model", {"digest": "sha256:0"}, "different model: sha256:3f9c and sha256:0"),
        ("payloads", {"digest": "sha256:0"}, "different set of payloads: sha256:77aa and sha256:0"),
        ("software", {"ort_version": "1.31.0"}, "different ONNX Runtime: 1.30.0 and 1.31.0"),
        ("software", {"commit": "f"}, "different flyball: 0123456789abcdef and f"),
    ],
)
def test_what_else_differs_is_told(part, changes, told):
    _, caveats = compared(record(windows()), changed(record(windows()), part, **changes))
    assert caveats[1:] == [told]


def test_other_cores_of_the_same_number_are_no_caveat():
    _, caveats = compared(record(windows()), changed(record(windows()), "machine", server_cpus=[2, 3]))
    assert len(caveats) == 1


def test_a_model_under_another_name_is_told():
    _, caveats = compared(record(windows()), record(windows(plan={"model": "n"})))
    assert caveats[1:] == ["different model name: m and n"]


def test_a_partial_record_is_told():
    partial = record(windows(), status="partial", partial_reason="interrupted")
    assert compared(partial, record(windows()))[1][1:] == ["a.json is partial: interrupted"]
    assert compared(record(windows()), partial)[1][1:] == ["b.json is partial: interrupted"]


def test_windows_that_ended_early_are_left_out_and_counted():
    cut = windows(2, median_us=90_000.0, ended_early="stopped")
    comparison, caveats = compared(record([*windows(5), *cut]), record(windows(5)))
    assert comparison.windows == 5
    assert caveats[1:] == ["a.json: skipped 2 of 7 windows, which ended early"]
    assert max(figure.a for figure in comparison.figures) < 1000.0


def test_windows_that_ended_early_do_not_count_as_enough():
    with pytest.raises(UsageError, match="needs 5 windows per side, found 4"):
        compared(record([*windows(4), *windows(1, ended_early="stopped")]), record(windows()))


def test_of_several_subjects_one_must_be_named():
    both = record([*windows(subject="x"), *windows(subject="y")], subjects=("x", "y"))
    with pytest.raises(UsageError, match=r"a\.json measured x, y"):
        compared(both, both)
    assert compared(both, both, "y")[0].windows == 6


@pytest.mark.parametrize("subjects", [("flyball",), ()])
def test_a_record_without_repeated_windows_is_refused(subjects):
    with pytest.raises(UsageError, match=r"b\.json has no repeated windows"):
        compared(record(windows()), record([], subjects=subjects))
