"""A mutant's trial: its tests without the patch and with it, as raw values, and what they say.

A mutant is caught if each of its tests passes without the patch, fails by an assertion with it, and everything compiled.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bench.claims.claim import Figure
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from bench.claims.claim import Raw
    from bench.claims.truth.checkout import Checkout
    from bench.claims.truth.mutants import Mutant

TRIAL = "trial"
PASSED, FAILED = "passed", "failed"
_RUST = re.compile(r"^test (?P<name>\S+)(?: - should panic)? \.\.\. (?P<end>ok|FAILED)$", re.MULTILINE)
_PYTHON = re.compile(r"^(?P<end>PASSED|FAILED) (?P<name>\S+)", re.MULTILINE)
_ENDS = {"ok": PASSED, "PASSED": PASSED, "FAILED": FAILED}
# What an assertion said: the line below Rust's place of a panic, pytest's lines of an error.
_SAID = re.compile(r"^thread .* panicked at .*\n(?P<rust>.+)$|^E +(?P<python>.+)$", re.MULTILINE)
_SAID_LONGEST, _END_LONGEST = 200, 600
_TIMED_OUT = "Failed: Timeout"
"""What pytest-timeout says; a test that hangs has not noticed what is wrong."""


def try_out(checkout: Checkout, mutant: Mutant) -> dict[str, Any]:
    """Run the mutant's tests without its patch and with it."""
    without = _tested(checkout, mutant)
    with checkout.changed_by(mutant.patch):
        changed = _tested(checkout, mutant)
    return {"commit": checkout.commit[:12], "tests": list(mutant.tests), "without": without, "with": changed}


def _tested(checkout: Checkout, mutant: Mutant) -> dict[str, Any]:
    if mutant.crate:
        _compile(checkout, mutant)
    if mutant.in_python:
        return outcome_of(checkout.pytest(mutant.tests))
    words = ["test", "-p", f"flyball-{mutant.crate}", *mutant.target, "--", "--exact", *mutant.tests]
    return outcome_of(checkout.cargo(words))


def _compile(checkout: Checkout, mutant: Mutant) -> None:
    """A mutant that does not compile proves nothing about tests."""
    tests = ["test", "-p", f"flyball-{mutant.crate}", *mutant.target, "--no-run"]
    done = checkout.cargo(["build", "-p", "flyballd"] if mutant.in_python else tests)
    if done.returncode != 0:
        raise FlyballError(f"{mutant.name} does not compile: {done.stderr[-_END_LONGEST:]}")


def outcome_of(done: CompletedProcess[str]) -> dict[str, Any]:
    """How each test ended that ended by passing or failing, and what the first failure said."""
    found = [*_RUST.finditer(done.stdout), *_PYTHON.finditer(done.stdout)]
    said = _SAID.search(done.stdout)
    words = (said["rust"] or said["python"]).strip() if said else ""
    return {
        "ends": {one["name"]: _ENDS[one["end"]] for one in found},
        "exit": done.returncode,
        "said": words[:_SAID_LONGEST],
        "end": "" if found else (done.stdout + done.stderr)[-_END_LONGEST:],
    }


def missed(raw: Raw) -> Figure:
    """How many of the named tests do not fail with the patch; the mutant survives if there is one."""
    found = raw[TRIAL]
    changed, without = found["with"], found["without"]
    survived = [test for test in found["tests"] if changed["ends"].get(test) != FAILED]
    broken = [test for test in found["tests"] if without["ends"].get(test) != PASSED]
    fault = ""
    if broken:
        fault = f"does not pass without the patch: {', '.join(broken)} {without['end']}".strip()
    elif survived:
        fault = f"survives {', '.join(survived)} {changed['end']}".strip()
    elif not changed["said"] or _TIMED_OUT in changed["said"]:
        fault = "its tests end without an assertion that fails"
    said = f", with `{changed['said']}`" if changed["said"] else ""
    return Figure(len(survived), f"{len(found['tests']) - len(survived)} of {len(found['tests'])} fail{said}", fault)
