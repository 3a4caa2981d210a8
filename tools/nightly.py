"""Runs what takes too long for every change: `python tools/nightly.py [--minutes 60]`; `make nightly` calls it.

Steps are data (nightly_steps.py). After each step its result is stored in bench/results/nightly under the commit, and the
page beside it is made again: a run that was ended goes on where it stopped. A step is passed, failed or skipped with the
reason; exit code 1 if any failed.
"""
# ruff: noqa: T201

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import nightly_page
from nightly_steps import NEEDS, SEED, Command, Step, steps

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path("bench/results/nightly")
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
_LAST_LINES = 40
_END_S = 10.0
# What `make nightly` was called with is not for the commands that its steps call.
_OWN = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MINUTES", "ONLY", "STRICT"}


@dataclass(slots=True)
class Result:
    """What became of a step."""

    state: str
    why: str = ""
    seconds: float = 0.0
    ended: str = ""
    command: str = ""
    seed: int | None = None
    changed: bool = False
    """The working tree had changes that were not committed."""
    tail: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Night:
    """The results of one commit, and where they are kept."""

    commit: str
    folder: Path
    results: dict[str, Result] = field(default_factory=dict)

    @classmethod
    def of(cls, commit: str, folder: Path) -> Night:
        """What earlier runs found for this commit."""
        night = cls(commit, folder)
        if (file := night.file).is_file():
            night.results = {name: Result(**found) for name, found in json.loads(file.read_text())["results"].items()}
        return night

    @property
    def file(self) -> Path:
        """The state."""
        return self.folder / f"{self.commit}.json"

    def store(self, known: list[Step]) -> None:
        """State and page, each replaced as a whole."""
        self.folder.mkdir(parents=True, exist_ok=True)
        document = {"commit": self.commit, "results": {name: asdict(result) for name, result in self.results.items()}}
        _replace(self.file, json.dumps(document, indent=1) + "\n")
        _replace(self.page, nightly_page.page(self.commit, known, self.results))

    @property
    def page(self) -> Path:
        """For people."""
        return self.folder / f"{self.commit}.md"


def remaining(known: list[Step], results: dict[str, Result], only: list[str]) -> list[Step]:
    """What to run: the steps that are named, or those without a result; what was skipped is tried again."""
    if only:
        return [step for step in known if step.name in only]
    return [step for step in known if step.name not in results or results[step.name].state == SKIPPED]


def with_seed(step: Step, seed: int) -> tuple[Command, dict[str, str], int | None]:
    """Command and environment with the seed in its places; no seed where a step has no place for one."""
    command = tuple(word.replace(SEED, str(seed)) for word in step.command)
    environment = {name: value.replace(SEED, str(seed)) for name, value in step.environment.items()}
    seeded = command != step.command or environment != step.environment
    return command, environment, seed if seeded else None


def shown(command: Command, environment: dict[str, str]) -> str:
    """A line for a shell that does the same again."""
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in environment.items()), shlex.join(command)])


def verdict(step: Step, code: int, output: str) -> tuple[str, str]:
    """Passed or failed, and why."""
    if code == 0:
        return PASSED, ""
    if step.says and re.search(step.says, output):
        return PASSED, "some claims fall short of their bars in windows that prove nothing"
    return FAILED, f"exit code {code}"


def notes_of(output: str, says: str) -> list[str]:
    """Lines that tell what a step covered: counts of tests, of claims, and what was left out."""
    patterns = [r"^\d+ passed.*", r"^without \S+: .*", r"^Done \d+ runs in .*", *([says] if says else [])]
    found = [match[0] for line in output.splitlines() for one in patterns if (match := re.search(one, line))]
    if rust := re.findall(r"^test result: \w+\. (\d+) passed", output, re.MULTILINE):
        found.append(f"{sum(map(int, rust)):,} Rust tests passed")
    reasons = re.findall(r"^not measured .*\((.+)\)$", output, re.MULTILINE)
    return list(dict.fromkeys([*found, *(f"not measured: {reason}" for reason in reasons)]))


