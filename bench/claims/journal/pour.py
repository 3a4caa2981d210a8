"""Topic: the journal alone in one process: 50,000 records per second for a minute, partly personal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.claims.suites import run
from flyball.errors import FlyballError, UsageError
from flyball.native.journal import JournalLog

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

POUR = Path("target/dist/examples/pour")
RATE_PER_S, SECONDS, QUICK_S = 50_000, 60, 3
RATE_MIN, MEMORY_WITHIN = 0.98, 0.05


def measure(stand: Stand) -> None:
    """Pour, then verify what was poured."""
    folder = stand.folder / "pour"
    wanted_s = str(QUICK_S if stand.quick else SECONDS)
    told = _told(stand, folder, "--rate", str(RATE_PER_S), "--seconds", wanted_s)
    stand.keep("poured", told)
    title = (
        f"{RATE_PER_S:,} records/s of {told['payload_bytes']:,.0f} bytes, personal fields encrypted, {told['seconds']:.0f} s"
    )
    figure = f"{told['per_s']:,.0f}/s, {told['refused']:,} refused, {told['missed']:,} without a record"
    holds = told["per_s"] >= RATE_MIN * RATE_PER_S and not told["refused"] and not told["missed"]
    stand.report.record(title, figure, f">= {RATE_MIN * RATE_PER_S:,.0f}/s, none lost", holds=holds)
    grown = told["rss_last_bytes"] / told["rss_first_bytes"]
    figure = f"{grown:.3f} times ({told['rss_first_bytes'] / 1e6:.1f} MB, {told['rss_last_bytes'] / 1e6:.1f} MB)"
    stand.report.record(f"{title}: memory", figure, f"within {MEMORY_WITHIN:.0%}", holds=grown <= 1 + MEMORY_WITHIN)
    verified = JournalLog(folder).verify()
    figure = f"{verified.frames:,} records in {verified.segments} segments, {len(verified.findings)} findings"
    stand.report.record(
        f"{title}: verify", figure, "green", holds=not verified.findings and verified.frames >= told["records"]
    )
    shutil.rmtree(folder)


def cost_us(stand: Stand) -> dict[str, float]:
    """CPU time of the offering thread for a record of a kilobyte: its place held, its buffers filled, offered."""
    folder = stand.folder / "cost"
    told: dict[str, float] = _told(stand, folder, "--cost")["cost_us"]
    shutil.rmtree(folder)
    return told


def _told(stand: Stand, folder: Path, *words: str) -> dict[str, Any]:
    """What the example says of itself, in its last line."""
    if not POUR.is_file():
        raise UsageError(f"{POUR} is not there", next_step="build it:  make claim-journal")
    done = run(stand, [str(POUR), str(folder), *words])
    if done.returncode:
        raise FlyballError(f"{POUR} ended with {done.returncode}: {done.stderr[-400:]}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told
