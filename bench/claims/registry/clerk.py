"""Runs flyball commands, each in its own process, and records their output and exit.

Run:  python -m bench.claims.registry.clerk   The processes are forked from one that has everything imported, so that a
command acts within milliseconds of being typed. Must not know registries.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, NoReturn, Self

from flyball.errors import FlyballError
from flyball.native.boundary import ort_library

if TYPE_CHECKING:
    from collections.abc import Sequence

_OUT, _ERR = 1, 2


@dataclass(frozen=True, slots=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    errors: str
    took_s: float


class Clerk:
    """The process, seen from outside. Use it in a `with`; leaving ends it."""

    def __init__(self) -> None:
        environment = {**os.environ, "ORT_DYLIB_PATH": str(ort_library())}
        command = [sys.executable, "-m", "bench.claims.registry.clerk"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self._hear()

    def begin(self, *words: str) -> None:
        """Type a command; `end` gives what came of it."""
        pipe = _pipe(self._process.stdin)
        pipe.write(json.dumps(words) + "\n")
        pipe.flush()

    def end(self) -> Said:
        """Wait for the command's end."""
        return Said(**self._hear())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            _pipe(self._process.stdin).close()
        self._process.wait()
        _pipe(self._process.stdout).close()

    def _hear(self) -> dict[str, Any]:
        line = _pipe(self._process.stdout).readline()
        if not line:
            raise FlyballError(f"the clerk ended with {self._process.wait()}")
        told: dict[str, Any] = json.loads(line)
        return told


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None  # noqa: S101 - asked for when it was started
    return stream


def _typed(words: Sequence[str]) -> dict[str, Any]:
    began = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), _OUT)
            os.dup2(errors.fileno(), _ERR)
            _run(words)
        _, status = os.waitpid(child, 0)
        took_s = time.monotonic() - began
        out.seek(0)
        errors.seek(0)
        said = {"out": out.read().decode(), "errors": errors.read().decode()}
    return {"code": os.waitstatus_to_exitcode(status), **said, "took_s": took_s}


def _run(words: Sequence[str]) -> NoReturn:
    """The console script, to its exit code; nothing of the process that was forked goes on."""
    from flyball.cli.app import main

    code = 1
    sys.argv = ["flyball", *words]
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _answer(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    import obstore  # noqa: F401
    import psycopg  # noqa: F401 - the first command must not wait for what is imported here

    _answer({})
    for line in sys.stdin:
        _answer(_typed(json.loads(line)))
