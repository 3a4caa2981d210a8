"""Topics that are whole test suites: run with many cases, all of which must pass."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bench.claims import suites
from bench.claims.bars import none
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.figures import suite_failures

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

RUN = "suite"
CASES, QUICK_CASES = 4_096, 64
FUZZ_S, QUICK_FUZZ_S = 120, 10


def disk(stand: Stand) -> None:
    """A small tmpfs that is filled, torn tails, changed bytes, against a running server."""
    suites.keep(stand, RUN, suites.pytest("tests/e2e/test_journal_faults.py"))


def faults(stand: Stand) -> None:
    """The disk fails at every k-th call, in the journal's own tests."""
    suites.keep(stand, RUN, _tests("journal::tests::faults"))


def tamper(stand: Stand) -> None:
    """Bytes, frames and segments are changed at random."""
    cases = {"PROPTEST_CASES": str(QUICK_CASES if stand.quick else CASES)}
    suites.keep(stand, RUN, _tests("verify::tests"), cases)


def fuzz(stand: Stand) -> None:
    """The reader of segments is fed odd bytes."""
    seconds = QUICK_FUZZ_S if stand.quick else FUZZ_S
    if suites.run(["cargo", "fuzz", "--version"]).returncode:
        stand.not_measured("cargo-fuzz is missing; get it: cargo install --locked cargo-fuzz")
        return
    done = suites.run(["make", "fuzz", "ONLY=journal_segment", f"FUZZ_SECONDS={seconds}"])
    runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stdout + done.stderr)
    end = done.stderr[-500:] if done.returncode else ""
    stand.keep(RUN, {"exit": done.returncode, "inputs": int(runs[1]) if runs else 0, "end": end})


def _tests(name: str) -> list[str]:
    """The journal's own tests whose names have this in them."""
    return suites.cargo_test("flyball-journal", "--lib", name)


def _crashed(raw: Raw) -> Figure:
    found = raw[RUN]
    return Figure(
        int(found["exit"] != 0), f"{found['inputs']:,} inputs", "" if found["inputs"] else f"no inputs: {found['end']}"
    )


DISK = Topic(
    "disk",
    disk,
    subject="a small disk that is filled under a running server, tails torn, bytes changed",
    sample="every scenario of tests/e2e/test_journal_faults.py",
    claims=(
        Claim(
            "disk",
            "scenarios neither refused before a model runs, nor counted in gap records, nor detected and named",
            none(),
            suite_failures(RUN),
        ),
    ),
)
FAULTS = Topic(
    "faults",
    faults,
    subject="I/O errors and short writes in the journal's own tests",
    sample="an error at every k-th call",
    claims=(
        Claim(
            "faults", "tests in which an acknowledged record is lost or a corrupt log accepted", none(), suite_failures(RUN)
        ),
    ),
)
TAMPER = Topic(
    "tamper",
    tamper,
    subject="bytes flipped, frames and segments removed or moved, tails cut behind a checkpoint, at random",
    sample=f"{CASES:,} random cases of each property",
    claims=(Claim("tamper", "properties in which `verify` does not name the position", none(), suite_failures(RUN)),),
)
FUZZ = Topic(
    "fuzz",
    fuzz,
    subject="malformed bytes for the reader of segments",
    sample=f"{FUZZ_S} s",
    claims=(Claim("fuzz", "crashes, hangs or large allocations", none(), _crashed),),
)
