"""The frame of the claims: interleaving, discarded windows, verdicts and exit codes; what tails read from windows."""

import gzip
import json

import onnxruntime
import pytest

from bench import publish
from bench.claims import report as reporting
from bench.claims.report import Report, Windows, exit_with, interleave, too_few
from bench.claims.skeleton import lanes_apart
from bench.claims.subjects import Subject
from bench.claims.tails import bursts, overload, page
from bench.claims.tails.loads import Watched, time_line
from bench.claims.tails.neighbour import TICK_US_USUAL, scheduler_tick_us
from bench.claims.tails.plots import PLOTS, picture
from bench.claims.tails.row_models import make_row_cnn, retitle
from bench.claims.tails.stand import goodput_per_s, raw, slim
from flyball.bench import machine as recording
from flyball.bench.machine import HostWatch
from flyball.bench.payloads import make_payloads
from flyball.bench.record import HostSeen
from flyball.bench.report import drawing
from flyball.errors import RefusedError, UsageError
from flyball.native import machine, models
from tests.support.bench_windows import encoded, window


@pytest.fixture(autouse=True)
def results_stay_here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def steal(monkeypatch):
    shares = []

    class Scripted(HostWatch):
        def __exit__(self, *error):
            self.seen = HostSeen(steal_share=shares.pop(0) if shares else 0.0, load_1m=0.0)

    monkeypatch.setattr(reporting, "HostWatch", Scripted)
    return shares


def test_subjects_are_measured_in_turn(steal):
    order = []
    found = interleave({name: lambda name=name: order.append(name) or len(order) for name in "ab"}, 3)
    assert order == ["a", "b"] * 3
    assert found["a"].values == [1, 3, 5]


def test_a_window_with_steal_is_discarded_counted_and_measured_again(steal):
    steal.extend([0.0, 0.04])
    order = []
    found = interleave({name: lambda name=name: order.append(name) for name in "ab"}, 2)
    assert order == ["a", "b", "a", "b", "b"]
    assert (found["b"].discarded, len(found["b"].values)) == (1, 2)
    assert too_few(found, least=2) is None


def test_a_host_that_always_steals_ends_in_not_measured(steal):
    steal.extend([1.0] * 100)
    found = interleave({"a": lambda: 1}, 3)
    assert (found["a"].discarded, found["a"].values) == (6, [])
    assert "6 windows discarded" in too_few(found)


def test_each_claim_is_one_line_and_one_that_falls_short_fails_the_run(capsys, tmp_path):
    report = Report("test")
    report.record("speed", "11 times", ">= 10 times", holds=True)
    report.not_measured("lanes", "<= 25 %", "one core only")
    report.keep("raw", {"values": [1]})
    assert report.finish() == 0
    report.record("memory", "9 MB", "< 5 MB", holds=False)
    assert report.finish() == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[1:3]] == ["ok", "not measured here"]
    assert lines[2].endswith("(one core only)")
    (path,) = (tmp_path / "bench/results").glob("claim-test-*.json")
    document = json.loads(path.read_text())
    assert [line["verdict"] for line in document["lines"]] == ["ok", "not measured here", "falls short"]
    assert document["raw"] == {"raw": {"values": [1]}}
    assert document["machine"] == machine.machine().model_dump()
    assert document["build"] == machine.build_info().model_dump()


def test_a_debug_build_proves_nothing(monkeypatch):
    # `make build` makes a release build, so only the one fact is changed that a debug build would tell otherwise.
    debug = machine.build_info().model_copy(update={"debug_assertions": True})
    monkeypatch.setattr(recording, "build_info", lambda: debug)
    with pytest.raises(RefusedError, match="debug build"):
        Report("test")


def test_too_few_windows_name_their_subject():
    assert too_few({"a": Windows([1, 2, 3]), "b": Windows([1], discarded=4)}) == (
        "b: 4 windows discarded for steal over 3%, 1 left"
    )


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


def test_a_time_line_tells_those_in_time_from_those_late_and_those_refused():
    blocks = [[10_000, 20_000, 60_000], [49_000]]
    made = result(blocks)
    first = made.timeline[0].model_copy(
        update={"sent": 5, "refused": 1, "failed": 1, "histogram": encoded([*blocks[0], 1e6])}
    )
    lines = time_line(made.model_copy(update={"timeline": [first, made.timeline[1]]}), 50)
    assert [(line["offered"], line["in_time"], line["late"], line["refused"]) for line in lines] == [
        (5, 2, 2, 1),
        (1, 1, 0, 0),
    ]


def test_goodput_leaves_out_what_came_after_its_deadline():
    assert goodput_per_s(result([[100.0] * 10], elapsed_s=2.0, past_deadline=4)) == 3.0


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
    watched = Watched(result([[1.0]]), depth)
    assert watched.back_after_s(2) == back_s
    assert watched.depth_loaded == [depth[0][1]]


