"""Starts real servers for the tests, reads their output, and always stops them.

A test talks to a server only through its sockets, its signals, its stdout and its log: what an operator has.
"""

import contextlib
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

T = TypeVar("T")

REPOSITORY = Path(__file__).resolve().parents[2]
# How long tests wait for an event at most: only a fault lasts that long, however busy the machine is.
START_S = 60.0
STOP_S = 60.0
PATIENCE_S = 60.0
PATIENCE_MS = 60_000  # in a server's configuration
# For settings that must not end a wait before the test gives up: a server that waits this long fails its test.
ENDLESS_MS = 3_600_000
READY = re.compile(
    r"^ready (?:https?://(?P<host>[\d.]+|\[[\da-f:]+\]):(?P<port>\d+)|unix:\S+)"
    r" models=(?P<models>\S*) lanes=(?P<lanes>\d+)(?: also=(?P<also>\S+))?$"
)


def flyball() -> list[str]:
    """The installed command, beside the interpreter that runs the tests."""
    return [str(Path(sys.executable).parent / "flyball")]


# Snapshots that tests write themselves are signed by nobody; tests of signatures leave this out.
UNSIGNED = ["--unsigned", "allow"]


def flyballd(*, unsigned: bool = True) -> list[str]:
    """The lone binary, as `make build` leaves it, or the one that FLYBALLD names."""
    command = [os.environ.get("FLYBALLD", str(Path(sys.executable).parent / "flyballd"))]
    return [*command, *UNSIGNED] if unsigned else command


def serve_snapshot(*, unsigned: bool = True) -> list[str]:
    """`flyball serve` for a snapshot, which is the same but for Python around it."""
    return [*flyball(), "serve", *(UNSIGNED if unsigned else [])]


def ort_library() -> Path:
    """The wheel's ONNX Runtime library."""
    spec = importlib.util.find_spec("onnxruntime")
    assert spec is not None
    assert spec.submodule_search_locations
    return max(Path(spec.submodule_search_locations[0], "capi").glob("libonnxruntime.so*"))


def environment() -> dict[str, str]:
    return {**os.environ, "ORT_DYLIB_PATH": str(ort_library())}


def until(what: str, probe: Callable[[], T | None], timeout_s: float = PATIENCE_S) -> T:
    """Asks again until the probe gives something, with a deadline: the tests' only way to wait."""
    deadline = time.monotonic() + timeout_s
    while True:
        if (answer := probe()) is not None and answer is not False:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:.0f} s in vain: {what}")
        time.sleep(0.01)


class Lines:
    """A stream's lines, collected by a thread so that the process never blocks on a full pipe."""

    def __init__(self, stream: IO[str]) -> None:
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                with self._changed:
                    self._lines.append(line.rstrip("\n"))
                    self._changed.notify_all()
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def all(self) -> list[str]:
        with self._changed:
            return list(self._lines)

    def closed(self) -> bool:
        with self._changed:
            return self._closed

    def wait_for(self, match: Callable[[str], T | None], timeout_s: float) -> T | None:
        """What `match` gives for the first line it takes; nothing once the stream ends or time is up."""
        deadline, seen = time.monotonic() + timeout_s, 0
        with self._changed:
            while True:
                while seen < len(self._lines):
                    if (answer := match(self._lines[seen])) is not None:
                        return answer
                    seen += 1
                left = deadline - time.monotonic()
                if self._closed or left <= 0:
                    return None
                self._changed.wait(left)

    def join(self) -> None:
        self._thread.join(5)


@dataclass(frozen=True)
class Ending:
    """How a process ended: its exit code, its stdout lines and its log."""

    code: int
    stdout: list[str]
    stderr: list[str]

    @property
    def text(self) -> str:
        return "\n".join([*self.stdout, *self.stderr])


class Server:
    """A running server. `port` and `models` come from its ready line."""

    def __init__(self, command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            command, cwd=cwd, env=env or environment(), text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdout
        assert self.process.stderr
        self.stdout, self.log = Lines(self.process.stdout), Lines(self.process.stderr)
        ready = self.stdout.wait_for(READY.match, START_S)
        if ready is None:
            ending = self.kill()
            raise AssertionError(f"{' '.join(command)} did not get ready, exit {ending.code}:\n{ending.text}")
        self.host, self.port = ready["host"] or "", int(ready["port"] or 0)
        self.also = (ready["also"] or "").split(",")
        self.models = set(ready["models"].split(",")) - {""}
        self.lanes = int(ready["lanes"])

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def log_line(self, match: Callable[[dict[str, Any]], bool], timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        """The first JSON log line that matches."""

        def parsed(line: str) -> dict[str, Any] | None:
            with contextlib.suppress(ValueError):
                fields = json.loads(line)
                if isinstance(fields, dict) and match(fields):
                    return fields
            return None

        found = self.log.wait_for(parsed, timeout_s)
        assert found is not None, "no such log line in:\n" + "\n".join(self.log.all())
        return found

    def wait(self, timeout_s: float = STOP_S) -> Ending:
        code = self.process.wait(timeout_s)
        self.stdout.join()
        self.log.join()
        return Ending(code, self.stdout.all(), self.log.all())

    def stop(self) -> Ending:
        """Drains it as an operator would."""
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> Ending:
        """Ends it in any case; for clean-up only."""
        if self.process.poll() is None:
            raise_priority(self.process.pid)
            self.process.kill()
        return self.wait()


def raise_priority(pid: int) -> None:
    """Gives all threads of a server the usual priority, where the tests may do that.

    A killed process ends once each of its threads got a core again. Those with the idle policy wait for that up to a
    minute beside busy processes.
    """
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setscheduler(int(task.name), os.SCHED_OTHER, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, int(task.name), 0)


def stop_and_continue(process: subprocess.Popen[str]) -> None:
    """SIGSTOP, for longer than the servers' own waits of a second, then SIGCONT; as Ctrl-Z and `fg` do."""
    process.send_signal(signal.SIGSTOP)
    stat = Path(f"/proc/{process.pid}/stat")
    until("it is stopped", lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.5)
    process.send_signal(signal.SIGCONT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(0.5)


def run(command: list[str], timeout_s: float = START_S, cwd: Path | None = None) -> Ending:
    """A command that must end by itself."""
    answer = subprocess.run(
        command, cwd=cwd, env=environment(), text=True, capture_output=True, timeout=timeout_s, check=False
    )
    return Ending(answer.returncode, answer.stdout.splitlines(), answer.stderr.splitlines())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def serving(command: list[str]) -> Iterator[Server]:
    """A server for a `with` block."""
    server = Server(command)
    try:
        yield server
    finally:
        server.kill()
