"""Mutants fit the code, their tests exist, and only a test that fails by itself catches one."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.claims.claim import OK, SHORT, Raw, judge
from bench.claims.truth import trial
from bench.claims.truth.checkout import Checkout, applies
from bench.claims.truth.mutants import MUTANTS, PATCHES, Mutant
from bench.claims.truth.suite import SUITE
from flyball.errors import FlyballError

ROOT = Path(__file__).resolve().parents[2]
MADE_UP = Mutant("off-by-one", "a count is off by one", ("tests::counts",), "core")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_patch_fits_the_code_and_changes_the_crate_that_is_compiled(mutant: Mutant) -> None:
    assert applies(mutant.patch, ROOT) == "", "write it anew, so that it breaks the same"
    folder = f"crates/{mutant.crate}/src/" if mutant.crate else ""
    changed = [line.split(" b/")[1] for line in mutant.patch.read_text().splitlines() if line.startswith("diff --git")]
    assert changed
    assert all(file.startswith(folder) and file.endswith(".rs" if mutant.crate else ".py") for file in changed)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_tests_of_every_mutant_exist(mutant: Mutant) -> None:
    for test in mutant.tests:
        file, _, name = test.rpartition("::")
        files = [ROOT / file] if mutant.in_python else sorted((ROOT / "crates" / mutant.crate).rglob("*.rs"))
        assert any(f" {name}(" in path.read_text() for path in files), test


def test_there_are_twelve_and_every_patch_belongs_to_one() -> None:
    assert len(MUTANTS) == 12
    assert {mutant.patch for mutant in MUTANTS} == set(PATCHES.glob("*.patch"))
    assert [topic.name for topic in SUITE.topics] == [mutant.name for mutant in MUTANTS]


def done(code: int, stdout: str, stderr: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess([], code, stdout, stderr)


RUST = """
running 2 tests
test tests::counts ... FAILED
test tests::adds ... ok

---- tests::counts stdout ----

thread 'tests::counts' (17) panicked at crates/core/src/lib.rs:7:5:
assertion `left == right` failed
"""
PYTHON = """
>       assert 2 == 1
E       assert 2 == 1
PASSED tests/unit/test_a.py::test_adds
FAILED tests/unit/test_a.py::test_counts - assert 2 == 1
ERROR tests/unit/test_a.py::test_begins - no such fixture
"""


def test_ends_of_tests_are_read_from_cargo_and_pytest() -> None:
    rust, python = trial.outcome_of(done(101, RUST)), trial.outcome_of(done(1, PYTHON))
    assert rust["ends"] == {"tests::counts": "failed", "tests::adds": "passed"}
    assert rust["said"] == "assertion `left == right` failed"
    assert python["ends"] == {"tests/unit/test_a.py::test_adds": "passed", "tests/unit/test_a.py::test_counts": "failed"}
    assert python["said"] == "assert 2 == 1"
    nothing = trial.outcome_of(done(4, "", "no such test"))
    assert (nothing["ends"], nothing["end"]) == ({}, "no such test")


def judged(without: dict[str, str], changed: dict[str, str], said: str = "assert 2 == 1") -> tuple[str, str]:
    ends = [{"ends": ends, "exit": 0, "said": said, "end": ""} for ends in (without, changed)]
    raw: dict[str, Any] = {"tests": ["a", "b"], "without": ends[0], "with": ends[1]}
    verdict = judge(SUITE.topics[0].claims[0], {trial.TRIAL: raw})
    return verdict.kind, verdict.reason


GOOD, BAD = {"a": "passed", "b": "passed"}, {"a": "failed", "b": "failed"}


def test_a_mutant_is_caught_if_each_of_its_tests_passes_without_it_and_fails_with_it() -> None:
    assert judged(GOOD, BAD) == (OK, "")
    assert judged(GOOD, {**BAD, "b": "passed"}) == (SHORT, "survives b")
    assert judged(GOOD, {"a": "failed"}) == (SHORT, "survives b"), "a test that never ended caught nothing"
    assert judged({**GOOD, "a": "failed"}, BAD) == (SHORT, "does not pass without the patch: a")
    assert judged(GOOD, BAD, "Failed: Timeout (>600.0s)") == (SHORT, "its tests end without an assertion that fails")
    assert judged(GOOD, BAD, "")[0] == SHORT
    assert "0 (2 of 2 fail, with `2 == 1`)" in trial_figure()


def trial_figure() -> str:
    ends = {"ends": BAD, "exit": 1, "said": "2 == 1", "end": ""}
    raw = {trial.TRIAL: {"tests": ["a", "b"], "without": {**ends, "ends": GOOD}, "with": ends}}
    figure = trial.missed(Raw(raw))
    return f"{figure.value} ({figure.beside})"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one file, with a patch for it."""
    monkeypatch.chdir(tmp_path)
    Path("count.py").write_text("count = 1\n")
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"]):
        subprocess.run(["git", *words], check=True)  # noqa: S607
    Path("off.patch").write_text("--- a/count.py\n+++ b/count.py\n@@ -1 +1 @@\n-count = 1\n+count = 2\n")
    return tmp_path


def test_a_checkout_has_the_patch_for_as_long_as_it_is_tried_and_the_own_tree_never(repository: Path) -> None:
    checkout = Checkout(repository / "parts" / "truth")
    file = checkout.folder / "count.py"
    with checkout.changed_by(repository / "off.patch"):
        assert file.read_text() == "count = 2\n"
        assert (repository / "count.py").read_text() == "count = 1\n"
    assert file.read_text() == "count = 1\n"
    file.write_text("left over\n")
    assert Checkout(checkout.folder).run(["cat", "count.py"]).stdout == "count = 1\n"


def test_a_patch_that_does_not_fit_is_refused_with_the_reason(repository: Path) -> None:
    checkout = Checkout(repository / "truth")
    (repository / "off.patch").write_text("--- a/count.py\n+++ b/count.py\n@@ -1 +1 @@\n-count = 7\n+count = 2\n")
    with pytest.raises(FlyballError, match=r"off.patch does not fit commit .* patch failed"):
        checkout.changed_by(repository / "off.patch").__enter__()


class Uncompiled(Checkout):
    """A checkout in which nothing compiles."""

    def __init__(self) -> None:
        self.folder, self.commit = Path(), "c" * 40

    def cargo(self, words: Any) -> subprocess.CompletedProcess[str]:
        return done(101, "", "error[E0308]: mismatched types")


def test_a_mutant_that_does_not_compile_is_not_caught() -> None:
    with pytest.raises(FlyballError, match="off-by-one does not compile: error"):
        trial.try_out(Uncompiled(), MADE_UP)
