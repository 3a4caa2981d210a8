"""Virtual environments from lock files, created once and again when the lock changes. Must not know what is in them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_INSTALL_S = 480.0
_TRIES = 2
_REASON_LINES = 6


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment that matches its lock, and how long that took."""

    python: Path
    seconds: float


def python_of(home: Path) -> Path:
    """The interpreter of an environment."""
    return home / "bin" / "python"


def install_lock(lock: Path, home: Path, *, uv: Path | None = None) -> Installed | str:
    """Make the environment `home` from `lock`, or say why it could not be made."""
    started = time.perf_counter()
    stamp = home / "lock.sha256"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    if not (python_of(home).exists() and stamp.is_file() and stamp.read_text() == digest):
        reason: str | None = "never tried"
        for _ in range(_TRIES):
            if (reason := _make(lock, home, uv or Path(sys.executable).with_name("uv"))) is None:
                break
        if reason is not None:
            return reason
        stamp.write_text(digest)
    return Installed(python_of(home), time.perf_counter() - started)


def _make(lock: Path, home: Path, uv: Path) -> str | None:
    """One try; None if it worked, otherwise the end of what was said."""
    ends = time.monotonic() + _INSTALL_S
    steps: list[list[str | Path]] = [
        [uv, "venv", "--quiet", "--clear", "--python", sys.executable, home],
        [uv, "pip", "sync", "--quiet", "--python", python_of(home), lock],
    ]
    for step in steps:
        try:
            done = subprocess.run(
                step,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=ends - time.monotonic(),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"not installed within {_INSTALL_S:.0f} s"
        except OSError as error:
            return f"{uv} does not run ({error}); make it:  make build"
        if done.returncode:
            return "\n".join(done.stdout.strip().splitlines()[-_REASON_LINES:]) or f"exit {done.returncode}, without a word"
    return None
