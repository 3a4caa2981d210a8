"""Windows that are taken in turn, what is kept of them, and what the claims about tails read from them."""

import json
import math

import numpy as np
import onnxruntime
import pytest

from bench.claims import page as pages
from bench.claims import windows as taking
from bench.claims.provenance import machine_class
from bench.claims.report import exit_with
from bench.claims.run import plain
from bench.claims.settled import lines_of
from bench.claims.skeleton.lanes import lanes_apart
from bench.claims.subjects import Subject
from bench.claims.tails import bursts, overload, page, throughput
from bench.claims.tails.loads import Watched, back_after_s, goodput_of, time_line
from bench.claims.tails.plots import PLOTS, picture
from bench.claims.tails.rivals import RIVALS
from bench.claims.tails.row_models import make_row_cnn, retitle
from bench.claims.tails.suite import SUITE
from bench.claims.windows import Discarded, Windows, interleave
from flyball.bench import machine as recording
from flyball.bench.machine import HostWatch
from flyball.bench.payloads import make_payloads
from flyball.bench.record import HostSeen
from flyball.bench.report import drawing
from flyball.errors import RefusedError, UsageError
from flyball.native import machine, models
from tests.support.bench_windows import encoded, window
from tests.support.made_up_suite import add, stored


@pytest.fixture
def steal(monkeypatch):
    shares = []

    class Scripted(HostWatch):
        def __exit__(self, *error):
            self.seen = HostSeen(steal_share=shares.pop(0) if shares else 0.0, load_1m=0.0)

    monkeypatch.setattr(taking, "HostWatch", Scripted)
    return shares


def test_subjects_are_measured_in_turn(steal):
    order = []
    found = interleave({name: lambda name=name: order.append(name) or len(order) for name in "ab"}, 3)
    assert order == ["a", "b"] * 3
    assert found["a"].values == [1, 3, 5]


def test_a_window_with_steal_is_kept_apart_with_its_reason_and_measured_again(steal):
    steal.extend([0.0, 0.04])
    order = []
    found = interleave({name: lambda name=name: order.append(name) or len(order) for name in "ab"}, 2)
    assert order == ["a", "b", "a", "b", "b"]
    assert found["b"].discarded == [Discarded(2, "the host took 4.0% of the CPU time, at most 3% may be")]
    assert len(found["b"].values) == 2


def test_a_host_that_always_steals_ends_after_twice_the_repeats(steal):
    steal.extend([1.0] * 100)
    found = interleave({"a": lambda: 1}, 3)
    assert (len(found["a"].discarded), found["a"].values) == (6, [])


def test_a_debug_build_proves_nothing(monkeypatch):
    # `make build` makes a release build, so only the one fact is changed that a debug build would tell otherwise.
    debug = machine.build_info().model_copy(update={"debug_assertions": True})
    monkeypatch.setattr(recording, "build_info", lambda: debug)
    with pytest.raises(RefusedError, match="debug build"):
        recording.refuse_debug_build()


def test_raw_values_are_kept_as_json_and_loads_without_their_histograms():
    load = result([[100.0, 200.0]])
    kept = plain({"windows": {"a": Windows([load], [Discarded(3, "busy")])}, "names": {"b", "a"}, "number": np.float64(2)})
    assert kept["windows"]["a"]["discarded"] == [{"value": 3, "reason": "busy"}]
    (window,) = kept["windows"]["a"]["values"]
    assert window["latency_us"]["p99"] == load.latency_us.p99
    assert "histogram" not in window
    assert (kept["names"], kept["number"]) == (["a", "b"], 2.0)
    assert plain({"never": math.inf}) == {"never": "Infinity"}


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("AMD EPYC", "amd-epyc-2c-25gb"),
        ("Intel(R) Xeon(R) Processor @ 2.90GHz", "intel-xeon-2c-25gb"),
        ("AMD Ryzen 9 7950X 16-Core Processor", "amd-ryzen-9-7950x-16-core-2c-25gb"),
    ],
)
def test_a_machine_class_is_a_short_name_without_the_kernel(model, name):
    assert machine_class({"cpu_model": model, "cores": 2, "memory_bytes": 25_276_518_400, "kernel": "6.1"}) == name


