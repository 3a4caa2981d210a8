"""Compaction beside a server: a child that gives way, one at a time, and ends with it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

from flyball.cli.app import application
from flyball.cli.compaction import schedule_of
from flyball.decision_log.retention import background
from flyball.decision_log.retention.background import Schedule, compact_command
from flyball.decision_log.retention.retired import read_retired
from flyball.errors import UsageError
from tests.support import journal_folders
from tests.support.serving import until


class Started(subprocess.Popen[bytes]):
    """A child, remembered once it has been started."""

    all: ClassVar[list["Started"]] = []

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.all.append(self)


def test_a_schedule_runs_its_command_again_and_again_and_never_two_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child ends when the test says so; until then every tick finds it at work."""
    monkeypatch.setattr(Started, "all", [])
    monkeypatch.setattr(background.subprocess, "Popen", Started)
    may_end = tmp_path / "may_end"
    script = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.005)"
    schedule = Schedule([sys.executable, "-c", script, str(may_end)], every_s=0.0)

    def started(wanted: int) -> bool:
        schedule.tick()
        return len(Started.all) >= wanted

    try:
        for _ in range(100):
            schedule.tick()
        assert len(Started.all) == 1, "a second one was started beside it"
        may_end.touch()
        until("a second run", lambda: started(2))
        assert Started.all[0].poll() == 0
    finally:
        schedule.stop()


def test_stopping_a_schedule_ends_the_child_that_is_at_work(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    script = (
        "import sys, time, pathlib; pathlib.Path(sys.argv[1]).write_text(str(__import__('os').getpid())); time.sleep(60)"
    )
    schedule = Schedule([sys.executable, "-c", script, str(begun)], every_s=0.0)
    schedule.tick()
    try:
        child = int(until("the child", lambda: (begun.exists() and begun.read_text()) or None))
    finally:
        schedule.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_the_command_compacts_in_a_child_of_low_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Python imports `sitecustomize` in the child alone, where it writes down what priority the child ended with."""
    journal_folders.filled(tmp_path / "journal", [3])
    said = tmp_path / "said"
    ending = f"open({str(said)!r}, 'a').write(f'{{os.getpid()}} {{os.nice(0)}}\\n')"
    (tmp_path / "sitecustomize.py").write_text(f"import atexit, os\natexit.register(lambda: {ending})\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    answer = CliRunner().invoke(application(), ["decisions", "compact", "--journal-folder", str(tmp_path / "journal")])
    assert answer.exit_code == 0, capfd.readouterr().err
    assert list(read_retired(tmp_path / "journal")) == [1]
    assert "1 segment, 3 records" in capfd.readouterr().err
    [(child, nice)] = [map(int, line.split()) for line in said.read_text().splitlines()]
    assert child != os.getpid()
    assert nice == os.nice(0) + 10


def test_the_child_is_told_where_and_how_long(tmp_path: Path) -> None:
    command = compact_command(tmp_path, "25mo")
    assert command[1:] == [
        "-m", "flyball", "decisions", "compact", "--here", "--journal-folder", str(tmp_path), "--keep", "25mo"
    ]  # fmt: skip


def test_the_options_of_serve_make_a_schedule(tmp_path: Path) -> None:
    schedule = schedule_of(str(tmp_path), "15m", "25mo")
    assert schedule is not None
    assert (schedule.every_s, schedule.command[-2:]) == (900, ["--keep", "25mo"])
    assert schedule_of(str(tmp_path), None, None) is None


@pytest.mark.parametrize(
    ("journal", "every", "keep", "said"),
    [
        ("j", "often", None, "not a duration"),
        ("j", "0s", None, "not a duration"),
        (None, "1h", None, "needs a journal"),
        ("j", None, "25mo", "--compact-every"),
        ("j", "1h", "long", "not a duration"),
    ],
)
def test_options_that_make_no_sense_are_refused(journal: str | None, every: str | None, keep: str | None, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        schedule_of(journal, every, keep)
