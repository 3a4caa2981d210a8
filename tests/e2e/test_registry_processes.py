"""Several processes and one registry: who is faster wins, who is killed leaves nothing half, and a lost database is told."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from flyball.registry.events.verify import verify
from flyball.registry.tables.database import Database
from tests.support import external_servers, registry_events
from tests.support.registry_events import registered
from tests.support.serving import REPOSITORY, Lines, environment

FULL = os.environ.get("FLYBALL_TESTS") == "full"
ROUNDS, KILLS = (200, 50) if FULL else (5, 8)
SEED = 20261116


class Writer:
    """A process of `registry_writer.py` and what it says."""

    def __init__(self, job: str, url: str, actor: str) -> None:
        paths = f"{REPOSITORY / 'python'}:{REPOSITORY}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.registry_writer", job, url, actor],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**environment(), "PYTHONPATH": paths},
            start_new_session=True,
        )  # fmt: skip
        assert self.process.stdin
        assert self.process.stdout
        self._stdin, self._said, self._taken = self.process.stdin, Lines(self.process.stdout), 0

    def go(self) -> None:
        self._stdin.write("\n")
        self._stdin.flush()

    def hears(self, *keys: str) -> dict[str, Any]:
        """The next document that has one of these keys."""
        place = -1

        def match(line: str) -> dict[str, Any] | None:
            nonlocal place
            place += 1
            document = json.loads(line)
            return document if place >= self._taken and any(key in document for key in keys) else None

        found = self._said.wait_for(match, 20)
        assert found is not None, f"it never said {keys}: {self._said.all()[-3:]}"
        self._taken = place + 1
        return found

    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._said.all() if line.startswith("{") and line.endswith("}")]

    def kill(self) -> None:
        """End it and its child."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        self._said.join()


@pytest.fixture
def start() -> Iterator[Any]:
    running: list[Writer] = []

    def started(*words: str) -> Writer:
        running.append(Writer(*words))
        return running[-1]

    yield started
    for writer in running:
        writer.kill()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path) -> str:
    sqlite = request.param == "sqlite"
    return registry_events.new_sqlite(tmp_path) if sqlite else request.getfixturevalue("postgres").new_database()


def test_of_two_who_promote_at_once_one_wins_and_the_other_is_told_who_did_what(url, start):
    database, log = registry_events.opened(url)
    log.append_all([registered("fraud", 1)])
    writers = {actor: start("race", url, actor) for actor in ("ana", "bo")}
    for _ in range(ROUNDS):
        for writer in writers.values():
            writer.go()
        assert {writer.hears("seen")["seen"] for writer in writers.values()} == {log.revision("fraud")}
        for writer in writers.values():
            writer.go()
        answers = {actor: writer.hears("won", "lost") for actor, writer in writers.items()}
        (winner,) = (actor for actor, answer in answers.items() if "won" in answer)
        (loser,) = (answer for answer in answers.values() if "lost" in answer)
        assert loser["code"] == "registry_conflict"
        assert f"{winner} (not authenticated) promoted fraud@1 to production (better)" in loser["lost"]
        assert "flyball registry history fraud" in loser["lost"]
    assert log.head().sequence == 1 + ROUNDS
    assert verify(database).holds
    database.close()


def test_a_writer_that_is_killed_leaves_whole_events_and_everything_that_it_acknowledged(url, start):
    chance = random.Random(SEED)
    database, log = registry_events.opened(url)
    log.append_all([registered("fraud", 1)])
    writer = start("pour", url, "ana")
    for _ in range(KILLS):
        writer.go()
        child = writer.hears("pid")["pid"]
        for _ in range(chance.randint(1, 12)):
            writer.hears("kept")
        os.kill(child, signal.SIGKILL)
        writer.hears("ended")
        kept = [answer for answer in writer.all() if "kept" in answer]
        assert all(log.get(answer["kept"]).hash == answer["hash"] for answer in kept)
        assert log.head().sequence % 2 == 1, "half of what was written as one is there"
        verdict = verify(database)
        assert verdict.holds, [str(finding) for finding in verdict.findings]
    database.close()


def test_a_database_that_is_killed_is_told_and_nothing_is_half_there_when_it_is_back(start):
    with external_servers.postgres() as server:
        url = server.new_database()
        database, log = registry_events.opened(url)
        log.append_all([registered("fraud", 1)])
        writer = start("pour", url, "ana")
        writer.go()
        for _ in range(3):
            writer.hears("kept")
            server.kill()
            lost = writer.hears("lost")
            assert lost["code"] == "registry_unavailable"
            assert "cannot be reached" in lost["lost"]
            server.run()
            writer.hears("kept")
        writer.kill()
        kept = [answer for answer in writer.all() if "kept" in answer]
        assert all(log.get(answer["kept"]).hash == answer["hash"] for answer in kept)
        assert log.head().sequence % 2 == 1, "half of what was written as one is there"
        assert verify(database).holds
        database.close()


def test_a_writer_that_another_one_keeps_waiting_is_told_that_the_registry_is_busy(tmp_path, monkeypatch):
    from flyball.errors import RegistryUnavailableError

    monkeypatch.setattr("flyball.registry.tables.database.WAIT_MS_MAX", 50)
    url = registry_events.new_sqlite(tmp_path)
    database, _log = registry_events.opened(url)
    other, log = registry_events.opened(url)
    with database.writing(), pytest.raises(RegistryUnavailableError, match="is busy") as refused:
        log.append_all([registered("fraud", 1)])
    assert "nothing was changed" in str(refused.value)
    assert log.append_all([registered("fraud", 1)])[0].sequence == 1
    for opened in (database, other):
        opened.close()


def test_readers_are_not_kept_waiting_by_a_writer(url):
    database, log = registry_events.opened(url)
    log.append_all([registered("fraud", 1)])
    other = Database.open(url)
    with database.writing():
        assert registry_events.EventLog(other).head().sequence == 1
    for opened in (database, other):
        opened.close()
