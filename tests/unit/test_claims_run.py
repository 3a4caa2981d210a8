"""A run of a suite: what it stores and continues, what its last line counts, and when it fails."""

import argparse
from pathlib import Path
from typing import Any

import pytest

from bench.claims import ages, ledger, provenance, topics
from bench.claims.claim import UNMEASURED
from bench.claims.record import FAILED, STOPPED
from bench.claims.run import Run, covered_elsewhere
from flyball.errors import FlyballError
from tests.support.made_up_suite import BAD, GOOD, LOST, head, stored, suite


class Stand:
    """The part of a stand that a run uses."""

    def __init__(self, *_: object, **__: object) -> None:
        self.raw: dict[str, Any] = {}
        self.unmeasured: dict[str, str] = {}

    def begin(self, _: str) -> None:
        self.__init__()

    def keep(self, name: str, value: object) -> None:
        self.raw[name] = value

    def not_measured(self, reason: str) -> None:
        self.unmeasured["everything"] = reason

    def tell(self, _: str) -> None:
        pass


def keeping(raw: dict[str, Any]):
    def measure(stand: Any) -> None:
        for name, value in raw.items():
            stand.keep(name, value)

    return measure


def failing(error: BaseException):
    def measure(stand: Any) -> None:
        raise error

    return measure


def missing(stand: Any) -> None:
    stand.not_measured("no Redis here")


