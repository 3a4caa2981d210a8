"""Topic: each example, run by its one command from a fresh copy, with nothing prepared. Must not know what they decide."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from bench.claims.bars import at_most, seconds
from bench.claims.claim import Claim, Figure, Topic

if TYPE_CHECKING:
    from bench.claims.claim import Raw
    from bench.claims.tails.stand import Stand

EXAMPLES = ("ad-ranking", "card-fraud", "credit")
SECONDS_MAX, TIMEOUT_S, RAN = 60, 300, "examples"


def measure(stand: Stand) -> None:
    """Run each example once, one after the other."""
    stand.keep(RAN, {name: _run(name) for name in EXAMPLES})


def _run(name: str) -> dict[str, object]:
    with TemporaryDirectory(prefix="fb-") as folder:
        copied = Path(folder, "examples")
        shutil.copytree("examples", copied, ignore=shutil.ignore_patterns("made", "__pycache__"))
        command = [sys.executable, str(Path("examples", name, "run.py"))]
        began = time.monotonic()
        try:
            ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            fault = (ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"])[-1] if ran.returncode else ""
        except subprocess.TimeoutExpired:
            fault = f"did not end within {TIMEOUT_S} s"
        took_s = time.monotonic() - began
        if not fault and not Path(copied, name, "made", f"{name}.png").is_file():
            fault = "made no picture"
    return {"seconds": took_s, "fault": fault}


def _slowest(raw: Raw) -> Figure:
    found = raw[RAN]
    name = max(found, key=lambda one: found[one]["seconds"])
    faults = [f"{one}: {ran['fault']}" for one, ran in found.items() if ran["fault"]]
    return Figure(found[name]["seconds"], name, "; ".join(faults))


TOPIC = Topic(
    "examples",
    measure,
    subject="card fraud, credit and ad ranking, each by `python run.py` from a fresh copy, until its table and its picture",
    sample="once each, one after the other",
    claims=(
        Claim(
            "slowest",
            "the slowest example, data and training included",
            at_most(SECONDS_MAX, seconds, "all end well"),
            _slowest,
        ),
    ),
)
