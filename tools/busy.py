"""Runs the tests that depend on time, over and over beside busy processes: `python tools/busy.py [--times 50]`.

A test that passes here waits for events. Several rounds run at once: a round spends most of its time waiting, and so the
machine is busier still. Ends at the first failure and prints its output; changes nothing.
"""
# ruff: noqa: T201

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Deadlines, windows, run limits, drains, breakers, slow clients and retries.
PYTHON = (
    "tests/e2e/test_overload.py",
    "tests/e2e/test_deadlines.py",
    "tests/e2e/test_slow_models.py",
    "tests/e2e/test_batching.py::test_sixteen_busy_connections_make_batches_of_four_and_more",
    "tests/e2e/test_batching.py::test_requests_of_several_rows_share_batches_and_keep_their_rows",
    "tests/e2e/test_drain.py",
    "tests/e2e/test_connection_limits.py",
    "tests/e2e/test_streams.py",
    "tests/unit/test_client_http.py",
    "tests/unit/test_load_run.py::test_a_stall_shows_from_the_due_time_and_hides_from_the_moment_of_leaving",
    "tests/unit/test_load_run.py::test_requests_that_waited_for_a_connection_are_told_apart_and_those_given_up_are_not_fast",
    "tests/unit/test_load_run.py::test_whoever_looks_on_sees_when_measuring_is_about_to_begin",
    "tests/unit/test_load_run.py::test_a_run_that_is_stopped_says_so",
    "tests/unit/test_server_dropped.py",
)
# Crates whose tests wait for threads, sockets, Redis or the disk; beside each, its tests that only compute and are skipped.
RUST: dict[str, tuple[str, ...]] = {
    "flyball-load": ("arrivals", "histogram", "timetable"),
    "flyball-features": (),
    "flyball-journal": ("merkle", "json", "verify", "format"),
    "flyball-plane": ("simulation", "schedule"),
}
SUITES = ("python", "rust")
# As in `make test`, so that nothing is built twice.
BUILD_TESTS = [
    *("cargo", "test", "--quiet", "--locked", "--profile", "tested", "--workspace", "--exclude", "flyball-py"),
    *("--lib", "--bins", "--tests", "--features", "flyballd/virtual-time", "--no-run", "--message-format", "json"),
]
# Until whoever started it has ended, also by a kill.
_SPIN = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"


@contextlib.contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """As many processes that use whatever they get; of the same priority as the tests."""
    spinning = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def rounds(suite: str, *, times: int, beside: int, at_once: int) -> tuple[int, str]:
    """How many rounds passed, and the output of the first that failed; none begins after a failure."""
    environment = {**os.environ, "ORT_DYLIB_PATH": _ort()}
    commands = _commands(suite, environment)
    failed = threading.Event()

    def one(number: int) -> str | None:
        if failed.is_set():
            return "not run"
        began = time.monotonic()
        for folder, command in commands:
            ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            if ended.returncode:
                failed.set()
                return (ended.stdout + ended.stderr)[-4000:]
        print(f"{suite} {number + 1} of {times}: passed in {time.monotonic() - began:.0f} s", flush=True)
        return None

    with busy_processes(beside), ThreadPoolExecutor(at_once) as pool:
        endings = list(pool.map(one, range(times)))
    faults = [ending for ending in endings if ending not in (None, "not run")]
    return endings.count(None), faults[0] or "" if faults else ""


def _commands(suite: str, environment: dict[str, str]) -> list[tuple[Path, list[str]]]:
    """The commands of one round, each with its working directory."""
    if suite == "python":
        return [(Path.cwd(), [sys.executable, "-m", "pytest", "-q", "-x", *PYTHON])]
    built = subprocess.run(BUILD_TESTS, env=environment, check=True, capture_output=True, text=True).stdout
    found = [json.loads(line) for line in built.splitlines()]
    tests = [unit for unit in found if unit.get("executable") and unit["profile"]["test"]]
    return [
        (Path(unit["manifest_path"]).parent, [unit["executable"], "--quiet", *(f"--skip={name}" for name in skipped)])
        for crate, skipped in RUST.items()
        for unit in tests
        if f"/crates/{crate.removeprefix('flyball-')}#" in unit["package_id"]
    ]


def main() -> int:
    """Both suites, or the one that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--beside", type=int, default=4, help="busy processes")
    parser.add_argument("--at-once", type=int, default=4, help="rounds that run at the same time")
    parser.add_argument("--suite", choices=SUITES, action="append")
    arguments = parser.parse_args()
    for suite in arguments.suite or SUITES:
        passed, words = rounds(suite, times=arguments.times, beside=arguments.beside, at_once=arguments.at_once)
        if passed < arguments.times:
            print(f"{suite}: {passed} of {arguments.times} rounds passed before one failed\n{words}")
            return 1
    return 0


def _ort() -> str:
    found = subprocess.run([sys.executable, "tools/ort_library.py"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


if __name__ == "__main__":
    os.chdir(Path(__file__).resolve().parents[1])
    sys.exit(main())
