"""Runs the generator window by window, and writes the record after each.

Must not know why a window is measured; `phases`, `compare` and `gate` do.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from flyball.bench.machine import HostWatch
from flyball.bench.record import MemorySample, SubjectRecord, Window
from flyball.bench.stages import scrape, server_side
from flyball.errors import UnavailableError
from flyball.native.load import LoadRun

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from flyball.bench.process import Process
    from flyball.bench.record import BenchRecord, HostSeen, Phase
    from flyball.native.load_documents import LoadPlan

_POLL_S = 0.1
_POLL_WARMING_S = 0.01
_MEMORY_EVERY_S = 1.0


class ServerGoneError(UnavailableError):
    """The server stopped answering during the measurement; earlier windows are kept."""

    code = "server_gone"


@dataclass(frozen=True, slots=True)
class Subject:
    """A server that accepts requests. `path` is the endpoint of another protocol; `payloads` are its own."""

    name: str
    url: str
    process: Process | None = None
    path: str | None = None
    payloads: bytes | None = None


class Measurement:
    """A benchmark's record and its file. Leaving the `with` marks how it ended."""

    def __init__(self, record: BenchRecord, path: Path, payloads: bytes) -> None:
        self.record = record
        self.path = path
        self.payloads = payloads

    def __enter__(self) -> Self:
        self.keep()
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            self.keep(status="complete", partial_reason=None)
        else:
            reason = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error).partition("\n")[0]
            self.keep(partial_reason=reason or type(error).__name__)

    def keep(self, **changes: Any) -> None:
        """Change and write the record."""
        self.record = self.record.model_copy(update=changes)
        self.record.write(self.path)

    def add_subject(self, subject: SubjectRecord) -> None:
        """Add or replace a measured server."""
        known = {one.name: one for one in self.record.subjects}
        self.keep(subjects=list({**known, subject.name: subject}.values()))

    def window(
        self,
        subject: Subject,
        phase: Phase,
        plan: LoadPlan,
        *,
        repeat: int = 0,
        progress: Callable[[float, int], None] | None = None,
    ) -> Window:
        """Run the generator once; the window is recorded before anything else happens."""
        started_at = datetime.now(UTC)
        run = LoadRun(plan, subject.payloads or self.payloads)
        observer = _Observer(self._cores(plan), subject, memory=phase == "soak")
        interrupted = None
        try:
            observer.on(run, progress)
        except BaseException as error:  # Ctrl-C above all: keep the windows measured so far
            interrupted = error
            run.stop()
        result = run.result()
        window = Window(
            subject=subject.name,
            phase=phase,
            repeat=repeat,
            started_at=started_at,
            plan=plan if plan.arrivals.kind != "trace" else _without_offsets(plan),
            result=result,
            host=observer.host(),
            server=server_side(observer.before, scrape(subject.url), plan.model) if observer.before else None,
            memory=observer.memory,
        )
        if result.sent or not interrupted:
            self.keep(windows=[*self.record.windows, window])
        if interrupted is not None:
            raise interrupted
        if result.ended_early:
            output = subject.process.stderr_tail() if subject.process and not subject.process.alive() else ""
            raise ServerGoneError(
                f"{subject.name}: {result.ended_early}" + (f"\n{output}" if output else ""),
                next_step=f"the windows measured so far are in {self.path}, marked as partial",
            )
        return window

    def _cores(self, plan: LoadPlan) -> list[int] | None:
        """The cores in use, if known: steal on others does not matter."""
        machine = self.record.machine
        return [*machine.server_cpus, *(plan.cpus or [])] if machine.server_cpus else None


class _Observer:
    """Observes a window: the server's metrics when measuring begins, the host, and memory."""

    def __init__(self, cpus: list[int] | None, subject: Subject, *, memory: bool) -> None:
        self._cpus = cpus
        self._subject = subject
        self._process = subject.process if memory else None
        self._stack = ExitStack()
        self._host: HostWatch | None = None
        self.before = ""
        self.memory: list[MemorySample] = []

    def on(self, run: LoadRun, progress: Callable[[float, int], None] | None) -> None:
        """Observe until the run ends."""
        begun = None
        while not run.finished():
            if begun is None and run.phase() != "warming":
                # Just before measuring begins: warm-up is in neither the client's nor the server's figures.
                self._begin()
                begun = time.monotonic()
            if progress is not None:
                progress(*run.progress())
            if begun is not None:
                self._watch_memory(time.monotonic() - begun)
            time.sleep(_POLL_S if begun is not None else _POLL_WARMING_S)

    def host(self) -> HostSeen:
        """Host activity since measuring began."""
        if self._host is None:
            self._begin()
        self._stack.close()
        assert self._host is not None  # noqa: S101 - begun above
        return self._host.seen

    def _begin(self) -> None:
        self.before = scrape(self._subject.url)
        self._host = self._stack.enter_context(HostWatch(self._cpus))

    def _watch_memory(self, at_s: float) -> None:
        if self._process is not None and at_s >= len(self.memory) * _MEMORY_EVERY_S:
            self.memory.append(MemorySample(at_s=at_s, memory_bytes=self._process.memory_bytes()))


def _without_offsets(plan: LoadPlan) -> LoadPlan:
    """The scenario names a trace; a copy in every window would bloat the record."""
    return plan.model_copy(update={"arrivals": plan.arrivals.model_copy(update={"offsets_s": []})})
