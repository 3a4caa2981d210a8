"""A server process under measurement: started on chosen cores, observed, and stopped.

Cores are set without `preexec_fn` (unsafe with threads) and without a wrapper (which would count as cold start): a child
inherits the affinity of the thread that starts it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from flyball.errors import FlyballError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

READY_S = 60.0
_STOP_S = 35.0
_EXIT_S = 1.0
_WORDS_BYTES_MAX = 64 * 1024
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Process:
    """A server process that printed `ready http://…`, with its children. Leaving the `with` ends them all."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cpus: Sequence[int] | None = None,
        environment: Mapping[str, str] | None = None,
        ready_s: float = READY_S,
    ) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.command = list(command)
        self.started = time.perf_counter()
        with on_cpus(cpus):
            self._child = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, **(environment or {})},
                text=True,
                start_new_session=True,  # so that its children can be found and ended as one group
            )
        try:
            self.url = self._wait_ready(ready_s)
        except BaseException:
            # Nobody else could end it: there is no object yet, and Ctrl-C does not reach another session.
            self._kill(self._group())
            self._errors.close()
            raise

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._child.pid

    def rss_bytes(self) -> int:
        """Resident memory now."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise FlyballError(f"/proc/{self.pid}/status has no VmRSS: the process has ended")

    def memory_bytes(self) -> int:
        """Memory of the process and its children; shared pages are divided among them (PSS)."""
        return sum(_pss_bytes(pid) for pid in self._group())

    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._child.poll() is None

    def thread_cpu_s(self) -> dict[str, float]:
        """CPU time by thread name; threads of the same name are summed."""
        times: dict[str, float] = {}
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            try:
                name = (task / "comm").read_text().strip()
                # The name in `stat` may contain spaces and brackets: fields are counted after its last bracket.
                fields = (task / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended, as threads that load models do
            times[name] = times.get(name, 0.0) + (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
        return times

    def stop(self) -> int:
        """Terminate the process, wait, and return its exit code; it is killed if it does not end."""
        members = self._group()  # while it lives: orphaned children no longer name it as their parent
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(_STOP_S)
        self._kill(members)
        self._errors.close()
        return self._child.returncode

    def wait(self) -> int:
        """Wait until the process ends."""
        return self._child.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stderr_tail(self) -> str:
        """The end of its stderr."""
        file = self._errors.fileno()
        # Not `seek`: the child shares the file position, and would overwrite its output.
        end = os.pread(file, _WORDS_BYTES_MAX, max(0, os.fstat(file).st_size - _WORDS_BYTES_MAX))
        return end.decode(errors="replace").strip()[-2000:]

    def _group(self) -> list[int]:
        """The process, its session, and their children: a child may open its own session."""
        members = {self.pid}
        others = parents_and_sessions()
        while True:
            joined = {pid for pid, (parent, session) in others.items() if session == self.pid or parent in members}
            if joined <= members:
                return [pid for pid in members if pid in others]
            members |= joined

    def _kill(self, members: Sequence[int]) -> None:
        """Kill the process and its survivors: the next server must have the cores to itself."""
        self._child.kill()  # does nothing if the process has ended
        self._child.wait()
        for pid in {*members, *self._group()} & parents_and_sessions().keys():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _wait_ready(self, ready_s: float) -> str:
        found: list[str] = []
        ready = threading.Event()

        def read() -> None:
            # Read to the end, so that the child never blocks on a full pipe.
            assert self._child.stdout is not None  # noqa: S101 - opened above
            with self._child.stdout as lines:
                for line in lines:
                    if line.startswith("ready ") and not found:
                        found.append(line.split()[1])
                        ready.set()
            ready.set()

        threading.Thread(target=read, daemon=True).start()
        if ready.wait(ready_s) and found:
            return found[0]
        if ready.is_set():  # it closed its output and is about to end; its own exit code says more than a kill's
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(_EXIT_S)
        self._kill(self._group())
        code = self._child.returncode
        raise FlyballError(f"{' '.join(self.command)} did not become ready (exit {code}):\n{self.stderr_tail()}")


def parents_and_sessions() -> dict[int, tuple[int, int]]:
    """Parent and session of every process, by pid."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                found[int(folder.name)] = (int(fields[1]), int(fields[3]))
    return found


def _pss_bytes(pid: int) -> int:
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # it has ended
        return 0
    found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
    return int(found.group(1)) * 1024 if found else 0


@contextmanager
def on_cpus(cpus: Sequence[int] | None) -> Iterator[None]:
    """Run the calling thread and the processes it starts on these cores."""
    if cpus is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def split_cpus() -> tuple[list[int], list[int]]:
    """Cores for the server and for the generator; the same if there is only one."""
    cpus = sorted(os.sched_getaffinity(0))
    half = len(cpus) // 2
    return (cpus[:half], cpus[half:]) if half else (cpus, cpus)