def test_lanes_that_did_nothing_are_not_balanced():
    assert lanes_apart(0.0, 0.0) == 1.0
    assert lanes_apart(1.0, 0.0) == 1.0
    assert lanes_apart(1.0, 0.8) == pytest.approx(0.2)


def test_an_echo_gets_the_same_requests_without_expected_answers(tmp_path):
    line = {"inputs": [{"name": "x"}], "outputs": [{"name": "y"}]}
    subject = Subject("m", tmp_path, (json.dumps(line) + "\n").encode() * 2, 1.0)
    assert [json.loads(text) for text in subject.unchecked.payloads.splitlines()] == [{**line, "outputs": None}] * 2


def test_an_error_of_ours_ends_a_command_with_its_text_and_code(capsys):
    def fails():
        raise UsageError("there is no such topic", next_step="choose another")

    with pytest.raises(SystemExit) as ended:
        exit_with(fails)
    assert ended.value.code == UsageError("").exit_code
    assert "no such topic" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        exit_with(lambda: 1)
    assert ended.value.code == 1


# Tails: models.


def test_a_model_under_another_title_has_another_digest_and_the_same_answers(tmp_path):
    first = make_row_cnn(tmp_path / "a.onnx", layers=1)
    second = retitle(first, tmp_path / "b.onnx", "version 2")
    assert models.model_files(first).digest != models.model_files(second).digest
    assert make_payloads(first, 3, seed=1) == make_payloads(second, 3, seed=1)
    assert onnxruntime.InferenceSession(second).get_modelmeta().description == "version 2"


# Tails: windows.


def result(blocks, **changes):
    return window(blocks, arrivals="constant", **changes).result


def test_a_time_line_tells_those_in_time_from_those_late_refused_and_failed():
    blocks = [[10_000, 20_000, 60_000], [49_000]]
    made = result(blocks)
    first = made.timeline[0].model_copy(
        update={"sent": 5, "refused": 1, "failed": 1, "histogram": encoded([*blocks[0], 1e6])}
    )
    lines = time_line(made.model_copy(update={"timeline": [first, made.timeline[1]]}), 50)
    parts = ("offered", "in_time", "late", "refused", "failed")
    assert [tuple(line[part] for part in parts) for line in lines] == [(5, 2, 1, 1, 1), (1, 1, 0, 0, 0)]


def test_goodput_leaves_out_what_came_after_its_deadline():
    assert goodput_of({"answered": 10, "past_deadline": 4, "elapsed_s": 2.0}) == 3.0


def test_a_burst_is_the_first_interval_of_each_period():
    lines = [{"start_s": place * bursts.BURST_S, "in_time": place} for place in range(30)]
    assert [line["in_time"] for line in lines if bursts.is_burst(line)] == [0, 10, 20]
    assert bursts.accepted_in_bursts(lines) == 10.0
    assert bursts.accepted_in_bursts([]) == 0.0


@pytest.mark.parametrize(
    ("depth", "back_s"),
    [
        ([(-0.2, 90), (0.0, 60), (0.04, 3), (0.08, 2), (0.2, 0)], 0.08),
        ([(-0.2, 90), (0.0, 1), (0.05, 5), (0.1, 1)], 0.1),  # once more above: not back yet
        ([(-0.2, 1), (0.0, 1)], 0.0),
        ([(-0.2, 90), (0.4, 90)], None),
    ],
)
def test_a_queue_is_back_when_it_stays_at_its_usual_depth(depth, back_s):
    assert back_after_s(depth, 2) == back_s
    assert Watched(result([[1.0]]), depth).depth_loaded == [depth[0][1]]


# Tails: the page.


def side(*values, discarded=()):
    """One side of windows, as a record keeps it."""
    return {"values": list(values), "discarded": list(discarded)}


