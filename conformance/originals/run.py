"""Runs the suites in a network namespace of its own, where Triton's ports are free. Prints each result as a line of JSON.

Run:  unshare -rn python -m conformance.originals.run QA CLIENT MADE BUILT PYTHON FLYBALL SUITE…
"""

from __future__ import annotations

import ast
import dataclasses
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.case import FAIL, PASS, Row
from conformance.originals.repository import Repositories
from conformance.originals.step import NAMESPACE, SETTINGS, Step, Suite
from conformance.originals.suites import SUITES
from conformance.originals.verdicts import NOT_RUN
from flyball.bench.process import Process
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from collections.abc import Iterator

_READY_S = 120.0
_REASON_MAX = 300
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_FAILURE = re.compile(r": Failure\n(.*?)(?=\n\[  FAILED|\n\S+: Failure\n)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Originals:
    """Where the suites are, and what runs them."""

    qa: Path
    client: Path
    made: Path
    built: Path
    python: Path
    flyball: Path

    def rows(self, suite: Suite) -> Iterator[Row]:
        """Every case of a suite."""
        with tempfile.TemporaryDirectory(prefix="fb-") as folder:
            home = Path(folder)
            for name in ("common", "images", "python_models", "custom_models", suite.folder):
                shutil.copytree(self.qa / name, home / name, dirs_exist_ok=True)
            here = home / suite.folder
            for step in suite.steps:
                yield from self._step(suite, step, here)
            yield from not_run(suite, here)

    def _step(self, suite: Suite, step: Step, here: Path) -> Iterator[Row]:
        repositories = Repositories(self.qa, self.made, here)
        cases = self._cases(suite, step, here)
        groups = [[case] for case in cases] if step.fresh else [cases]
        for group in groups:
            repositories.empty("models", "made")
            step.models(repositories)
            try:
                with self._serving(step, here) as server:
                    for case in group:
                        yield self._case(suite, step, case, here, server.pid)
            except FlyballError as error:
                for case in group:
                    yield Row(suite.name, _named(case, step), FAIL, f"the server did not start: {_line(str(error))}")

    def _cases(self, suite: Suite, step: Step, here: Path) -> list[str]:
        if step.arguments is not None:
            return [f"example.{Path(step.file).stem}"]
        if step.built:
            return tests_in(self._program(suite, step).with_suffix(".tests"), step.cases)
        return _cases_of(here, step)

    def _program(self, suite: Suite, step: Step) -> Path:
        return self.built / suite.name / "bin" / step.file

    def _command(self, suite: Suite, step: Step, case: str) -> list[str]:
        arguments = [] if step.arguments is None else step.arguments.split()
        if step.built:
            return [str(self._program(suite, step)), *(arguments if step.arguments is not None else [_test(case)])]
        if step.arguments is None:
            return [str(self.python), step.file, case]
        return [str(self.python), str(self.client / step.file), *arguments]

    @contextmanager
    def _serving(self, step: Step, here: Path) -> Iterator[Process]:
        settings = here / "settings.json"
        settings.write_text(json.dumps({**SETTINGS, **step.settings}))
        command = [str(self.flyball), "serve", "--config", str(settings), *NAMESPACE.split(), *step.flags.split()]
        before = Path.cwd()
        os.chdir(here)  # the suites name their repositories from there
        try:
            server = Process(command, ready_s=_READY_S)
        finally:
            os.chdir(before)
        with server:
            yield server

    def _case(self, suite: Suite, step: Step, case: str, here: Path, pid: int) -> Row:
        inherited = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        child = subprocess.Popen(
            self._command(suite, step, case),
            cwd=here,
            env={**inherited, "SERVER_PID": str(pid), "GRPC_VERBOSITY": "NONE", **step.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            said, _ = child.communicate(timeout=step.limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            return Row(suite.name, _named(case, step), FAIL, f"no result within {step.limit_s} s")
        if step.says in said if step.says else child.returncode == 0:
            return Row(suite.name, _named(case, step), PASS)
        return Row(suite.name, _named(case, step), FAIL, _line(said))


def cases_of(file: Path, chosen: tuple[str, ...]) -> list[str]:
    """The test cases of a file, in its order: `Class.test`."""
    found = []
    for item in ast.parse(file.read_text()).body:
        if isinstance(item, ast.ClassDef):
            inner = (node for node in ast.walk(item) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
            tests = sorted((node for node in inner if node.name.startswith("test")), key=lambda node: node.lineno)
            found += [f"{item.name}.{node.name}" for node in tests]
    if not chosen:
        return found
    return [case for case in found if case in chosen or case.partition(".")[0] in chosen]


def not_run(suite: Suite, here: Path) -> Iterator[Row]:
    """The cases of the suite's own test files that no step selects: they count as failed, unless they are argued."""
    if not suite.has_cases:
        return
    chosen = {(step.file, case) for step in suite.steps if not step.built for case in _cases_of(here, step)}
    files = {file for file, _ in chosen}
    for file in sorted(here.glob("*.py")):
        label = "" if file.name in files else f", {file.stem}"
        for case in cases_of(file, ()):
            if (file.name, case) not in chosen:
                yield Row(suite.name, f"{_test(case)}{label}", FAIL, NOT_RUN)


def _cases_of(here: Path, step: Step) -> list[str]:
    return cases_of(here / step.file, step.cases) if step.arguments is None else []


def tests_in(file: Path, patterns: tuple[str, ...]) -> list[str]:
    """The tests of a built program, in its order: `program.test`."""
    tests = file.read_text().split()
    return [f"{file.stem}.{test}" for test in tests if not patterns or any(fnmatchcase(test, one) for one in patterns)]


def _named(case: str, step: Step) -> str:
    return f"{_test(case)}, {step.label}" if step.label else _test(case)


def _test(case: str) -> str:
    """The name of a case without that of its class or program."""
    return case.partition(".")[2]


def _line(said: str) -> str:
    """What a test of googletest says of its last failure; else the last line that names an error."""
    if failures := _FAILURE.findall(said):
        return " ".join(failures[-1].split())[:_REASON_MAX]
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("FAILED (")]
    named = [line for line in lines if "Error" in line or "Exception" in line or "error" in line]
    return " ".join((named or lines or ["it said nothing"])[-1].split())[:_REASON_MAX]


def _loopback_up() -> None:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def main() -> int:
    """Run the named suites."""
    names = sys.argv[7:]
    _loopback_up()
    originals = Originals(*map(Path, sys.argv[1:7]))
    for suite in SUITES:
        if suite.name in names:
            for row in originals.rows(suite):
                print(json.dumps(dataclasses.asdict(row)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
