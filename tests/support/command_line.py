"""Runs the command line in this process, without a new Python for each verb.

Starting one takes longer than most verbs do. That verbs work as processes of their own is shown by the pages' commands
(`tests/docs`) and by every test that starts a server.
"""

import contextlib
import io
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flyball.cli import app
from tests.support.serving import REPOSITORY, Ending

_TAKEN_OVER = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def flyball(*words: str | Path, stdin: str = "", cwd: Path | None = None) -> Ending:
    """`flyball WORDS…`."""
    with pytest.MonkeyPatch.context() as patched, _own_signals(), _streams(patched, stdin) as (out, errors):
        patched.setattr(sys, "argv", ["flyball", *map(str, words)])
        if cwd is not None:
            patched.chdir(cwd)
        with pytest.raises(SystemExit) as ended:
            app.main()
    code = ended.value.code
    assert code is None or isinstance(code, int), code
    return Ending(code or 0, _text(out).splitlines(), _text(errors).splitlines())


def documented_exit_codes() -> set[int]:
    """Those in the table of docs/reference/cli.md."""
    page = (REPOSITORY / "docs" / "reference" / "cli.md").read_text()
    return {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """A verb that takes over signals keeps them to its end. Servers of later tests would inherit that they are blocked."""
    mask, handlers = signal.pthread_sigmask(signal.SIG_BLOCK, ()), {one: signal.getsignal(one) for one in _TAKEN_OVER}
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextlib.contextmanager
def _streams(patched: pytest.MonkeyPatch, stdin: str) -> Iterator[tuple[io.TextIOWrapper, io.TextIOWrapper]]:
    """Streams with bytes underneath, as a process has them: some verbs write bytes."""
    patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    errors = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")  # as Python's own
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        yield out, errors


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()
