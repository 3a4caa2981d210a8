"""A checkout of its own for mutants: a clone in .parts/truth, kept between runs, so that cargo finds what it has compiled.

Nothing in it is ever committed; the tree that is worked in is never changed. Must not know what a mutant breaks.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.errors import FlyballError
from flyball.native.boundary import ort_library

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLDER = Path(".parts/truth")
BUILT = "target/tested/flyballd"
COMMAND_S = 3_600.0


def applies(patch: Path, root: Path = Path()) -> str:
    """Why a patch does not fit the tree; empty if it does."""
    done = _run(["git", "apply", "--check", str(patch.resolve())], root)
    return "" if done.returncode == 0 else done.stderr.strip()


class Checkout:
    """The clone, at one commit of this repository."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder.resolve()
        if not (self.folder / ".git").exists():
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self._git(["clone", "--quiet", "--no-checkout", ".", str(self.folder)], Path())
        self.commit = self._git(["rev-parse", "HEAD"], Path())
        self._git(["fetch", "--quiet", "origin", "HEAD"])
        self._git(["checkout", "--quiet", "--force", "--detach", self.commit])
        self._git(["clean", "--quiet", "--force", "-d"])
        # The extension is built outside; no mutant of its crates is tested through it.
        for library in Path("python/flyball").glob("_native*.so"):
            link = self.folder / library
            link.unlink(missing_ok=True)
            link.symlink_to(library.resolve())

    @contextmanager
    def changed_by(self, patch: Path) -> Iterator[None]:
        """The tree with a patch, and without it afterwards."""
        if why := applies(patch, self.folder):
            raise FlyballError(f"{patch.name} does not fit commit {self.commit[:12]}: {why}")
        self._git(["apply", str(patch.resolve())])
        try:
            yield
        finally:
            # Files get new times, so that cargo compiles them again.
            self._git(["checkout", "--quiet", "--force", self.commit])

    def cargo(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """A command of cargo, under the tests' profile."""
        command, *more = words
        return self.run(["cargo", command, "--profile", "tested", "--locked", *more])

    def pytest(self, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Python tests, with this checkout's sources and the server that was built here, if one was."""
        words = ["-m", "pytest", "-q", "-rA", "--timeout", "600", "-p", "no:cacheprovider", *tests]
        return self.run([sys.executable, *words])

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Any command, to its end."""
        left_out = ("PYTHONPATH", "CARGO_BUILD_TARGET_DIR")
        environment = {key: value for key, value in os.environ.items() if key not in left_out} | {
            "CARGO_TARGET_DIR": str(self.folder / "target"),
            "FLYBALL_COMMIT": "development",
            "FLYBALLD": str(self.folder / BUILT),
            "ORT_DYLIB_PATH": str(ort_library()),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return _run(command, self.folder, environment)

    def _git(self, words: Sequence[str], root: Path | None = None) -> str:
        done = _run(["git", *words], root or self.folder)
        if done.returncode != 0:
            raise FlyballError(f"git {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout.strip()


def _run(
    command: Sequence[str], folder: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise FlyballError(f"{' '.join(command)} did not end within {COMMAND_S:.0f} s") from error