def attempt(step: Step, log: Path, *, changed: bool) -> Result:
    """Run one step, whatever happens to it."""
    seed = random.randrange(2**31)
    command, environment, drawn = with_seed(step, seed)
    result = Result(SKIPPED, command=shown(command, environment), seed=drawn, changed=changed)
    began = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as file:
        result.state, result.why = _attempt(step, command, environment, file.fileno(), log)
    output = log.read_text(errors="replace").replace(str(ROOT), ".")
    result.seconds = round(time.monotonic() - began, 1)
    result.ended = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    result.notes = notes_of(output, step.says)
    if result.state == FAILED:
        result.tail = output.splitlines()[-_LAST_LINES:]
    return result


def _attempt(step: Step, command: Command, environment: dict[str, str], log: int, path: Path) -> tuple[str, str]:
    for name in step.needs:
        if subprocess.run(NEEDS[name].shows, capture_output=True, check=False).returncode:
            return SKIPPED, f"{name} is missing; get it: {NEEDS[name].get}"
    for target in step.fetch:
        if _run(("make", target), {}, log, 30):
            return SKIPPED, f"{target} cannot be fetched: {_last(path)}"
    for before in step.before:
        if code := _run(before, {}, log, 60):
            return FAILED, f"exit code {code} of {shlex.join(before)}"
    code = _run(command, environment, log, step.minutes_max)
    if code is None:
        return FAILED, f"no end within {step.minutes_max} minutes"
    return verdict(step, code, path.read_text(errors="replace"))


def _run(command: Command, environment: dict[str, str], log: int, minutes_max: int) -> int | None:
    """The exit code; None where it was ended because it took too long."""
    inherited = {name: value for name, value in os.environ.items() if name not in _OWN}
    try:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**inherited, **environment}, stdout=log, stderr=log, start_new_session=True
        )
    except OSError as error:
        os.write(log, f"{error}\n".encode())
        return 127
    try:
        return process.wait(minutes_max * 60)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Nothing that a step started outlives it."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
            return


def _last(path: Path) -> str:
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return (lines[-1] if lines else "it says nothing").replace(str(ROOT), ".")[:200]


def _replace(path: Path, content: str) -> None:
    fresh = path.with_suffix(path.suffix + ".new")
    fresh.write_text(content)
    fresh.replace(path)


def _git(*words: str) -> str:
    done = subprocess.run(("git", *words), cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S607
    return done.stdout.strip()


def main() -> int:
    """Until everything has a result, or time is up."""
    known = steps(ROOT)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no step after that")
    parser.add_argument("--only", nargs="+", default=[], metavar="STEP", choices=[step.name for step in known])
    parser.add_argument("--list", action="store_true", help="name the steps")
    parser.add_argument("--strict", action="store_true", help="fail where a step is skipped, too")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(f"{step.name:<22} {step.title}" for step in known))
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    night = Night.of(_git("rev-parse", "--short=12", "HEAD"), ROOT / RESULTS)
    with contextlib.suppress(KeyboardInterrupt):  # the step that was ended has no result, and is run again
        _run_all(remaining(known, night.results, arguments.only), night, known, arguments.minutes)
    night.store(known)
    print(f"nightly: {nightly_page.summary(known, night.results)}: {night.page.relative_to(ROOT)}")
    return exit_code(night.results, strict=arguments.strict)


def _run_all(chosen: list[Step], night: Night, known: list[Step], minutes: float) -> None:
    end = time.monotonic() + minutes * 60
    for step in chosen:
        if time.monotonic() > end:
            return
        print(f"nightly: {step.name}: {step.title}", flush=True)
        changed = bool(_git("status", "--porcelain", "--untracked-files=no"))
        result = attempt(step, night.folder / night.commit / f"{step.name}.log", changed=changed)
        night.results[step.name] = result
        night.store(known)
        print(f"nightly: {step.name}: {result.state} after {result.seconds:.0f} s {result.why}".rstrip(), flush=True)


def exit_code(results: dict[str, Result], *, strict: bool) -> int:
    """1 where a step failed, or under `--strict` was skipped."""
    states = {result.state for result in results.values()}
    return int(FAILED in states or (strict and SKIPPED in states))


if __name__ == "__main__":
    sys.exit(main())
