"""Topic `busy`: timing-dependent tests pass repeatedly beside four busy processes.

They need the tests' own build, whose clock can be held; the build that ships
is restored if it was there. Must not know the tests.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims.bars import none
from bench.claims.claim import Claim, Topic
from bench.claims.figures import wrong_of

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

TIMES, QUICK_TIMES, BESIDE, AT_ONCE = 50, 2, 4, 4
SUITES = ("python", "rust")


def measure(stand: Stand) -> None:
    """One line for each suite: how many rounds passed in a row."""
    times = QUICK_TIMES if stand.quick else TIMES
    shipped = Path(".venv/built-dist").exists()
    _build("tested")
    try:
        for suite in SUITES:
            _rounds(stand, suite, times)
    finally:
        if shipped:
            _build("dist")


def _rounds(stand: Stand, suite: str, times: int) -> None:
    stand.tell(f"{suite}: {times} rounds, {AT_ONCE} at once, beside {BESIDE} busy processes")
    words = ["tools/busy.py", "--suite", suite, "--times", str(times), "--beside", str(BESIDE), "--at-once", str(AT_ONCE)]
    ended = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    passed = sum(": passed in " in line for line in ended.stdout.splitlines())
    failed = ended.stdout[-1000:] if ended.returncode else ""
    if failed:
        stand.tell(failed)
    stand.keep(suite, {"total": times, "wrong": times - passed, "examples": [failed] if failed else []})


def _build(profile: str) -> None:
    subprocess.run(["make", f"PROFILE={profile}", "build"], check=True, stdout=subprocess.DEVNULL)  # noqa: S607


TOPIC = Topic(
    "busy",
    measure,
    subject=f"tests that depend on time, {AT_ONCE} rounds at once beside {BESIDE} busy processes",
    sample=f"{TIMES} rounds",
    claims=tuple(
        Claim(suite, f"rounds in which a test of {suite.title()} fails", none(), wrong_of(suite)) for suite in SUITES
    ),
)
