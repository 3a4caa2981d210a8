"""card-fraud with and without a journal, windows of load on it, and their cost. Must not know what is claimed."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from itertools import count
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.claims.decisions import example
from bench.claims.journal import specs
from bench.claims.windows import as_json
from flyball.bench.run import run_load
from flyball.bench.stages import metrics
from flyball.decision.decision import Decision
from flyball.errors import FlyballError
from flyball.native.load_documents import Arrivals, LoadResult

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process

CARDS, CONNECTIONS = 10_000, 16
_SYNCED = re.compile(r'^flyball_journal_sync_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Window:
    """One window of load: the callers' figures, and the server's CPU time per decision, by thread."""

    result: LoadResult
    cpu_us: dict[str, float]
    sync_p99_us: float
    """The journal's fdatasync calls; empty without a journal."""

    @property
    def lanes_us(self) -> float:
        """On the path: the deciding threads."""
        return sum(took for name, took in self.cpu_us.items() if name.startswith(("lane", "compute")))

    @property
    def whole_us(self) -> float:
        """Of all threads."""
        return sum(self.cpu_us.values())

    def kept(self) -> dict[str, Any]:
        """For the record."""
        parts = {"lanes_us": self.lanes_us, "whole_us": self.whole_us, "sync_p99_us": self.sync_p99_us}
        return {"result": as_json(self.result), "cpu_us": self.cpu_us, **parts}


class Recorded:
    """card-fraud in one folder per recording mode; every window has its own server and journal."""

    def __init__(self, stand: Stand, rate_per_s: float, seconds: float) -> None:
        self.stand, self._rate, self._seconds, self._seeds = stand, rate_per_s, seconds, count(1)
        self.made = example.make(Path(tempfile.mkdtemp(dir=stand.folder)), CARDS // 10 if stand.quick else CARDS)
        self._payloads = self.made.payloads()

    def window(self, record: str | None) -> dict[str, Any]:
        """`record` is the spec's own section; None: no journal at all."""
        with self.serve(record) as server:
            self.made.warm(server.url)
            before, synced = cpu_s(server), _synced(server.url)
            plan = self.made.plan(
                server,
                self.stand.generator_cpus,
                connections=CONNECTIONS,
                arrivals=Arrivals(kind="poisson", rate_per_s=self._rate, seed=next(self._seeds)),
                duration_s=self.stand.seconds(self._seconds),
            )
            result = run_load(plan, self._payloads)
            after = cpu_s(server)
            sync_p99_us = _p99_us(synced, _synced(server.url))
        if result.failed or result.refused or result.mismatched:
            raise FlyballError(f"{result.failed} failed, {result.refused} refused: {result.first_problem}")
        # The warm-up's requests are in the CPU time, so they are counted too.
        asked = result.sent + self._rate * result.warmup.used_s
        cpu_us = {name: (spent - before.get(name, 0.0)) / asked * 1e6 for name, spent in after.items()}
        return Window(result, cpu_us, sync_p99_us).kept()

    def serve(self, record: str | None, journal: Path | None = None, **settings: Any) -> Process:
        """A server with this recording mode, in a new journal unless one is named."""
        folder = Path(tempfile.mkdtemp(dir=self.stand.folder))
        spec = self.made.folder / f"{example.NAME}.yaml"
        text = spec.read_text()
        try:
            spec.write_text(text + (f"\nrecord: {record}\n" if record else ""))
            index = Decision.load(spec).bundle().write(folder / "snapshot")
        finally:
            spec.write_text(text)
        place = (journal or folder / "journal") if record else None
        config = specs.configured(folder / "config.json", place, **settings)
        return self.stand.serve_snapshot(index, more=["--config", str(config)])


def cpu_s(server: Process) -> dict[str, float]:
    """CPU time by thread name, in nanoseconds if the kernel reports them."""
    times: dict[str, float] = {}
    for task in Path(f"/proc/{server.pid}/task").iterdir():
        name = (task / "comm").read_text().strip()
        times[name] = times.get(name, 0.0) + int((task / "schedstat").read_text().split()[0]) / 1e9
    return times


def _synced(url: str) -> dict[float, float]:
    """Cumulative counts of fdatasync calls by duration in seconds."""
    return {float(edge): float(count) for edge, count in _SYNCED.findall(metrics(url))}


def _p99_us(before: dict[float, float], after: dict[float, float]) -> float:
    """A quantile of the growth; linear interpolation inside its bucket, as in Prometheus."""
    edges = [edge for edge in sorted(after) if isfinite(edge)]
    counts = [after[edge] - before.get(edge, 0.0) for edge in edges]
    return float(np.interp(0.99 * counts[-1], counts, edges)) * 1e6 if counts and counts[-1] else 0.0
