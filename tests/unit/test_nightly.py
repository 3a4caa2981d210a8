"""`make nightly`: what it runs next, what counts as passed, and what its page tells."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import nightly
import nightly_page
import nightly_steps
from nightly import FAILED, PASSED, SKIPPED, Night, Result
from nightly_steps import Need, Step

ROOT = nightly.ROOT
STEPS = [Step(name, f"what {name} does", ("true",), 1) for name in ("a", "b", "c")]
SHELL = Step("shell", "a line of sh", (), 1)


def shell(line: str, **more: object) -> Step:
    return replace(SHELL, command=("sh", "-c", line), **more)


def attempt(step: Step, folder: Path) -> Result:
    return nightly.attempt(step, folder / "log", changed=False)


def test_every_step_has_a_name_of_its_own_and_what_it_needs_is_known() -> None:
    steps = nightly_steps.steps(ROOT)
    assert len({step.name for step in steps}) == len(steps)
    assert all(re.fullmatch(r"[a-z][a-z0-9_-]*", step.name) for step in steps)
    assert {need for step in steps for need in step.needs} <= nightly_steps.NEEDS.keys()
    assert sum(step.name.startswith("fuzz-") for step in steps) == len(list((ROOT / "fuzz/fuzz_targets").glob("*.rs")))


def test_every_target_that_a_step_calls_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([\w./-]+):", makefile, re.MULTILINE)) | {"build"}
    for step in nightly_steps.steps(ROOT):
        called = [word for command in (step.command, *step.before) if command[0] == "make" for word in command[1:]]
        assert {*step.fetch, *(word for word in called if "=" not in word)} <= targets, step.name


def test_every_suite_of_claims_is_a_step() -> None:
    suites = {path.parent.name for path in (ROOT / "bench/claims").glob("*/__main__.py")}
    assert set(nightly_steps.SUITES.split()) == suites


def test_what_has_a_result_is_not_run_again_but_what_was_skipped_is() -> None:
    results = {"a": Result(PASSED), "b": Result(SKIPPED)}
    assert [step.name for step in nightly.remaining(STEPS, results, [])] == ["b", "c"]
    assert [step.name for step in nightly.remaining(STEPS, {**results, "c": Result(FAILED)}, [])] == ["b"]
    assert [step.name for step in nightly.remaining(STEPS, results, ["a"])] == ["a"]


def test_a_run_goes_on_where_an_earlier_one_of_the_same_commit_stopped(tmp_path: Path) -> None:
    night = Night.of("abc", tmp_path / "nightly")
    night.results["a"] = Result(PASSED, seconds=1.5, seed=7, notes=["3 passed"])
    night.store(STEPS)
    assert Night.of("abc", tmp_path / "nightly").results == night.results
    assert Night.of("abd", tmp_path / "nightly").results == {}
    assert night.page.read_text().startswith("# Nightly of abc\n")


def test_a_step_that_succeeds_is_passed_and_one_that_does_not_is_failed_with_its_last_lines(tmp_path: Path) -> None:
    assert attempt(shell("exit 0"), tmp_path).state == PASSED
    failed = attempt(shell("seq 100; exit 3"), tmp_path)
    assert (failed.state, failed.why) == (FAILED, "exit code 3")
    assert failed.tail == [str(number) for number in range(61, 101)]


def test_a_short_window_may_miss_its_bar_but_a_suite_must_come_to_its_end(tmp_path: Path) -> None:
    told = "9 claims: 7 ok, 1 fall short, 1 not measured"
    quick = {"says": nightly_steps.QUICK}
    short = attempt(
        shell(f"echo 'not measured   a claim   –   < 3   (no Redis)'; echo '{told}. Record: none'; exit 2", **quick),
        tmp_path,
    )
    assert (short.state, short.notes) == (PASSED, [told, "not measured: no Redis"])
    assert attempt(shell("echo Traceback; exit 1", **quick), tmp_path).state == FAILED


def test_without_its_tool_or_its_download_a_step_is_skipped_and_the_reason_says_what_to_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(nightly_steps.NEEDS, "a saw", Need(("false",), "buy one"))
    skipped = attempt(shell("exit 1", needs=("a saw",)), tmp_path)
    assert (skipped.state, skipped.why) == (SKIPPED, "a saw is missing; get it: buy one")
    skipped = attempt(shell("exit 1", fetch=("no-such-target",)), tmp_path)
    assert skipped.state == SKIPPED
    assert skipped.why.startswith("no-such-target cannot be fetched: make: *** No rule to make target")


def test_a_step_whose_ground_is_missing_fails(tmp_path: Path) -> None:
    failed = attempt(shell("exit 0", before=(("sh", "-c", "exit 5"),)), tmp_path)
    assert (failed.state, failed.why) == (FAILED, "exit code 5 of sh -c 'exit 5'")


def test_a_step_that_does_not_end_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    step = shell(f"sleep 600 & echo $! > {tmp_path / 'pid'}; wait", minutes_max=0.01)
    failed = attempt(step, tmp_path)
    assert (failed.state, failed.why) == (FAILED, "no end within 0.01 minutes")
    status = Path("/proc", (tmp_path / "pid").read_text().strip(), "status")
    assert not status.exists() or "zombie" in status.read_text()


def test_a_seed_is_drawn_for_the_steps_that_have_a_place_for_it_and_told_with_the_line_that_repeats_them(
    tmp_path: Path,
) -> None:
    step = shell("echo {seed}", environment={"THE_SEED": nightly_steps.SEED})
    result = attempt(step, tmp_path)
    assert result.command == f"THE_SEED={result.seed} sh -c 'echo {result.seed}'"
    assert attempt(shell("exit 0"), tmp_path).seed is None


def test_what_make_nightly_was_called_with_does_not_reach_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAKEFLAGS", "ONLY", "STRICT"):
        monkeypatch.setenv(name, "1")
    assert attempt(shell('test -z "$MAKEFLAGS$ONLY$STRICT"'), tmp_path).state == PASSED


def test_notes_have_the_counts_and_what_was_left_out() -> None:
    output = (
        "test result: ok. 40 passed; 0 failed\ntest result: ok. 2 passed; 0 failed\n"
        "without s3: make test-full fetches it (19 tests)\n1203 passed, 19 skipped in 80.11s\n1 failed\n"
    )
    assert nightly.notes_of(output, "") == [
        "without s3: make test-full fetches it (19 tests)",
        "1203 passed, 19 skipped in 80.11s",
        "42 Rust tests passed",
    ]


RESULTS = {
    "a": Result(PASSED, seconds=90.0, seed=7, notes=["3 passed"], changed=True),
    "b": Result(FAILED, why="exit code 1", seconds=3.0, command="make b", tail=["it broke"]),
    "c": Result(SKIPPED, why="c is missing; get it: make c"),
}


def test_the_page_tells_what_ran_what_failed_with_its_output_and_what_was_skipped_with_its_reason() -> None:
    page = nightly_page.page("abc", [*STEPS, replace(SHELL, name="d")], RESULTS)
    assert "1 passed, 1 failed, 1 skipped, 1 not yet run. 2 min in all" in page
    assert "| a* | what a does | passed | 2 min | 3 passed; seed 7 |" in page
    assert "### b: exit code 1\n\n```\n$ make b\nit broke\n```" in page
    assert "## Skipped\n\n- c: c is missing; get it: make c\n" in page
    assert "## Not yet run\n\n- d: a line of sh\n" in page
    assert all(f"- {what}: {why}.\n" in page for what, why in nightly_steps.NOT_COVERED.items())


def test_the_exit_code_is_1_after_a_failure_and_only_a_strict_run_fails_for_what_was_skipped() -> None:
    skipped = {name: RESULTS[name] for name in ("a", "c")}
    assert nightly.exit_code(RESULTS, strict=False) == 1
    assert nightly.exit_code(skipped, strict=False) == 0
    assert nightly.exit_code(skipped, strict=True) == 1
