"""Random command lines: whatever is typed, the exit code is one of the documented table, and no traceback is shown.

The lines run in this process. Each command ends, as by Ctrl-C, where it would begin to serve, to follow a journal or to
measure: `serve`, `admin` and `control` before their first listener, `decisions tail` before its first record, `bench`
before its servers, and `demo` at once. What these verbs do from there on is left to the tests of those verbs.
FLYBALL_SEED sets another seed.
"""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import command_line, first_hour_folder, random_lines

LINES = 2_000
SEED = int(os.environ.get("FLYBALL_SEED", "22"))
HANGS_S = 180  # `decisions compact` works at idle priority: beside busy processes it waits for a core
ENDS = (
    "flyball.cli.serve.Signals",
    "flyball.cli.serve.become_serve",
    "flyball.cli.admin.Signals",
    "flyball.cli.control.Signals",
    "flyball.cli.demo._prepared",
    "flyball.decision_log.read.tail.follow",
    "flyball.bench.scenario_run.run_scenario",
    "flyball.bench.live.compare_live",
    "flyball.bench.live.gate_live",
)
# Words of an error that no verb expected: what a traceback would have shown.
UNEXPECTED = ("Traceback", "this is a bug", '"code": "unexpected"')


class Hangs(BaseException):
    """A command ran for minutes."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("FLYBALL_")]:
        monkeypatch.delenv(name)
    made = first_hour_folder.make(tmp_path)
    for target in ENDS:
        monkeypatch.setattr(target, _interrupted)
    monkeypatch.setattr("flyball.cli.starting_server.WAIT_S", 0)
    monkeypatch.chdir(made)
    return made


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("folder")
def test_random_lines_end_with_a_documented_exit_code_and_no_traceback() -> None:
    lines, codes = random_lines.Lines(SEED), command_line.documented_exit_codes()
    seen = set()
    bad = []
    for _ in range(LINES):
        words, stdin = lines.line()
        with _bounded(words):
            ending = command_line.flyball(*words, stdin=stdin)
        seen.add(ending.code)
        if ending.code not in codes or any(word in ending.text for word in UNEXPECTED):
            bad.append(f"flyball {shlex.join(words)} < {stdin!r}\n{ending.text}\n[exit code {ending.code}]")
    assert not bad, f"{len(bad)} lines of seed {SEED}:\n" + "\n\n".join(bad[:20])
    assert {0, 2, 3, 5} <= seen, f"the lines reach too little: {seen}"


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def _bounded(words: list[str]) -> Iterator[None]:
    def hangs(*_: object) -> None:
        raise Hangs(shlex.join(words))

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(HANGS_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
