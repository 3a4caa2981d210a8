"""Attempts with words that are both a remedy and an outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.claims.hardening.attempts import Seen, attempt
from bench.claims.hardening.commands import flyball, linear

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.hardening.attempts import Build

_SPEC = """
decision: card
owner: risk
purpose: a word with two meanings
input:
  a: {{type: float}}
  b: {{type: float}}
model: {{path: m.onnx, columns: [a, b], score: score}}
policy:
  bands: {{pass: "< 0.5", {outcome}: ">= 0.5"}}
remedies:
  timeout: {remedy}
"""


def _check(build: Build, folder: Path, outcome: str, remedy: str) -> tuple[int, str]:
    linear(folder / "m.onnx", 2)
    (folder / "card.yaml").write_text(_SPEC.format(outcome=outcome, remedy=remedy))
    ran = flyball(build, folder, "check", "card.yaml")
    return ran.returncode, f"{ran.stdout}\n{ran.stderr}"


@attempt("`timeout: reject` means an error 504, although `reject` is an outcome of the policy")
def timeout_reject(build: Build, folder: Path) -> Seen:
    """Its author meant the outcome."""
    code, told = _check(build, folder, "reject", "reject")
    if code == 0:
        line = next((line.strip() for line in told.splitlines() if "remedies" in line), "")
        return Seen(f"check says nothing; {line}: callers get an error and no outcome", holds=False)
    line = next(line for line in told.splitlines() if "timeout" in line)
    both = "error" in line and "{outcome: reject}" in line
    return Seen(line.strip()[:200], holds=both and _check(build, folder, "reject", "{outcome: reject}")[0] == 0)


@attempt("a policy with an outcome `retry` and the remedy `retry` checks, whichever of them was meant")
def remedy_that_is_an_outcome(build: Build, folder: Path) -> Seen:
    """Any word that is both."""
    code, told = _check(build, folder, "retry", "retry")
    if code == 0:
        return Seen("check says nothing", holds=False)
    return Seen(
        next(line for line in told.splitlines() if "timeout" in line).strip()[:200], holds="{outcome: retry}" in told
    )