def measuring(times=GOOD, count=LOST):
    given = {"times": times, "count": count}
    return suite(measures={name: keeping(one) if isinstance(one, dict) else one for name, one in given.items()})


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`python -m bench.claims.made-up …`, on two cores and a build that ships."""
    heads = [head(number) for number in range(1, 20)]
    monkeypatch.setattr(topics, "head_here", lambda *_: heads.pop(0))
    monkeypatch.setattr(topics, "refuse_debug_build", lambda: None)
    monkeypatch.setattr(topics, "Stand", Stand)
    monkeypatch.setattr(topics.os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(ages, "age", lambda *_: 3)
    monkeypatch.delenv("STRICT", raising=False)

    def run(made, *words: str) -> int:
        arguments = topics.arguments_of(made).parse_args([*words, "--results", str(tmp_path)])
        return topics.measure_suite(made, arguments)

    return run


def records(tmp_path: Path):
    return ledger.verified(tmp_path / "made-up" / "cpu-2c-8gb")


def test_a_run_is_stored_with_all_of_its_topics(command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(measuring()) == 0
    (record,) = records(tmp_path)
    assert [(attempt.topic, attempt.raw) for attempt in record.attempts] == [("times", GOOD), ("count", LOST)]
    assert "2 claims: 2 ok, 0 fall short, 0 not measured. Record: " in capsys.readouterr().out
    assert len(record.summary) == 2


def test_a_claim_that_falls_short_fails_the_run(command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(measuring(BAD)) == 1
    assert "1 ok, 1 fall short" in capsys.readouterr().out


def test_only_continues_the_newest_record_of_the_build_and_a_run_without_it_starts_one(command, tmp_path: Path) -> None:
    command(measuring(), "--only", "times")
    command(measuring(), "--only", "count")
    (record,) = records(tmp_path)
    assert [attempt.topic for attempt in record.attempts] == ["times", "count"]
    command(measuring())
    assert [len(record.attempts) for record in records(tmp_path)] == [2, 2]


def test_resume_measures_what_the_newest_record_lacks(command, tmp_path: Path) -> None:
    command(measuring(), "--only", "times")
    command(measuring(), "--resume")
    (record,) = records(tmp_path)
    assert [attempt.topic for attempt in record.attempts] == ["times", "count"]


@pytest.mark.parametrize(
    "changes", [{"commit": "d" * 12}, {"dirty": "f" * 12}, {"machine": {**head().machine, "kernel": "7"}}]
)
def test_parts_of_another_build_tree_or_machine_are_never_merged(tmp_path: Path, changes: dict[str, Any]) -> None:
    made = measuring()
    stored(tmp_path, made, {"times": GOOD})
    run = Run.begin(made, head(2, **changes), ["count"], quick=False, resume=False, results=tmp_path)
    assert run.record.attempts == []


def test_a_topic_that_is_run_again_gets_a_second_attempt_and_the_failure_stays(command, tmp_path: Path) -> None:
    command(measuring(BAD))
    assert command(measuring(GOOD), "--only", "times") == 1
    (record,) = records(tmp_path)
    assert [attempt.raw for attempt in record.of("times")] == [BAD, GOOD]


def test_a_topic_that_fails_takes_its_own_claims_and_the_next_is_measured(command, tmp_path: Path) -> None:
    assert command(measuring(failing(FlyballError("the server died")))) == 1
    (record,) = records(tmp_path)
    assert [(attempt.topic, attempt.state) for attempt in record.attempts] == [("times", FAILED), ("count", "done")]
    assert record.attempts[0].error == "the server died"


def test_a_run_that_is_stopped_leaves_its_attempt(command, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        command(measuring(failing(KeyboardInterrupt())))
    (record,) = records(tmp_path)
    assert [attempt.state for attempt in record.attempts] == [STOPPED]


def test_quick_runs_and_builds_that_do_not_ship_store_nothing(
    command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command(measuring(), "--quick")
    assert "not stored: a quick run proves nothing" in capsys.readouterr().out
    monkeypatch.setattr(topics, "head_here", lambda *_: head(profile="release"))
    command(measuring())
    assert "not stored: the build's profile is release" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_one_core_measures_nothing_and_says_so(command, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(topics.os, "sched_getaffinity", lambda _: {0})
    assert command(measuring()) == 0
    assert "2 claims: 0 ok, 0 fall short, 2 not measured" in capsys.readouterr().out


# Not measured is not ok.


def test_what_is_not_measured_is_counted_and_fails_a_strict_run(
    command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = measuring(count=missing)
    assert command(made) == 0
    assert "2 claims: 1 ok, 0 fall short, 1 not measured." in capsys.readouterr().out
    assert command(made, "--strict") == 1
    monkeypatch.setenv("STRICT", "1")
    assert command(made) == 1


def test_a_record_of_another_machine_class_covers_a_line_of_a_strict_run(
    command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = measuring(count=missing)
    stored(tmp_path, made, {"count": LOST}, machine_class="cpu-16c-8gb")
    assert command(made, "--strict") == 0
    assert "1 not measured (1 of them hold on another machine class)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("raw", "changes", "old"),
    [({"lost": 3}, {}, 3), (LOST, {"dirty": "f" * 12}, 3), (LOST, {}, 151), (LOST, {}, None)],
    ids=["falls short there", "of a dirty tree", "too old", "of another history"],
)
def test_a_record_that_shows_nothing_covers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raw: dict[str, int], changes: dict[str, Any], old: int | None
) -> None:
    monkeypatch.setattr(ages, "age", lambda *_: old)
    made = measuring()
    stored(tmp_path, made, {"count": raw}, machine_class="cpu-16c-8gb", **changes)
    run = Run.begin(made, head(), [], quick=False, resume=False, results=tmp_path)
    run.skip("one core only")
    lines = run.lines()
    assert {line.verdict.kind for line in lines} == {UNMEASURED}
    assert covered_elsewhere(lines, made, head(), tmp_path) == []


def test_a_record_under_another_bar_covers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ages, "age", lambda *_: 3)
    stored(tmp_path, suite(bar=9), {"times": GOOD}, machine_class="cpu-16c-8gb")
    run = Run.begin(suite(), head(), [], quick=False, resume=False, results=tmp_path)
    run.skip("one core only")
    assert covered_elsewhere(run.lines(), suite(), head(), tmp_path) == []


def test_strict_is_read_from_the_environment_as_make_sets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def strict(value: str) -> bool:
        monkeypatch.setenv("STRICT", value)
        arguments: argparse.Namespace = topics.arguments_of(suite()).parse_args([])
        return bool(arguments.strict)

    assert [strict(value) for value in ("", "0", "1")] == [False, False, True]


@pytest.mark.parametrize("state", ["", "f" * 12], ids=["clean", "changed"])
def test_a_record_of_a_machine_without_git_states_what_the_pack_was_made_from(tmp_path: Path, state: str) -> None:
    (tmp_path / provenance.DIRTY).write_text(state)
    assert provenance.head_here("tails", tmp_path).dirty == state
