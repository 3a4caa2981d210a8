"""Topic: `flyball optimize` killed after each step and during the next; it resumes where it stopped."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from bench.claims.bars import none
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.convert import networks
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.tails.stand import Stand

STEPS, WAIT_S, SEED = 11, 300.0, 10
_ROWS = 600
FOUND = "found"


def measure(stand: Stand) -> None:
    """One run, killed twice a step; then the same once more without a kill, in another folder."""
    trained = networks.spoilt(stand.folder, _ROWS)
    words = ["optimize", str(trained.model), "--data", str(trained.rows), "--target", "label", "--seconds", "0.5", "--json"]
    work, chance = stand.folder / "killed", random.Random(SEED)
    again: list[str] = []
    places = (3, 6, 9) if stand.quick else range(1, STEPS + 1)
    kills = 0
    for place in places:
        for late_s in (0.0, chance.uniform(0.05, 1.0)):
            before = _kept(work)
            _killed(words, work, place, late_s)
            kills += 1
            again += [path for path, written in before.items() if _kept(work).get(path) != written]
    ended = _finished([*words, "--out", str(work)])
    whole = _finished([*words, "--out", str(stand.folder / "whole")])
    same = _judged(ended) == _judged(whole)
    stand.keep(FOUND, {"kills": kills, "again": again, "same": same})


def _killed(words: list[str], work: Path, place: int, late_s: float) -> None:
    """Start, wait until the step is kept (and some time into the next), and kill."""
    command = [sys.executable, "-m", "flyball", *words, "--out", str(work)]
    deadline = time.monotonic() + WAIT_S
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        while not any(path.startswith(f"{place:02}-") for path in _kept(work)):
            if run.poll() is not None or time.monotonic() > deadline:
                told = run.stderr.read()[-300:] if run.stderr else ""
                run.kill()
                raise FlyballError(f"step {place} was never kept: {told}")
            time.sleep(0.002)
        time.sleep(late_s)
        run.kill()


def _kept(work: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (work / "steps").glob("*.json")}


def _finished(words: list[str]) -> dict[str, Any]:
    ended = subprocess.run([sys.executable, "-m", "flyball", *words], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise FlyballError(ended.stderr.strip()[-300:])
    report: dict[str, Any] = json.loads(ended.stdout)
    return report


def _judged(report: dict[str, Any]) -> list[tuple[str, bool]]:
    return [(line["name"], line["accepted"]) for line in report["choice"]["lines"]]


def _again(raw: Raw) -> Figure:
    found = raw[FOUND]
    return Figure(len(found["again"]), f"{found['kills']} kills", "" if found["same"] else "the verdicts differ")


TOPIC = Topic(
    "killed",
    measure,
    subject="`flyball optimize`, killed after each stored step and during the next",
    sample=f"{2 * STEPS} kills",
    claims=(Claim("again", "finished steps that run again", none("the same verdicts as without a kill"), _again),),
)
