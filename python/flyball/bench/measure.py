"""One benchmark under way: runs the generator window by window and keeps the record on disk after each.

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
    from types import TracebackType

    from flyball.bench.process import Process
    from flyball.bench.record import BenchRecord, HostSeen, Phase
    from flyball.native.load_documents import LoadPlan

_POLL_S = 0.1
_POLL_WARMING_S = 0.01
_MEMORY_EVERY_S = 1.0


class ServerGoneError(UnavailableError):
    """The server stopped answering while it was measured; what was measured until then is kept."""

    code = "server_gone"


@dataclass(frozen=True, slots=True)
class Subject:
    """A server that takes requests now. `path` is where a server of another protocol takes them; `payloads` are its own."""

    name: str
    url: str
    process: Process | None = None
    path: str | None = None
    payloads: bytes | None = None


class Measurement:
    """The record of a benchmark and the file that it is kept in. Leave its `with` to mark how it ended."""

    def __init__(self, record: BenchRecord, path: Path, payloads: bytes) -> None:
        self.record = record
        self.path = path
        self.payloads = payloads

    def __enter__(self) -> Self:
        self.keep()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.keep(status="complete", partial_reason=None)
        else:
            words = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error).partition("\n")[0]
            self.keep(partial_reason=words or type(error).__name__)

    def keep(self, **changes: Any) -> None:
        """Change the record, and write it."""
        self.record = self.record.model_copy(update=changes)
        self.record.write(self.path)

    def add_subject(self, subject: SubjectRecord) -> None:
        """A server that will be measured, or what became known of it since; one of the same name is replaced."""
        known = {told.name: told for told in self.record.subjects}
        self.keep(subjects=list({**known, subject.name: subject}.values()))

    def window(
        self,
        subject: Subject,
        phase: Phase,
        plan: LoadPlan,
        *,
        repeat: int = 0,
        told: Callable[[float, int], None] | None = None,
    ) -> Window:
        """Run the generator once; the window is in the record before anything else happens."""
        started_at = datetime.now(UTC)
        run = LoadRun(plan, subject.payloads or self.payloads)
        look = _Look(self._cores(plan), subject, memory=phase == "soak")
        interrupted = None
        try:
            look.on(run, told)
        except BaseException as error:  # Ctrl-C above all: what was measured until then is kept
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
            host=look.host(),
            server=server_side(look.before, scrape(subject.url), plan.model) if look.before else None,
            memory=look.memory,
        )
        if result.sent or not interrupted:
            self.keep(windows=[*self.record.windows, window])
        if interrupted is not None:
            raise interrupted
        if result.ended_early:
            words = subject.process.words() if subject.process and not subject.process.alive() else ""
            raise ServerGoneError(
                f"{subject.name}: {result.ended_early}" + (f"\n{words}" if words else ""),
                next_step=f"what was measured until then is in {self.path}, marked as partial",
            )
        return window

    def _cores(self, plan: LoadPlan) -> list[int] | None:
        """The cores in use, as far as they are known: steal on others does not matter."""
        machine = self.record.machine
        return [*machine.server_cpus, *(plan.cpus or [])] if machine.server_cpus else None


class _Look:
    """Looks on while a window is measured: the server's own figures when measuring begins, the host, and memory."""

    def __init__(self, cpus: list[int] | None, subject: Subject, *, memory: bool) -> None:
        self._cpus = cpus
        self._subject = subject
        self._process = subject.process if memory else None
        self._stack = ExitStack()
        self._host: HostWatch | None = None
        self.before = ""
        self.memory: list[MemorySample] = []

    def on(self, run: LoadRun, told: Callable[[float, int], None] | None) -> None:
        """Until the run has ended."""
        begun = None
        while not run.finished():
            if begun is None and run.phase() != "warming":
                # Just before measuring begins: the warm-up is in neither the client's figures nor the server's.
                self._begin()
                begun = time.monotonic()
            if told is not None:
                told(*run.progress())
            if begun is not None:
                self._watch_memory(time.monotonic() - begun)
            time.sleep(_POLL_S if begun is not None else _POLL_WARMING_S)

    def host(self) -> HostSeen:
        """What the host did since measuring began."""
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
    """A trace is named by the scenario; a copy of it in every window would swell the record."""
    return plan.model_copy(update={"arrivals": plan.arrivals.model_copy(update={"offsets_s": []})})
