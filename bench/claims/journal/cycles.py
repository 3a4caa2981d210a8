"""Kills a server under load repeatedly, and compares the log with the acknowledged decisions after each restart.

A killed process loses unwritten data; a machine that loses power loses unsynced data. Therefore in half of the cycles
some of the pages that the server wrote and did not fsync are wiped, as a disk may leave them. A life that is longer than
the loss window always ends so. Shared by `make test`, `make crash` and `make claim-journal`.
"""

from __future__ import annotations

import os
import random
import re
import signal
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.claims.journal import specs
from bench.claims.journal.callers import Callers
from bench.parts.unsynced import Unsynced
from flyball.bench.process import Process
from flyball.bench.stages import metrics
from flyball.errors import FlyballError
from flyball.native.boundary import ort_library
from flyball.native.journal import JournalLog
from tests.reference import journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

SYNC, BUFFERED = "pay-sync", "pay-buffered"
RECORD_FAILED = "urn:flyball:fault:record_failed"
CALLERS_EACH, ALIVE_MS = 2, (50, 500)
LONG_MS, LONG_EVERY = (2_200, 3_200), 10
"""One life of so many is longer than the default window of 2 s: only in it can a `buffered` record be lost too late."""
ROUND_CYCLES = 50
"""Cycles per log, which is verified whole after each of them."""
LOSS_MS_MAX, SYNC_MS = 400, 50
SMALL = {
    "journal_loss_ms_max": LOSS_MS_MAX,
    "journal_sync_ms": SYNC_MS,
    "journal_segment_bytes": 1 << 20,
    "journal_checkpoint_s": 1,
}
"""Settings with which few cycles see many segments, checkpoints and full windows; the claim has the defaults."""


@dataclass(slots=True)
class Found:
    """The cycles' results."""

    cycles: int = 0
    acknowledged: Counter[str] = field(default_factory=Counter)
    lost_buffered: int = 0
    oldest_lost_s: float = 0.0
    """For lost buffered decisions: the longest time between an answer and the last accepted request.

    Once the window is full none is accepted, so time until the kill loses nothing more.
    """
    window_s: float = 0.0
    outlived: int = 0
    """Cycles that ended in a power loss after more than the window."""
    refused: int = 0
    """Refused without a record in time, the declared behaviour with a slow disk."""
    recovered: int = 0
    wiped_bytes: int = 0
    """What power losses took."""
    started_s: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Killed:
    """A cycle to be checked."""

    callers: Callers
    at: float
    window_s: float
    first_segment: int
    life: _Life


def crash(
    flyballd: Path,
    folder: Path,
    cycles: int,
    seed: int,
    tell: Callable[[str], None],
    *,
    settings: Mapping[str, int] | None = None,
    cpus: Sequence[int] | None = None,
    long_every: int = 0,
) -> Found:
    """Run the cycles, at most `ROUND_CYCLES` per log; every so many has a long life, 0: none."""
    index = specs.snapshot(folder, {SYNC: "{durability: sync}", BUFFERED: "{durability: buffered}"})
    found, chance = Found(), random.Random(seed)
    for number, start in enumerate(range(0, cycles, ROUND_CYCLES)):
        place = folder / f"journal-{number}"
        config = specs.configured(folder / f"config-{number}.json", place, **(settings or {}))
        command = [str(flyballd), "--unsigned", "allow", "--snapshot", str(index), "--config", str(config)]
        command += ["--listen", "127.0.0.1:0"]
        server = _Server(command, Unsynced.over(place, folder), cpus, long_every)
        _round(server, place, min(ROUND_CYCLES, cycles - start), chance, found)
        tell(f"{found.cycles:,} cycles, {found.acknowledged.total():,} acknowledged, {len(found.wrong)} wrong")
    return found


@dataclass(frozen=True, slots=True)
class _Server:
    command: list[str]
    disk: Unsynced
    cpus: Sequence[int] | None
    long_every: int

    @contextmanager
    def running(self, found: Found) -> Iterator[Process]:
        environment = {"ORT_DYLIB_PATH": str(ort_library()), **self.disk.next_process()}
        began = time.monotonic()
        with Process(self.command, cpus=self.cpus, environment=environment) as process:
            found.started_s.append(time.monotonic() - began)
            yield process


