"""Topic: the scenario in one command writes table, page and plots."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from bench.claims.bars import none
from bench.claims.claim import Claim, Figure, Topic

if TYPE_CHECKING:
    from bench.claims.claim import Raw
    from bench.claims.tails.stand import Stand

WANTED = {".html": 1, ".json": 1, ".png": 4}


def measure(stand: Stand) -> None:
    """Run it and look at its folder."""
    out = stand.folder / "out"
    command = [sys.executable, "-m", "flyball", "bench", "--scenario", "fraud-gbdt", "--quick", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    made = sorted(path.suffix for path in out.iterdir()) if out.is_dir() else []
    stand.keep("ended", {"exit": done.returncode, "made": made, "end": done.stderr[-300:] if done.returncode else ""})


def _missing(raw: Raw) -> Figure:
    ended = raw["ended"]
    missing = sum(max(count - ended["made"].count(suffix), 0) for suffix, count in WANTED.items())
    fault = f"exit {ended['exit']}: {ended['end']}" if ended["exit"] else ""
    return Figure(missing, f"{ended['made'].count('.png')} PNGs", fault)


TOPIC = Topic(
    "command",
    measure,
    subject="`flyball bench --scenario fraud-gbdt --quick`",
    sample="one run",
    claims=(Claim("files", "of record, page and four PNGs: missing", none("exit 0"), _missing),),
)
