"""Attempts: each tries a fault of an earlier build, and reports the result.

An attempt drives the commands of a `Build` as a stranger would: subprocesses, sockets and files. It imports nothing of
`flyball`, so the same script runs against an older checkout. `before.json` holds what commit 9d7bd48 did.
"""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

BEFORE = Path("bench/results/published/hardening-before.json.gz")


@dataclass(frozen=True, slots=True)
class Build:
    """A checkout that was built; its commands are the subject of the attempts."""

    root: Path

    @property
    def flyball(self) -> str:
        """The Python command."""
        return str(self.root / ".venv/bin/flyball")

    @property
    def flyballd(self) -> str:
        """The server without Python."""
        return str(self.root / ".venv/bin/flyballd")

    @property
    def python(self) -> str:
        """The interpreter that has the package."""
        return str(self.root / ".venv/bin/python")

    def ort_library(self) -> str:
        """ONNX Runtime's library, as `flyballd` wants it in ORT_DYLIB_PATH."""
        command = [self.python, str(self.root / "tools/ort_library.py")]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


@dataclass(frozen=True, slots=True)
class Seen:
    """What one attempt saw, in one line, and whether the fault is gone."""

    text: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """One fault and the function that tries it in an empty folder."""

    name: str
    fault: str
    run: Callable[[Build, Path], Seen]


_ATTEMPTS: dict[str, Attempt] = {}


def attempt(fault: str) -> Callable[[Callable[[Build, Path], Seen]], Callable[[Build, Path], Seen]]:
    """Register a function as the attempt at `fault`, a short sentence in plain words that names what went wrong."""

    def register(run: Callable[[Build, Path], Seen]) -> Callable[[Build, Path], Seen]:
        name = run.__name__
        if name in _ATTEMPTS:
            raise ValueError(f"two attempts are called {name}")
        _ATTEMPTS[name] = Attempt(name, fault, run)
        return run

    return register


def all_attempts() -> list[Attempt]:
    """Every attempt of this package's modules, by module and then in the order of definition."""
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        if module.name != "__main__":
            importlib.import_module(f"{__name__}.{module.name}")
    return list(_ATTEMPTS.values())