@dataclass(frozen=True, slots=True)
class _Life:
    """How long a server lives, what it is asked meanwhile, and whether it ends with a power loss."""

    seconds: float
    decisions: tuple[str, ...]
    power_lost: bool


def _life(cycle: int, chance: random.Random, long_every: int) -> _Life:
    """In a long one nothing is `sync`, whose commits would sync `buffered` records as well."""
    if long_every and cycle % long_every == long_every - 1:
        return _Life(chance.uniform(*LONG_MS) / 1000, (BUFFERED,), power_lost=True)
    return _Life(chance.uniform(*ALIVE_MS) / 1000, (SYNC, BUFFERED), power_lost=chance.random() < 0.5)


def _round(server: _Server, place: Path, cycles: int, chance: random.Random, found: Found) -> None:
    killed: _Killed | None = None
    for _ in range(cycles):
        with server.running(found) as process:
            _check(place, killed, found)
            killed = _load_and_kill(process, place, _life(found.cycles, chance, server.long_every))
        if killed.life.power_lost:
            found.wiped_bytes += server.disk.lose_power(chance)
        found.cycles += 1
    with server.running(found):
        _check(place, killed, found)
    found.wrong += [f"{place.name}, closed: {fault}" for fault in _verify(place)]
    log = journal.segments(place)
    found.wrong += [f"{place.name}, the second reader: {fault}" for fault in journal.faults(log)]
    found.recovered += journal.kinds(log)["recovered"]


def _load_and_kill(process: Process, place: Path, life: _Life) -> _Killed:
    first = max((int(path.stem) for path in (place / "segments").glob("*.fbj")), default=1)
    with Callers(process.url, life.decisions, CALLERS_EACH) as callers:
        time.sleep(life.seconds)
        page = metrics(process.url)
        at = time.monotonic()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    # Preallocated space may have become a segment: this cycle could begin in the one before.
    return _Killed(callers, at, gauge(page, "flyball_journal_loss_window_seconds"), first - 1, life)


def _check(place: Path, killed: _Killed | None, found: Found) -> None:
    """Check the log after the next process has opened it, before any request."""
    if killed is None:
        return
    name = f"{place.name}, cycle {found.cycles}{', power lost' if killed.life.power_lost else ''}"
    found.wrong += [f"{name}: {fault}" for fault in _verify(place)]
    there = journal.ids(journal.segments(place, killed.first_segment))
    found.wrong += [f"{name}: {one.hex()} stands there {count} times" for one, count in there.items() if count > 1]
    found.window_s = max(found.window_s, killed.window_s)
    found.outlived += killed.life.power_lost and killed.life.seconds > killed.window_s
    for decision, told in killed.callers.told.items():
        found.acknowledged[decision] += len(told.decided)
        slow = [status for status, problem in told.refused if problem.get("type") == RECORD_FAILED]
        found.refused += len(slow)
        if len(slow) < len(told.refused):
            found.wrong.append(f"{name}: {decision} refused: {told.refused[:3]}")
        lost = {one: answered.came for one, answered in told.decided.items() if one not in there}
        if decision == SYNC:
            ages = {one.hex(): killed.at - at for one, at in lost.items()}
            found.wrong += [f"{name}: {one} was acknowledged {age:.3f} s before the kill" for one, age in ages.items()]
            continue
        last = max((answered.asked for answered in told.decided.values()), default=0.0)
        found.lost_buffered += len(lost)
        oldest = max((last - at for at in lost.values()), default=0.0)
        found.oldest_lost_s = max(found.oldest_lost_s, oldest)
        if oldest > killed.window_s:
            found.wrong.append(f"{name}: lost what was answered {oldest:.3f} s before the last, window {killed.window_s} s")


def _verify(place: Path) -> list[str]:
    return [finding.model_dump_json() for finding in JournalLog(place).verify().findings]


def gauge(page: str, name: str) -> float:
    """A gauge without labels."""
    line = re.search(rf"^{name} (\S+)$", page, re.MULTILINE)
    if line is None:
        raise FlyballError(f"/metrics has no {name}")
    return float(line[1])
