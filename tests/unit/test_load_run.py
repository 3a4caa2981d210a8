"""The load generator through the boundary: plans that cross, results that add up, histograms that come back."""

import json
from itertools import groupby

import pytest
from hdrh.histogram import HdrHistogram

from flyball.errors import RefusedError
from flyball.native.load import Echo, LoadRun, read_histograms
from flyball.native.load_documents import Arrivals, EchoOptions, LoadPlan, LoadResult, Warmup

ROW = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [0.5, 1.5]}], "outputs": None}
PAYLOADS = json.dumps(ROW).encode()
NO_WARMUP = Warmup(least_s=0.0, most_s=0.0)


@pytest.fixture(scope="module")
def echo():
    server = Echo()
    yield server
    server.stop()


def load(url, **changes):
    plan = LoadPlan(url=url, model="m", connections=4, duration_s=0.3, warmup=NO_WARMUP).model_copy(update=changes)
    return LoadRun(plan, PAYLOADS).result()


@pytest.mark.parametrize(
    ("arrivals", "sent"),
    [
        (Arrivals(kind="constant", rate_per_s=500), 150),
        (Arrivals(kind="poisson", rate_per_s=500, seed=3), None),
        (Arrivals(kind="burst", rate_per_s=100, burst_per_s=1000, burst_s=0.05, every_s=0.15), 120),
        (Arrivals(kind="ramp", from_per_s=100, to_per_s=900), 150),
        (Arrivals(kind="trace", offsets_s=[0.0, 0.1, 0.1, 0.2]), 4),
        (Arrivals(), None),
    ],
    ids=lambda value: value.kind if isinstance(value, Arrivals) else "",
)
def test_every_kind_of_arrivals_is_sent_and_counted(echo, arrivals, sent):
    result = load(echo.url(), arrivals=arrivals)
    assert result.sent == result.answered == sum(interval.sent for interval in result.timeline)
    assert result.sent == sent or (sent is None and result.sent > 0)
    assert result.first_problem is None
    assert result.ended_early is None
    assert read_histograms([result.histogram]).count == result.sent
    assert read_histograms([interval.histogram for interval in result.timeline]).count == result.sent


def test_another_implementation_of_hdrhistogram_reads_our_histograms(echo):
    result = load(echo.url(), arrivals=Arrivals(kind="constant", rate_per_s=500))
    foreign = HdrHistogram.decode(result.histogram)
    assert foreign.get_total_count() == result.answered
    for percent, ours_us in ((50, result.latency_us.p50), (99, result.latency_us.p99)):
        assert foreign.get_value_at_percentile(percent) / 1e3 == pytest.approx(ours_us, rel=0.002)


def test_the_same_seed_sends_as_many_requests_each_time(echo):
    arrivals = Arrivals(kind="poisson", rate_per_s=800, seed=9)
    first, second = (load(echo.url(), arrivals=arrivals, threads=threads) for threads in (1, 2))
    assert first.sent == second.sent
    assert [interval.sent for interval in first.timeline] == [interval.sent for interval in second.timeline]
    assert second.generator.threads == 2


def test_a_result_survives_being_written_and_read(echo):
    result = load(echo.url(), protocol="http-binary", deadline_ms=500)
    assert LoadResult.model_validate_json(result.model_dump_json()) == result
    plan = LoadPlan(url=echo.url(), model="m", arrivals=Arrivals(kind="constant", rate_per_s=5))
    assert LoadPlan.model_validate_json(plan.model_dump_json()) == plan
    assert json.loads(plan.model_dump_json())["arrivals"] == {"kind": "constant", "rate_per_s": 5.0}


def test_a_stall_shows_from_the_due_time_and_hides_from_the_moment_of_leaving():
    server = Echo(EchoOptions(stall_ms=200, stall_every_s=0.4))
    result = load(server.url(), arrivals=Arrivals(kind="constant", rate_per_s=1000), connections=1, duration_s=1.0)
    server.stop()
    assert result.answered == 1000
    assert result.latency_us.p95 > 100_000
    assert result.service_us.p95 < 50_000
    assert result.latency_us.max >= result.service_us.max > 100_000


def test_figures_are_those_of_the_histogram(echo):
    result = load(echo.url(), arrivals=Arrivals(kind="constant", rate_per_s=1000))
    merged = read_histograms([result.histogram])
    assert merged.max_us == result.latency_us.max
    assert merged.mean_us == pytest.approx(result.latency_us.mean)
    assert merged.values_us == sorted(merged.values_us)
    assert sum(merged.counts) == merged.count
    assert merged.min_us <= result.latency_us.p50 <= merged.max_us


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"arrivals": Arrivals(kind="constant")}, "missing field `rate_per_s`"),
        ({"arrivals": Arrivals(kind="closed", rate_per_s=5)}, "unknown field `rate_per_s`"),
        ({"arrivals": Arrivals(kind="ramp", from_per_s=0, to_per_s=1)}, "arrivals.from_per_s is 0"),
        ({"threads": 5}, "threads is 5; allowed: 1 to 64, and no more than connections"),
        ({"streams": 2}, "HTTP/1.1 carries one request at a time"),
        ({"url": "unix:/nowhere", "protocol": "grpc"}, "url is unix:/nowhere"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_with_what_is_allowed(echo, changes, words):
    with pytest.raises(RefusedError) as caught:
        load(**{"url": echo.url(), **changes})
    assert words in str(caught.value)
    assert caught.value.code == "invalid_plan"


def test_requests_that_waited_for_a_connection_are_told_apart_and_those_given_up_are_not_fast():
    server = Echo(EchoOptions(service_us=20_000))
    arrivals = Arrivals(kind="constant", rate_per_s=500)
    result = load(server.url(), arrivals=arrivals, connections=1, timeout_ms=100)
    server.stop()
    unsent = {error.reason: error.count for error in result.errors}["not sent before the run ended"]
    assert result.generator.waited_share > 0.9
    assert read_histograms([result.histogram]).count == result.answered + result.timed_out + unsent == result.sent
    assert read_histograms([result.service_histogram]).count == result.answered + result.timed_out
    assert result.latency_us.p99 >= 100_000


@pytest.mark.parametrize(
    ("changes", "phases"),
    [
        ({"warmup": Warmup(least_s=0.1, most_s=0.1)}, ["warming", "beginning", "measuring"]),
        ({"arrivals": Arrivals(kind="constant", rate_per_s=100)}, ["beginning", "measuring"]),
    ],
    ids=["warm-up", "none"],
)
def test_whoever_looks_on_sees_when_measuring_is_about_to_begin(echo, changes, phases):
    plan = LoadPlan(url=echo.url(), model="m", connections=4, duration_s=0.3, warmup=NO_WARMUP)
    run = LoadRun(plan.model_copy(update=changes), PAYLOADS)
    assert [phase for phase, _ in groupby(iter(run.phase, "ended"))] == phases
    assert run.finished()


def test_what_is_no_histogram_is_refused_by_its_place():
    with pytest.raises(RefusedError, match="cannot read histogram 0"):
        read_histograms(["nonsense"])


def test_a_run_that_is_stopped_says_so(echo):
    run = LoadRun(LoadPlan(url=echo.url(), model="m", duration_s=600), PAYLOADS)
    while run.progress()[1] == 0:
        pass
    run.stop()
    assert run.result().ended_early == "stopped"
