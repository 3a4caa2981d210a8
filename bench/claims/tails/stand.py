"""The test stand of every topic: one core for the server, others for the generator, models, and servers.

It keeps raw values for the report and tells how far it is. Must not know what is claimed.
"""

from __future__ import annotations

import sys
import tempfile
import time
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.claims.record import WITHIN
from bench.claims.subjects import ANY_PORT, FLYBALLD, Subject, need
from bench.claims.tails.row_models import make_row_cnn, make_table_100mb, table_rows
from bench.claims.windows import Windows, interleave
from flyball.bench.bare_loop import measure_bare
from flyball.bench.models.fraud import fraud_rows, make_fraud_gbdt
from flyball.bench.models.perceptron import make_fraud_mlp_12mb
from flyball.bench.payloads import make_payloads
from flyball.bench.process import Process, on_cpus, split_cpus
from flyball.bench.table import latency
from flyball.documents.snapshot import compile_models
from flyball.native.boundary import ort_library
from flyball.native.load_documents import LoadResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flyball.documents.snapshot import Bundle, Terms

ROW_RUN_MS = 0.5
_ROWS = 500
_QUICK_S, _QUICK_REPEATS = 0.6, 1
_SIZED_LAYERS, _SIZED_TURNS, _SIZED_WITHIN = 10, 4, 0.1


class Stand:
    """Where a topic is measured. `packed` is a folder of prebuilt files, for machines that build nothing."""

    def __init__(self, folder: Path, *, quick: bool = False, packed: Path | None = None) -> None:
        self.folder, self.quick = folder, quick
        self.server_cpus, self.generator_cpus = split_cpus()[0][:1], split_cpus()[1]
        self.raw: dict[str, Any] = {}
        self.unmeasured: dict[str, str] = {}
        self._packed = packed
        self._topic, self._begun = "", time.monotonic()

    def begin(self, topic: str) -> None:
        """What follows belongs to this topic."""
        self._topic, self._begun, self.raw, self.unmeasured = topic, time.monotonic(), {}, {}

    def keep(self, name: str, value: Any) -> None:
        """Raw values of the topic, from which its claims' figures are computed."""
        self.raw[name] = value

    def not_measured(self, reason: str, *claims: str) -> None:
        """State why these claims of the topic, or all of them, cannot be measured on this machine."""
        self.unmeasured.update(dict.fromkeys(claims or (WITHIN,), reason))

    def tell(self, words: str) -> None:
        """A line of progress; lines of verdicts go to stdout."""
        print(f"  {self._topic} {time.monotonic() - self._begun:5.0f} s  {words}", file=sys.stderr, flush=True)

    def seconds(self, wanted: float) -> float:
        """The length of a window."""
        return min(wanted, _QUICK_S) if self.quick else wanted

    def repeats(self, wanted: int) -> int:
        """How many windows of each side."""
        return min(wanted, _QUICK_REPEATS) if self.quick else wanted

    def in_turn(self, sides: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, Windows]:
        """Windows of each side, in turn with the others', each with a line of progress."""
        return interleave({name: partial(self._told, name, take) for name, take in sides.items()}, self.repeats(repeats))

    def serve(
        self,
        *subjects: Subject,
        terms: Terms | None = None,
        lanes: int | None = None,
        cpus: Sequence[int] | None = None,
        more: Sequence[str] = (),
    ) -> Process:
        """flyballd with these models, each under these terms, on the server's core unless others are named."""
        index = self.snapshot(*subjects, terms=terms).write(self._new_folder())
        return self.serve_snapshot(index, lanes=lanes, cpus=cpus, more=more)

    def serve_snapshot(
        self, index: Path, *, lanes: int | None = None, cpus: Sequence[int] | None = None, more: Sequence[str] = ()
    ) -> Process:
        """flyballd from a snapshot that lies there; `more` are further arguments."""
        command = [str(self._flyballd()), "--unsigned", "allow", "--snapshot", str(index), *ANY_PORT, *more]
        if lanes is not None:
            command += ["--lanes", str(lanes)]
        return Process(command, cpus=cpus or self.server_cpus, environment={"ORT_DYLIB_PATH": str(ort_library())})

    def snapshot(self, *subjects: Subject, terms: Terms | None = None, generation: int = 1) -> Bundle:
        """The documents of these models."""
        sources = [f"{subject.name}={subject.path}" for subject in subjects]
        return compile_models(sources, generation=generation, terms=terms)

    @cached_property
    def fraud(self) -> Subject:
        """300 trees."""
        return self._subject("fraud", make_fraud_gbdt, lambda count: fraud_rows(count, seed=11)[0])

    @cached_property
    def mlp(self) -> Subject:
        """12 MB of weights."""
        return self._subject("mlp", make_fraud_mlp_12mb)

    @cached_property
    def table(self) -> Subject:
        """100 MB that are quick to ask."""
        return self._subject("table", make_table_100mb, lambda count: table_rows(count, seed=11))

    @cached_property
    def row(self) -> Subject:
        """Half a millisecond that no batching makes shorter: more than its sockets cost, short enough for a lane."""
        return (
            self._subject("row", partial(make_row_cnn, layers=_SIZED_LAYERS), count=50)
            if self._packed
            else self.cnn("row", ROW_RUN_MS)
        )

    def cnn(self, name: str, run_ms: float) -> Subject:
        """A CNN whose row takes about so long on the server's core."""
        layers = _SIZED_LAYERS
        for _ in range(_SIZED_TURNS):  # a layer costs more once the weights of all no longer fit into the cache
            subject = self._subject(name, partial(make_row_cnn, layers=layers), count=50)
            took_us = self.bare(subject, 1.0).p50_us
            if abs(took_us / run_ms / 1e3 - 1) <= _SIZED_WITHIN:
                break
            layers = max(round(layers * run_ms * 1e3 / took_us), 1)
        self.tell(f"{name}: {latency(took_us)} a run")
        return subject

    def bare(self, subject: Subject, seconds: float) -> Any:
        """ONNX Runtime alone on the server's core."""
        with on_cpus(self.server_cpus):
            return measure_bare(subject.path, subject.payloads, self.seconds(seconds))

    def _new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="snapshot-", dir=self.folder))

    def _flyballd(self) -> Path:
        return need(self._packed / "flyballd" if self._packed else FLYBALLD)

    def _subject(
        self, name: str, make: Callable[[Path], Path], rows: Callable[[int], Any] | None = None, count: int = _ROWS
    ) -> Subject:
        if self._packed is not None:
            return Subject(name, self._packed / f"{name}.onnx", (self._packed / f"{name}.jsonl").read_bytes(), 3.0)
        path = make(self.folder / f"{name}.onnx")
        return Subject(name, path, make_payloads(path, count, seed=11, rows=rows), 3.0)

    def _told(self, name: str, take: Callable[[], Any]) -> Any:
        value = take()
        self.tell(f"{name}: {words(value)}")
        return value


def words(value: object) -> str:
    """A window in a few words."""
    if isinstance(value, LoadResult):
        refused = f", {value.refused:,} refused" if value.refused else ""
        return (
            f"{value.rate_per_s:,.0f}/s, p50 {latency(value.latency_us.p50)}, p99 {latency(value.latency_us.p99)}{refused}"
        )
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
    return "done"
