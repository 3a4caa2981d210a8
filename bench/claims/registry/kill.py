"""Topic: 100 times `kill -9` at random points of register, sign, promote and rollback. Acknowledged acts survive."""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import IO, TYPE_CHECKING, Any

from bench.claims.bars import none
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.registry.writer import prepare
from flyball.errors import FlyballError
from flyball.native.boundary import ort_library
from flyball.registry.acts.registry import Registry

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.tails.stand import Stand
    from flyball.registry.home import Home

FOUND = "found"
ACTS = ("register", "sign", "promote", "rollback")
CYCLES, QUICK_CYCLES, SEED = 100, 5, 20261116
ALIVE_MS = (5, 500)
_ANSWER_S = 60.0
_PAST_THE_FIRST = 0.75


@dataclass(slots=True)
class Found:
    """What all the kills showed."""

    acknowledged: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    opened_s: list[float] = field(default_factory=list)
    events: int = 0
    versions: int = 0


def measure(stand: Stand) -> None:
    """Kill, open, verify; again."""
    folder = stand.folder / "kill"
    folder.mkdir()
    home, chance, found = prepare(folder), random.Random(SEED), Found()
    cycles = QUICK_CYCLES if stand.quick else CYCLES
    with _writer(folder) as process:
        heard = _Heard(process)
        heard.until("warm")
        for cycle in range(cycles):
            _cycle(home, heard, chance, found)
            if cycle % 10 == 9:
                stand.tell(f"{cycle + 1} kills, {sum(found.acknowledged.values())} acts acknowledged")
        process.kill()
    stand.keep(FOUND, {**{key: getattr(found, key) for key in Found.__slots__}, "cycles": cycles})


def _cycle(home: Home, heard: _Heard, chance: random.Random, found: Found) -> None:
    """One child's life, and what it left."""
    heard.go()
    child = heard.until("pid")["pid"]
    # Loading ONNX Runtime is most of a child's first act: some are killed in it, most of them later.
    kept = [heard.until("act")] if chance.random() < _PAST_THE_FIRST else []
    time.sleep(chance.uniform(*ALIVE_MS) / 1e3)
    os.kill(child, signal.SIGKILL)
    kept += heard.acts_until("ended")
    begun = time.monotonic()
    registry = Registry.open(home)
    try:
        head = registry.head()
        found.opened_s.append(time.monotonic() - begun)
        for act in kept:
            found.acknowledged[act["act"]] += 1
            if act["sequence"] > head.sequence or registry.handle.log.get(act["sequence"]).hash != act["hash"]:
                found.wrong.append(f"{act['act']} was acknowledged as event {act['sequence']} and is not there")
        verified = registry.verify()
        found.wrong += verified.findings
        found.events, found.versions = verified.events, verified.versions
    finally:
        registry.close()


class _Heard:
    """What the writer says, a line at a time, each awaited for so long at most."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def go(self) -> None:
        """Let it fork another child."""
        _pipe(self._process.stdin).write("\n")
        _pipe(self._process.stdin).flush()

    def until(self, key: str) -> dict[str, Any]:
        """The next line with this key; others are passed by."""
        while key not in (line := self._line()):
            pass
        return line

    def acts_until(self, key: str) -> list[dict[str, Any]]:
        """The lines before the next one with this key."""
        acts = []
        while key not in (line := self._line()):
            acts.append(line)
        return acts

    def _line(self) -> dict[str, Any]:
        try:
            text = self._lines.get(timeout=_ANSWER_S)
        except queue.Empty as error:
            raise FlyballError("the writer says nothing") from error
        if not text:
            raise FlyballError(f"the writer ended with {self._process.wait()}")
        line: dict[str, Any] = json.loads(text)
        return line

    def _read(self) -> None:
        for line in _pipe(self._process.stdout):
            self._lines.put(line)
        self._lines.put("")


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None  # noqa: S101 - asked for when it was started
    return stream


def _writer(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench.claims.registry.writer", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "ORT_DYLIB_PATH": str(ort_library())},
    )


def _lost(raw: Raw) -> Figure:
    found = raw[FOUND]
    acts = ", ".join(f"{count} {act}" for act, count in sorted(found["acknowledged"].items()))
    missing = [act for act in ACTS if not found["acknowledged"].get(act)]
    fault = found["wrong"][0] if found["wrong"] else f"no acknowledged {missing[0]}" if missing else ""
    return Figure(len(found["wrong"]), acts, fault)


def _not_opened(raw: Raw) -> Figure:
    found, opened = raw[FOUND], raw[FOUND]["opened_s"]
    told = f"{median(opened) * 1e3:.0f} ms, at most {max(opened) * 1e3:.0f} ms; "
    told += f"{found['events']} events, {found['versions']} versions"
    return Figure(found["cycles"] - len(opened), told)


TOPIC = Topic(
    "kill",
    measure,
    subject=f"`kill -9` {ALIVE_MS[0]} to {ALIVE_MS[1]} ms into {', '.join(ACTS[:-1])} and {ACTS[-1]}",
    sample=f"{CYCLES} kills",
    claims=(
        Claim("acts", "faults: acknowledged acts lost; events, tables or artifacts that do not verify", none(), _lost),
        Claim("opens", "kills after which the registry does not open", none(), _not_opened),
    ),
)
