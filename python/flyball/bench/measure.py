"""One benchmark under way: runs the generator window by window and keeps the record on disk after each.

Must not know why a window is measured; `phases`, `compare` and `gate` do.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from flyball.bench.machine import HostWatch
from flyball.bench.record import MemorySample, SubjectRecord, Window
from flyball.bench.stages import scrape, server_side
from flyball.engine import LoadRun
from flyball.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from flyball.bench.process import Process
    from flyball.bench.record import BenchRecord, Phase
    from flyball.engine import LoadPlan, LoadResult

_POLL_S = 0.1
_MEMORY_EVERY_S = 1.0


class ServerGoneError(UnavailableError):
    """The server stopped answering while it was measured; what was measured until then is kept."""

    code = "server_gone"


@dataclass(frozen=True, slots=True)
class Subject:
    """A server that takes requests now. `path` is where a server of another protocol takes them."""

    name: str
    url: str
    process: Process | None = None
    path: str | None = None


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
        others = [known for known in self.record.subjects if known.name != subject.name]
        self.keep(subjects=[*others, subject])

    def window(
        self,
        subject: Subject,
        phase: Phase,
        plan: LoadPlan,
        *,
        repeat: int = 0,
        payloads: bytes | None = None,
        told: Callable[[float, int], None] | None = None,
    ) -> Window:
        """Run the generator once; the window is in the record before anything else happens."""
        started_at = datetime.now(UTC)
        before = scrape(subject.url)
        with HostWatch() as host:
            result, memory = _watched(plan, payloads or self.payloads, subject if phase == "soak" else None, told)
        window = Window(
            subject=subject.name,
            phase=phase,
            repeat=repeat,
            started_at=started_at,
            plan=plan if plan.arrivals.kind != "trace" else _without_offsets(plan),
            result=result,
            host=host.seen,
            server=server_side(before, scrape(subject.url), plan.model),
            memory=memory,
        )
        self.keep(windows=[*self.record.windows, window])
        if result.ended_early:
            words = subject.process.words() if subject.process and not subject.process.alive() else ""
            raise ServerGoneError(
                f"{subject.name}: {result.ended_early}" + (f"\n{words}" if words else ""),
                next_step=f"what was measured until then is in {self.path}, marked as partial",
            )
        return window


def _watched(
    plan: LoadPlan, payloads: bytes, watched: Subject | None, told: Callable[[float, int], None] | None
) -> tuple[LoadResult, list[MemorySample]]:
    """Run to the end, telling how far it is and, where asked for, watching the server's memory. Ctrl-C ends the run."""
    run = LoadRun(plan, payloads)
    memory: list[MemorySample] = []
    begun = time.monotonic()
    try:
        while not run.finished():
            gone = time.monotonic() - begun
            if told is not None:
                told(*run.progress())
            if watched and watched.process and gone >= len(memory) * _MEMORY_EVERY_S:
                memory.append(MemorySample(at_s=gone, rss_bytes=watched.process.memory_bytes()))
            time.sleep(_POLL_S)
    except BaseException:
        run.stop()
        raise
    return run.result(), memory


def _without_offsets(plan: LoadPlan) -> LoadPlan:
    """A trace is named by the scenario; a copy of it in every window would swell the record."""
    return plan.model_copy(update={"arrivals": plan.arrivals.model_copy(update={"offsets_s": []})})
