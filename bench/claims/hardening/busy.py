"""Topic `busy`: tests that depend on time pass in a row beside four busy processes.

They need the tests' own build, whose clock can be held; what ships is built again afterwards. Must not know the tests.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

TIMES, QUICK_TIMES, BESIDE = 50, 2, 4


def measure(stand: Stand) -> None:
    """One line for each suite: how many rounds passed in a row."""
    sys.path.insert(0, str(Path("tools").absolute()))
    times = QUICK_TIMES if stand.quick else TIMES
    _build("tested")
    try:
        _rounds(stand, times)
    finally:
        _build("release")


def _rounds(stand: Stand, times: int) -> None:
    import busy

    for suite in busy.SUITES:
        stand.tell(f"{suite}: {times} rounds beside {BESIDE} busy processes")
        passed, words = busy.rounds(suite, times=times, beside=BESIDE)
        stand.keep(f"busy {suite}", {"passed": passed, "times": times, "beside": BESIDE, "failed": words})
        name = f"tests of {suite} that depend on time, in a row beside {BESIDE} busy processes"
        stand.report.judge(name, f"{passed} of {times} rounds pass", f"{times} of {times}", holds=passed == times)


def _build(profile: str) -> None:
    subprocess.run(["make", f"PROFILE={profile}", "build"], check=True, stdout=subprocess.DEVNULL)  # noqa: S607