def test_the_scheduler_s_tick_is_read_from_the_kernel_s_configuration(tmp_path):
    assert scheduler_tick_us(tmp_path) == TICK_US_USUAL
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_HZ_1000=y\nCONFIG_HZ=1000\n"))
    assert scheduler_tick_us(tmp_path) == 1000.0


# Tails: the page.


def report_of(path, topics, *, quick=False, verdict="ok"):
    """A report with one line for each topic."""
    lines = [
        {"claim": topic, "figure": "1", "bar": "<= 2", "verdict": verdict, "reason": "too small", "topic": topic}
        for topic in topics
    ]
    head = {"measured_at": "2026-01-02T030405", "build": machine.build_info().model_dump()}
    document = {**head, "machine": machine.machine().model_dump(), "quick": quick, "lines": lines, "raw": topics}
    path.write_text(json.dumps(document))
    return path


def test_a_quick_run_is_never_published(tmp_path):
    with pytest.raises(RefusedError, match="quick"):
        page.merged(tmp_path / "tails.json", [report_of(tmp_path / "r.json", {"steady": {}}, quick=True)])


def test_a_later_report_replaces_its_topics_unless_it_could_not_measure_them(tmp_path):
    first = report_of(tmp_path / "a.json", {"steady": {"of": 1}, "cores": {"of": 1}})
    second = report_of(tmp_path / "b.json", {"steady": {"of": 2}})
    third = report_of(tmp_path / "c.json", {"cores": {"of": 3}, "bursts": {}}, verdict="not measured here")
    topics = page.merged(tmp_path / "absent.json", [first, second, third])["topics"]
    assert {name: found["raw"] for name, found in topics.items()} == {
        "steady": {"of": 2},
        "cores": {"of": 1},
        "bursts": {},
    }


def made_up_topics():
    """Raw values of every topic, as its module keeps them."""
    one = {"values": [slim(result([[100.0, 200.0]]))], "discarded": 0}
    rates = {"flyballd": Windows([9.0, 10.0]), "FastAPI def": Windows([1.0])}
    line = {"start_s": 0.0, "offered": 4, "in_time": 2, "late": 1, "refused": 1}
    curve = {"capacity_per_s": 10.0, "points": [{"multiple": 1.0, "goodput_per_s": 9.0}]}
    pair = {kind: dict.fromkeys(("table", "fraud"), one["values"][0]) for kind in ("with", "without")}
    return {
        "throughput": {f"{name}, {kind}, per_s": raw(rates) for name in ("mlp", "fraud") for kind in ("apart", "shared")},
        "steady": {"windows": {"flyballd": one, "echo": one}},
        "overload": {
            "deadline_ms": overload.DEADLINE_MS,
            "curves": {"flyballd": curve, "Triton": {"missing": "not here"}},
            "minute": {"capacity_per_s": 10.0},
            "minute_by_second": [line],
            "depth": {"usual": 1, "samples": [[-0.1, 5], [0.1, 0]]},
        },
        "bursts": {"deadline_ms": 50, "capacity_per_s": 10.0, "time_lines": [[line]]},
        "reloads": {"pairs": [pair]},
        "neighbour": {"windows": {"alone": one, "beside the CNN": one}, "tick_us": 4000.0},
        "cores": {
            "cpu_us a request": raw({"1 lane": Windows([20.0]), "8 lanes": Windows([21.0])}),
            "lane_cpu_s": {"lanes": {"values": [[1.0] * 8]}},
            "at rate": {"rate": one},
        },
    }


def test_the_page_has_a_table_and_a_picture_of_each_topic_and_is_the_same_when_drawn_again(tmp_path, monkeypatch):
    for name, place in {"PAGE": "page.md", "PUBLISHED": "published", "IMAGES": "images"}.items():
        monkeypatch.setattr(publish, name, tmp_path / place)
    monkeypatch.setattr(drawing, "_DPI", 40)  # the time goes into pixels
    text = f"before\n{page.BEGIN}\n{page.END}\nafter\n"
    publish.PAGE.write_text(text)
    publish.publish_tails([report_of(tmp_path / "r.json", made_up_topics())])
    shown = publish.PAGE.read_text()
    assert (shown.startswith("before"), shown.endswith("after\n")) == (True, True)
    for topic in PLOTS:
        assert f"### {topic}" in shown
        assert f"images/tails-{topic}.png" in shown
        assert (publish.IMAGES / f"tails-{topic}.png").read_bytes().startswith(b"\x89PNG")
    publish.publish_tails([])
    assert publish.PAGE.read_text() == shown


def test_a_topic_that_was_not_measured_has_no_picture_and_tells_why(tmp_path):
    assert picture(PLOTS["cores"], {"took_s": 0.0}, "") is None
    report = report_of(tmp_path / "r.json", {"cores": {"took_s": 0.0}}, verdict="not measured here")
    shown, drawn = page.section(page.merged(tmp_path / "absent.json", [report]), tmp_path)
    assert drawn == []
    assert any("too small" in line for line in shown)


def test_a_page_without_measurements_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(publish, "PUBLISHED", tmp_path)
    with pytest.raises(RefusedError, match="no topic"):
        publish.publish_tails([])
