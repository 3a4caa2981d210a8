"""Claims that could not fail once: made-up raw values for each that must fall short, or prove nothing, beside good ones."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest

from bench.claims.claim import OK, SHORT, UNMEASURED, judge
from bench.claims.tails.bursts import BURST_S

if TYPE_CHECKING:
    from bench.claims.claim import Suite

Json = dict[str, Any]


def suite(name: str) -> Suite:
    made: Suite = importlib.import_module(f"bench.claims.{name}.suite").SUITE
    return made


def verdict(where: str, kept: Json) -> tuple[str, str]:
    """Kind and reason of `suite.topic.claim` from these values."""
    name, topic, claim = where.split(".")
    (found,) = (one for one in suite(name).topic(topic).claims if one.name == claim)
    judged = judge(found, kept)
    assert judged.computed, judged.reason
    return judged.kind, judged.reason


def side(*values: Any) -> Json:
    return {"values": list(values), "discarded": []}


def load(**changes: Any) -> Json:
    """A window as records keep it: 13,000 due in 10 s, all answered in time."""
    return {
        "sent": 13_000,
        "answered": 13_000,
        "refused": 0,
        "failed": 0,
        "mismatched": 0,
        "past_deadline": 0,
        "errors": [],
        "offered_per_s": 1_300.0,
        "elapsed_s": 10.0,
        "bottleneck": None,
        "generator": {"waited_share": 0.0},
        "latency_us": {"p50": 100.0, "p99": 200.0},
        **changes,
    }


def unsent(count: int) -> Json:
    return {"errors": [{"reason": "no connection was free in time", "count": count}]}


# Overload.


def minute(lines: list[Json] | None = None, **changes: Any) -> Json:
    kept = {"capacity_per_s": 1_000.0, "lasts_s": 2.0, "curves": {"flyballd": {"points": []}}}
    line = {"start_s": 0.0, "offered": 2_000, "in_time": 950, "late": 0, "refused": 1_050, "failed": 0}
    return {**kept, "minute": {"minute": side(load(**changes))}, "minute_by_second": lines or [line]}


def test_requests_that_fail_under_overload_are_not_accepted_ones() -> None:
    assert verdict("tails.overload.every-second", minute())[0] == OK
    failing = {"start_s": 0.0, "offered": 2_000, "in_time": 500, "late": 0, "refused": 1_050, "failed": 450}
    assert verdict("tails.overload.every-second", minute([failing]))[0] == SHORT


@pytest.mark.parametrize(
    ("changes", "kind", "reason"),
    [
        ({}, OK, ""),
        ({"failed": 1, "errors": [{"reason": "http 500", "count": 1}]}, SHORT, ""),
        ({"mismatched": 1}, SHORT, ""),
        ({"failed": 100, **unsent(100)}, OK, ""),
        ({"failed": 200, **unsent(200)}, SHORT, "the generator did not send 200"),
    ],
)
def test_a_request_that_fails_under_overload_is_counted_as_failed(changes: Json, kind: str, reason: str) -> None:
    assert verdict("tails.overload.failed", minute(**changes)) == (kind, reason)


# The GBDT beyond its capacity of 1,000/s: 3,000 of the 13,000 requests are excess.

REFUSES = {"answered": 8_000, "refused": 3_000, "failed": 2_000, **unsent(2_000)}


def beyond(over: float = 1.3, **changes: Any) -> Json:
    windows = side(*[load(offered_per_s=over * 1_000, **changes)] * 3)
    return {"gbdt, beyond capacity": {"closed": side(1_000.0, 1_000.0, 1_000.0), f"{over:g} times": windows}}


@pytest.mark.parametrize(
    ("claim", "changes", "kind"),
    [
        ("gbdt-refused", REFUSES, OK),
        # The generator held the excess back: the server refused nothing.
        ("gbdt-refused", {"answered": 10_000, "failed": 3_000, **unsent(3_000)}, SHORT),
        ("gbdt-refused", {"answered": 10_000, "refused": 1_400, "failed": 1_600, **unsent(1_600)}, SHORT),
        ("gbdt-beyond", REFUSES, OK),
        ("gbdt-beyond", {"answered": 6_900, "refused": 6_100}, SHORT),
        ("gbdt-beyond", {"answered": 8_000, "refused": 5_000, "past_deadline": 1_100}, SHORT),
        ("gbdt-beyond", {**REFUSES, "bottleneck": "the generator's core"}, UNMEASURED),
    ],
)
def test_beyond_capacity_the_server_refuses_and_goes_on_answering(claim: str, changes: Json, kind: str) -> None:
    assert verdict(f"tails.overload.{claim}", beyond(**changes))[0] == kind


def test_at_twice_its_capacity_the_gbdt_goes_on_answering() -> None:
    assert verdict("tails.overload.gbdt-twice", beyond(2.0, answered=6_000, refused=7_000))[0] == OK
    assert verdict("tails.overload.gbdt-twice", beyond(2.0, answered=4_000, refused=9_000))[0] == SHORT


def test_a_load_that_is_no_overload_proves_nothing() -> None:
    kept = beyond(**REFUSES)
    kept["gbdt, beyond capacity"]["closed"] = side(1_250.0, 1_250.0, 1_250.0)
    kind, reason = verdict("tails.overload.gbdt-beyond", kept)
    assert (kind, "1.04 times capacity were offered instead of 1.3" in reason) == (UNMEASURED, True)


def test_what_the_generator_did_not_send_stands_beside_the_goodput() -> None:
    (claim,) = (one for one in suite("tails").topic("overload").claims if one.name == "gbdt-beyond")
    assert "15% of the requests were not sent" in judge(claim, beyond(**REFUSES)).figure


@pytest.mark.parametrize(("refusal_us", "kind"), [(11.0, OK), (11.1, SHORT)])
def test_a_refusal_costs_no_more_than_11_us_whatever_an_answer_costs(refusal_us: float, kind: str) -> None:
    windows = {"refusal": side(*[refusal_us] * 3), "answer": side(100.0, 100.0, 100.0)}
    assert verdict("tails.overload.refusal-cost", {"gbdt, cpu_us of one": windows})[0] == kind


# Bursts.


def bursts(offered: int, in_time: int = 180, waited_share: float = 0.0, **changes: Any) -> Json:
    """One burst a window, at a capacity of 1,000/s."""
    quiet = {"start_s": BURST_S, "offered": 60, "in_time": 60, "late": 0, "refused": 0, "failed": 0}
    burst = {**quiet, "start_s": 0.0, "offered": offered, "in_time": in_time}
    window = load(sent=offered + 60, generator={"waited_share": waited_share}, **changes)
    return {"capacity_per_s": 1_000.0, "windows": {"bursts": side(*[window] * 3)}, "time_lines": [[burst, quiet]] * 3}


@pytest.mark.parametrize(
    ("claim", "kept", "kind"),
    [
        ("offered", bursts(2_000), OK),
        ("offered", bursts(600), SHORT),  # three times capacity
        ("offered", bursts(2_000, waited_share=0.1), SHORT),  # the generator held a part of it back
        ("accepted", bursts(2_000), OK),
        ("accepted", bursts(2_000, in_time=150), SHORT),
        ("failed", bursts(2_000), OK),
        ("failed", bursts(2_000, failed=1), SHORT),
    ],
)
def test_bursts_offer_ten_times_capacity(claim: str, kept: Json, kind: str) -> None:
    assert verdict(f"tails.bursts.{claim}", kept)[0] == kind


# Clients that behave badly.


def crowd(name: str, per_s: float, connections: int = 500) -> Json:
    told = {"connections": connections, "open": connections, "ended": 0, "sent": per_s * 10, "resets": per_s * 10}
    windows = {"alone": side(load(), load(), load()), name: side(load(), load(), load())}
    return {"windows": windows, "crowds": {name: [{**told, "lasted_s": 10.0}] * 3}}


@pytest.mark.parametrize(
    ("claim", "kept", "kind"),
    [
        ("resets", crowd("resets", 10_000, 10), OK),
        ("resets", crowd("resets", 5_000, 10), UNMEASURED),
        ("slow-heads", crowd("slow-heads", 500), OK),
        ("slow-heads", crowd("slow-heads", 400), UNMEASURED),
        ("slow-bodies", crowd("slow-bodies", 500, 300), UNMEASURED),
        ("idle", crowd("idle", 0, 10_000), OK),
        ("idle", crowd("idle", 0, 9_000), UNMEASURED),
    ],
)
def test_a_crowd_that_was_not_as_bad_as_promised_proves_nothing(claim: str, kept: Json, kind: str) -> None:
    assert verdict(f"protocol.beside.{claim}", kept)[0] == kind


def test_one_window_with_half_of_the_resets_is_enough_to_prove_nothing() -> None:
    kept = crowd("resets", 10_000, 10)
    kept["crowds"]["resets"][1] = {**kept["crowds"]["resets"][1], "resets": 50_000}
    kind, reason = verdict("protocol.beside.resets", kept)
    assert (kind, "at least 5,000/s of 10,000/s were sent" in reason) == (UNMEASURED, True)


# Kills.


def crashed(**changes: Any) -> Json:
    found = {
        "cycles": 10,
        "acknowledged": {"pay-sync": 100, "pay-buffered": 100},
        "lost_buffered": 5,
        "oldest_lost_s": 0.15,
        "window_s": 2.0,
        "outlived": 1,
        "wiped_bytes": 9_000,
        "wrong": [],
        "started_s": [0.1] * 11,
        "recovered": 3,
    }
    return {"found": {**found, **changes}}


@pytest.mark.parametrize(
    ("claim", "changes", "kind", "reason"),
    [
        ("sync", {}, OK, ""),
        ("sync", {"wrong": ["cycle 3: a decision was acknowledged 0.010 s before the kill"]}, SHORT, "acknowledged"),
        ("sync", {"wiped_bytes": 0}, SHORT, "no power loss took anything"),
        ("buffered", {}, OK, ""),
        ("buffered", {"oldest_lost_s": 2.1}, SHORT, ""),
        ("buffered", {"outlived": 0}, SHORT, "no server lived longer than the window"),
        ("starts", {"started_s": [0.1] * 10}, SHORT, ""),
    ],
)
@pytest.mark.parametrize("topic", ["journal.crash", "hardening.kills"])
def test_kills_show_a_missing_fdatasync(topic: str, claim: str, changes: Json, kind: str, reason: str) -> None:
    found = verdict(f"{topic}.{claim}", crashed(**changes))
    assert found[0] == kind
    assert reason in found[1]


# Intervals, best-of-three, sums, sizes of a corpus.


def latencies(*p50_us: float) -> Json:
    return side(*[{"result": load(latency_us={"p50": one})} for one in p50_us])


@pytest.mark.parametrize(
    ("with_", "kind"),
    [
        ((101.0, 102.0, 101.0, 102.0, 101.0), OK),
        ((105.0, 106.0, 105.0, 106.0, 105.0), SHORT),
        ((60.0, 160.0, 90.0, 140.0, 100.0), UNMEASURED),  # 1 is in the interval, as is nearly anything
    ],
)
def test_an_added_p50_needs_a_narrow_interval(with_: tuple[float, ...], kind: str) -> None:
    kept = {"windows": {"off": latencies(*[100.0] * 5), "buffered": latencies(*with_)}}
    assert verdict("journal.path.p50", kept)[0] == kind


@pytest.mark.parametrize(
    ("claim", "one", "kind"),
    [
        ("flyballd", {"shown": False, "p50": "no difference shown", "width": 0.05}, OK),
        ("flyballd", {"shown": False, "p50": "no difference shown", "width": 0.5}, SHORT),
        ("known", {"shown": True, "p50": "slower", "width": 0.05}, SHORT),
        ("slower", {"shown": True, "p50": "slower", "width": 0.05}, OK),
        ("slower", {"shown": True, "p50": "faster", "width": 0.05}, SHORT),
    ],
)
def test_no_difference_is_shown_only_where_one_would_have_been_seen(claim: str, one: Json, kind: str) -> None:
    assert verdict(f"bench.comparisons.{claim}", {claim: [one] * 10})[0] == kind


@pytest.mark.parametrize(
    ("rates", "failed", "kind"),
    [((52e3, 51e3, 48e3), 0, OK), ((60e3, 48e3, 49e3), 0, SHORT), ((52e3, 51e3, 53e3), 1, SHORT)],
)
def test_the_generator_s_rate_is_the_median_of_its_windows(rates: tuple[float, ...], failed: int, kind: str) -> None:
    kept = {"closed": [load(rate_per_s=rate, failed=failed) for rate in rates]}
    assert verdict("bench.overhead.closed", kept)[0] == kind


@pytest.mark.parametrize(("answered", "kind"), [(13_000, OK), (12_999, SHORT)])
def test_a_request_that_the_generator_loses_is_lost(answered: int, kind: str) -> None:
    window = load(answered=answered, refused=13_000 - answered, rate_per_s=49_900.0)
    assert verdict("bench.overhead.open", {"open": window})[0] == kind


@pytest.mark.parametrize(("own_us", "kind"), [(24.0, OK), (26.0, SHORT)])
def test_a_decision_s_own_time_is_a_mean_and_no_sum_of_medians(own_us: float, kind: str) -> None:
    window = {"p50_us": {"parse": 1.0, "infer": 9.0}, "own_us": own_us, "whole_p50_us": 30.0}
    assert verdict("decisions.stages.own", {"windows": {"flyballd": side(window, window, window)}})[0] == kind


@pytest.mark.parametrize(
    ("tampered", "passed", "reason"),
    [(40, 50, None), (40, 45, "45 tests passed, fewer than there are cases"), (20, 50, "less than 30 tampered cases")],
)
def test_every_case_of_the_signing_corpus_was_a_test(tampered: int, passed: int, reason: str | None) -> None:
    run = {"passed": passed, "failed": 0, "skipped": 0, "exit": 0, "why_skipped": "", "end": ""}
    kept = {"corpus": {"tampered": tampered, "reasons": 30, "sound": 10}, "corpus-python": run}
    kind, told = verdict("registry.signing.corpus-python", kept)
    assert (kind, (reason or "") in told) == (SHORT if reason else OK, True)


@pytest.mark.parametrize(("beside_us", "kind"), [(390.0, OK), (3_900.0, SHORT)])
def test_a_neighbour_s_p99_is_not_excused_by_a_scheduler_tick(beside_us: float, kind: str) -> None:
    alone, beside = (load(latency_us={"p50": 100.0, "p99": p99}) for p99 in (200.0, beside_us))
    windows = {"alone": side(alone, alone, alone), "beside the CNN": side(beside, beside, beside)}
    assert verdict("tails.neighbour.p99", {"windows": windows})[0] == kind


# Rivals.


def rates(ours: float, **rivals: float) -> Json:
    """A closed loop of three windows a side, in every place where a suite keeps one."""
    sides = {"flyballd": side(ours, ours, ours), **{name: side(rate, rate, rate) for name, rate in rivals.items()}}
    told = {name: {"version": "2.51.0", "setting": "batches up to 8", "tried_per_s": {}} for name in rivals}
    places = ("mlp, apart, per_s", "fraud, apart, per_s", "grpc, per_s", "throughput_per_s")
    return {**dict.fromkeys(places, sides), **dict.fromkeys(("mlp, rivals", "fraud, rivals", "rivals"), told)}


@pytest.mark.parametrize(
    ("where", "rivals", "least"),
    [
        ("skeleton.throughput.over-fastapi", {"FastAPI": 1_000.0}, 18_000.0),
        ("tails.throughput.fraud-over-fastapi", {"FastAPI": 1_000.0}, 18_000.0),
        ("tails.throughput.mlp-over-fastapi", {"FastAPI": 1_000.0}, 8_000.0),
        ("tails.throughput.fraud-over-asgi", {"bare ASGI app": 1_000.0}, 3_500.0),
        ("tails.throughput.mlp-over-asgi", {"bare ASGI app": 1_000.0}, 1_500.0),
        ("tails.throughput.fraud-over-triton", {"Triton": 1_000.0}, 2_000.0),
        # The faster of the two compilers counts, whichever it is.
        ("tails.throughput.fraud-over-trees", {"lleaves": 1_000.0, "TL2cgen": 10.0}, 3_000.0),
        ("tails.throughput.fraud-over-trees", {"lleaves": 10.0, "TL2cgen": 1_000.0}, 3_000.0),
        ("protocol.rates.over-triton", {"Triton": 1_000.0}, 2_000.0),
        ("protocol.rates.over-mlserver", {"MLServer": 1_000.0}, 15_000.0),
    ],
)
def test_a_rate_below_its_multiple_of_a_rival_s_falls_short(where: str, rivals: dict[str, float], least: float) -> None:
    assert verdict(where, rates(least, **rivals))[0] == OK
    assert verdict(where, rates(0.99 * least, **rivals))[0] == SHORT


def test_the_version_and_the_setting_of_a_rival_stand_beside_the_ratio() -> None:
    (claim,) = (one for one in suite("tails").topic("throughput").claims if one.name == "fraud-over-triton")
    shown = judge(claim, rates(2_000.0, Triton=1_000.0)).figure
    assert shown == "2 times (2,000/s, Triton 1,000/s; Triton 2.51.0, batches up to 8)"


# One bar for one ratio.

SAME = [
    ("skeleton.throughput.over-fastapi", "tails.throughput.fraud-over-fastapi"),
    ("skeleton.lanes.apart", "tails.cores.lanes"),
    ("tails.neighbour.p50", "protocol.beside.idle", "protocol.beside.resets", "hardening.models.p50"),
    ("decisions.contributions.contributions", "convert.equal.LightGBM-contributions"),
]


@pytest.mark.parametrize("places", SAME, ids=lambda places: places[0])
def test_a_ratio_that_two_suites_measure_has_one_bar(places: tuple[str, ...]) -> None:
    bars = {}
    for place in places:
        name, topic, claim = place.split(".")
        bars[place] = next(one.bar.text for one in suite(name).topic(topic).claims if one.name == claim)
    assert len(set(bars.values())) == 1, bars
