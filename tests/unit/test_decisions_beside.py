"""Compaction beside a server: a child that gives way, one at a time, and ends with it."""

import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flyball.cli.app import application
from flyball.cli.compaction import schedule_of
from flyball.decision_log.retention.background import Schedule, compact_command
from flyball.decision_log.retention.retired import read_retired
from flyball.errors import UsageError
from tests.support import journal_folders
from tests.support.serving import until


def test_a_schedule_runs_its_command_again_and_again_and_never_two_at_once(tmp_path: Path) -> None:
    notes = tmp_path / "runs"
    script = (
        "import sys, os, pathlib; folder = pathlib.Path(sys.argv[1]); folder.mkdir(); "
        "os.rmdir(folder); open(str(folder) + '.log', 'a').write('x')"
    )
    schedule = Schedule([sys.executable, "-c", script, str(notes)], every_s=0.0)
    log = tmp_path / "runs.log"

    def ran_twice() -> bool:
        schedule.tick()
        return log.exists() and len(log.read_text()) >= 2

    until("two runs", ran_twice)
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


def test_the_command_compacts_in_a_child_of_low_priority(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    journal_folders.filled(tmp_path, [3])
    answer = CliRunner().invoke(application(), ["decisions", "compact", "--journal-folder", str(tmp_path)])
    assert answer.exit_code == 0, capfd.readouterr().err
    assert list(read_retired(tmp_path)) == [1]
    assert "1 segment, 3 records" in capfd.readouterr().err
    assert os.nice(0) < 10, "this process is as it was"


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
