"""Topic: the journal alone in one process: 50,000 records per second for a minute, partly personal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.claims.bars import at_least, at_most, none, per_s, times
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.suites import run
from flyball.errors import FlyballError, UsageError
from flyball.native.journal import JournalLog

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

POUR = Path("target/dist/examples/pour")
RATE_PER_S, SECONDS, QUICK_S = 50_000, 60, 3
RATE_MIN, MEMORY_WITHIN = 0.98, 0.05
POURED, VERIFIED = "poured", "verified"


def measure(stand: Stand) -> None:
    """Pour, then verify what was poured."""
    folder = stand.folder / "pour"
    wanted_s = str(QUICK_S if stand.quick else SECONDS)
    told = _told(folder, "--rate", str(RATE_PER_S), "--seconds", wanted_s)
    verified = JournalLog(folder).verify()
    findings = [finding.model_dump_json() for finding in verified.findings]
    stand.keep(POURED, told)
    stand.keep(VERIFIED, {"frames": verified.frames, "segments": verified.segments, "findings": findings[:10]})
    shutil.rmtree(folder)


def cost_us(stand: Stand) -> dict[str, float]:
    """CPU time of the offering thread for a record of a kilobyte: its place held, its buffers filled, offered."""
    folder = stand.folder / "cost"
    told: dict[str, float] = _told(folder, "--cost")["cost_us"]
    shutil.rmtree(folder)
    return told


def _told(folder: Path, *words: str) -> dict[str, Any]:
    """What the example says of itself, in its last line."""
    if not POUR.is_file():
        raise UsageError(f"{POUR} is not there", next_step="build it:  make claim-journal")
    done = run([str(POUR), str(folder), *words])
    if done.returncode:
        raise FlyballError(f"{POUR} ended with {done.returncode}: {done.stderr[-400:]}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _rate(raw: Raw) -> Figure:
    told = raw[POURED]
    lost = told["refused"] + told["missed"]
    return Figure(
        told["per_s"], f"records of {told['payload_bytes']:,.0f} bytes", f"{lost:,} have no record" if lost else ""
    )


def _memory(raw: Raw) -> Figure:
    first, last = raw[POURED]["rss_first_bytes"], raw[POURED]["rss_last_bytes"]
    return Figure(last / first, f"{first / 1e6:.1f} MB, {last / 1e6:.1f} MB")


def _findings(raw: Raw) -> Figure:
    found, poured = raw[VERIFIED], raw[POURED]["records"]
    fault = "" if found["frames"] >= poured else f"{poured:,} were poured"
    return Figure(len(found["findings"]), f"{found['frames']:,} records in {found['segments']} segments", fault)


TOPIC = Topic(
    "pour",
    measure,
    subject=f"{RATE_PER_S:,} records a second in one process, personal fields encrypted",
    sample=f"{SECONDS} s",
    claims=(
        Claim("rate", "records a second", at_least(RATE_MIN * RATE_PER_S, per_s, "none lost"), _rate),
        Claim("memory", "memory at the end over the start", at_most(1 + MEMORY_WITHIN, times), _memory),
        Claim("verify", "findings of `verify`", none("every record is there"), _findings),
    ),
)