def made_up_topics():
    """Raw values of every topic, as its module keeps them."""
    window = plain({"": result([[100.0, 200.0]])})[""]
    windows = side(*[window] * 3)
    sides = (throughput.OURS, throughput.UNBATCHED, throughput.BARE, *RIVALS)
    rates = {name: side(*[10.0 + place] * 3) for place, name in enumerate(sides)}
    told = {"version": "1.0", "setting": "no batching", "tried_per_s": {"no batching": 9.0}}
    line = {"start_s": 0.0, "offered": 4, "in_time": 2, "late": 1, "refused": 1, "failed": 0}
    curve = {"capacity_per_s": 10.0, "points": [{"multiple": 1.0, "goodput_per_s": 9.0}]}
    pair = {kind: dict.fromkeys(("table", "fraud"), window) for kind in ("with", "without")}
    memory = {"half load": 1, "before": 100, "after": 101}
    return {
        "throughput": {
            **{f"{name}, {kind}, per_s": rates for name in ("mlp", "fraud") for kind in ("apart", "shared")},
            **{f"{name}, rivals": dict.fromkeys(RIVALS, told) for name in ("mlp", "fraud")},
        },
        "steady": {"windows": {"flyballd": windows, "echo": windows}},
        "overload": {
            "deadline_ms": overload.DEADLINE_MS,
            "capacity_per_s": 10.0,
            "lasts_s": 1.0,
            "curves": {"flyballd": curve, "Triton": {"missing": "not here"}},
            "minute": {"minute": side(window)},
            "minute_by_second": [line],
            "depth": {"usual": 1, "samples": [[-0.1, 5], [0.1, 0]]},
            "memory_bytes": memory,
            "gbdt, cpu_us of one": {"refusal": side(5.0, 5.0, 5.0), "answer": side(10.0, 10.0, 10.0)},
            "gbdt, beyond capacity": {
                "closed": side(1.0, 1.0, 1.0),
                **{f"{over:g} times": side(*[{**window, "offered_per_s": over}] * 3) for over in (1.3, 2.0)},
            },
        },
        "bursts": {
            "deadline_ms": 50,
            "capacity_per_s": 10.0,
            "time_lines": [[line]] * 3,
            "windows": {"bursts": windows},
        },
        "reloads": {"pairs": {"pairs": side(*[pair] * 3)}, "memory_bytes": memory},
        "neighbour": {"windows": {"alone": windows, "beside the CNN": windows}},
        "cores": {
            "cpu_us a request": {"1 lane": side(20.0, 20.0, 20.0), "8 lanes": side(21.0, 21.0, 21.0)},
            "lane_cpu_s": {"lanes": side(*[[1.0] * 8] * 3)},
            "at rate": {"rate": windows},
            "at rate: cpu_share": [0.5],
            "at rate: memory_bytes": [1e8],
        },
    }


@pytest.fixture
def run_of_tails(tmp_path):
    """A whole run with made-up values."""
    stored(tmp_path, SUITE, made_up_topics(), suite="tails")
    return pages.folders_of(SUITE, tmp_path)


def test_every_claim_of_tails_has_a_figure_from_what_its_topic_keeps(run_of_tails):
    (folder,) = run_of_tails
    lines = lines_of(folder.shown, SUITE.topics)
    assert [line.verdict.reason for line in lines if "no figure" in line.verdict.reason] == []
    assert {line.verdict.kind for line in lines} <= {"ok", "falls short"}


def test_the_page_has_a_table_and_a_picture_of_each_topic(run_of_tails, tmp_path, monkeypatch):
    monkeypatch.setattr(drawing, "_DPI", 40)  # the time goes into pixels
    shown, drawn = page.section(run_of_tails, SUITE.topics, tmp_path / "images")
    for topic in PLOTS:
        assert f"### {topic}" in shown
        assert any(f"images/tails-{topic}.png" in line for line in shown)
        assert (tmp_path / f"images/tails-{topic}.png").read_bytes().startswith(b"\x89PNG")
    assert len(drawn) == len(PLOTS) + 1
    assert page.section(run_of_tails, SUITE.topics, None) == (shown, [])


def test_a_topic_that_no_run_measured_is_left_out_of_the_page(tmp_path):
    folder, record = stored(tmp_path, SUITE, {"steady": made_up_topics()["steady"]}, suite="tails")
    add(folder, record, SUITE, "cores", {})
    shown, _ = page.section(pages.folders_of(SUITE, tmp_path), SUITE.topics, None)
    assert "### steady" in shown
    assert "### bursts" not in shown
    assert page.section([], SUITE.topics, None) == ([page.NONE, ""], [])
    assert picture(PLOTS["cores"], {}, "") is None
