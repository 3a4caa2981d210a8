"""Topics that are whole test suites: run with many cases, all of which must pass."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bench.claims import suites

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand

CASES, QUICK_CASES = 4_096, 64
FUZZ_S, QUICK_FUZZ_S = 120, 10


def disk(stand: Stand) -> None:
    """A small tmpfs that is filled, torn tails, changed bytes, against a running server."""
    command = suites.pytest("tests/e2e/test_journal_faults.py")
    suites.record(stand, "disk filled, tails torn, bytes changed under a running server", command)


def faults(stand: Stand) -> None:
    """The disk fails at every k-th call, in the journal's own tests."""
    suites.record(stand, "I/O errors and short writes at every k-th call", _tests("journal::tests::faults"))


def tamper(stand: Stand) -> None:
    """Bytes, frames and segments are changed at random."""
    cases = {"PROPTEST_CASES": str(QUICK_CASES if stand.quick else CASES)}
    claim = f"tampering, {cases['PROPTEST_CASES']} random cases each: verify names the place"
    suites.record(stand, claim, _tests("verify::tests"), cases)


def fuzz(stand: Stand) -> None:
    """The reader of segments is fed odd bytes."""
    seconds = QUICK_FUZZ_S if stand.quick else FUZZ_S
    claim, bar = f"fuzzing the segment reader, {seconds} s", "no crash, hang or large allocation"
    if suites.run(stand, ["cargo", "fuzz", "--version"]).returncode:
        stand.report.not_measured(claim, bar, "cargo-fuzz is missing; get it: cargo install --locked cargo-fuzz")
        return
    done = suites.run(stand, ["make", "fuzz", "ONLY=journal_segment", f"FUZZ_SECONDS={seconds}"])
    runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stdout + done.stderr)
    figure = f"{int(runs[1]):,} inputs" if runs else f"ended with {done.returncode}: {done.stderr[-200:]}"
    stand.report.record(claim, figure, bar, holds=done.returncode == 0 and runs is not None)


def _tests(name: str) -> list[str]:
    """The journal's own tests whose names have this in them."""
    return suites.cargo_test("flyball-journal", "--lib", name)
