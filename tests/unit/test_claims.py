"""The frame of the claims: interleaving, discarded windows, verdicts and exit codes."""

import json

import pytest

from bench.claims import report as reporting
from bench.claims.report import Report, Windows, interleave, too_few
from bench.claims.skeleton import lanes_apart
from bench.claims.subjects import Subject
from flyball import engine
from flyball.bench import machine as recording
from flyball.bench.machine import HostWatch
from flyball.bench.record import HostSeen
from flyball.errors import RefusedError


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
    report.judge("speed", "11 times", ">= 10 times", holds=True)
    report.not_measured("lanes", "<= 25 %", "one core only")
    report.keep("raw", {"values": [1]})
    assert report.finish() == 0
    report.judge("memory", "9 MB", "< 5 MB", holds=False)
    assert report.finish() == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[1:3]] == ["ok", "not measured here"]
    assert lines[2].endswith("(one core only)")
    (path,) = (tmp_path / "bench/results").glob("claim-test-*.json")
    document = json.loads(path.read_text())
    assert [line["verdict"] for line in document["lines"]] == ["ok", "not measured here", "falls short"]
    assert document["raw"] == {"raw": {"values": [1]}}
    assert document["machine"] == engine.machine().model_dump()
    assert document["build"] == engine.build_info().model_dump()


def test_a_debug_build_proves_nothing(monkeypatch):
    # `make build` makes a release build, so only the one fact is changed that a debug build would tell otherwise.
    debug = engine.build_info().model_copy(update={"debug_assertions": True})
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
