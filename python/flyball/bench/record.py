"""The record of a benchmark: all settings, observations and counts, from which reports are generated.

It is written anew after every window, so that a run that ends early leaves what it has, marked as partial. A name that ends
in .gz is compressed: published records are.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flyball.bench.scenario import Contract, Scenario
from flyball.errors import FlyballError, RefusedError
from flyball.native.load_documents import LoadPlan, LoadResult

_FORMAT = "flyball-bench/"

Phase = Literal["steady", "search", "curve", "concurrency", "soak", "compare", "gate"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MachineRecord(_Part):
    """The hardware available to this process."""

    cpu_model: str
    cpu_flags: list[str]
    cpus_online: int
    cpus_allowed: list[int]
    server_cpus: list[int] | None
    generator_cpus: list[int] | None
    governor: str | None
    kernel: str
    virtualisation: str | None
    memory_bytes: int
    cgroup_cpu_quota: float | None
    cgroup_memory_bytes: int | None


class SoftwareRecord(_Part):
    """The versions of the software."""

    flyball_version: str
    commit: str
    profile: str
    target: str
    rustc: str
    ort_version: str | None
    python: str


class ModelRecord(_Part):
    """The served model; a remote server does not report its digest."""

    name: str
    digest: str | None
    size_bytes: int | None


class PayloadRecord(_Part):
    """The requests, by the digest of all of them."""

    source: str
    seed: int
    count: int
    checked: bool
    digest: str


class Overhead(_Part):
    """The generator's overhead, measured against an echo on the server's cores. HTTP JSON, whatever the protocol."""

    p50_us: float
    p99_us: float
    at_rate_per_s: float
    rate_max_per_s: float
    note: str | None = None


class Floor(_Part):
    """ONNX Runtime in a loop without a network."""

    rate_per_s: float
    p50_us: float
    p99_us: float


class SubjectRecord(_Part):
    """A server under measurement."""

    name: str
    url: str | None = None
    command: list[str] | None = None
    version: str | None = None
    cold_start_s: float | None = None
    memory_bytes: int | None = None
    note: str | None = None


class StageTime(_Part):
    """One stage of the server's walk in one window, from the server's own histograms."""

    stage: str
    count: int
    mean_us: float
    p50_us: float
    p99_us: float


class ServerSide(_Part):
    """The server's own metrics of one window; `whole` is its walk from the body's arrival to the reply."""

    whole: StageTime
    stages: list[StageTime]
    mean_batch_rows: float | None = None


class HostSeen(_Part):
    """Host activity during a window."""

    steal_share: float
    load_1m: float


class MemorySample(_Part):
    """Memory of all server processes (PSS), by seconds into the window."""

    at_s: float
    memory_bytes: int


class Window(_Part):
    """One run of the generator against one subject."""

    subject: str
    phase: Phase
    repeat: int = 0
    started_at: datetime
    plan: LoadPlan
    result: LoadResult
    host: HostSeen
    server: ServerSide | None = None
    memory: list[MemorySample] = []


class RateKept(_Part):
    """A search's result for one subject: the highest rate that meets the SLO, per bisection."""

    subject: str
    estimates_per_s: list[float]
    broken_per_s: list[float] = []
    rate_per_s: float | None
    low_per_s: float | None
    high_per_s: float | None
    note: str | None = None


class BenchRecord(_Part):
    """A whole benchmark."""

    format: Literal["flyball-bench/1"] = "flyball-bench/1"
    status: Literal["partial", "complete"] = "partial"
    partial_reason: str | None = "still running"
    created_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    command: list[str]
    scenario: Scenario | None = None
    contract: Contract | None = None
    machine: MachineRecord
    software: SoftwareRecord
    model: ModelRecord
    payloads: PayloadRecord
    overhead: Overhead | None = None
    floor: Floor | None = None
    subjects: list[SubjectRecord] = []
    windows: list[Window] = []
    rates_kept: list[RateKept] = []

    def windows_of(self, subject: str, phase: Phase) -> list[Window]:
        """A subject's windows of one phase, in measured order."""
        return [window for window in self.windows if (window.subject, window.phase) == (subject, phase)]

    def write(self, path: Path) -> None:
        """Write the file atomically and durably."""
        beside = path.with_name(f".{path.name}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            text = self.model_dump_json(indent=None if path.suffix == ".gz" else 1).encode() + b"\n"
            with beside.open("wb") as file:
                file.write(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise FlyballError(
                f"cannot write {path}: {error.strerror or error}; the measurement stops",
                code="record_not_written",
                next_step="free disk space, or name another folder",
            ) from error

    @classmethod
    def read(cls, path: Path) -> BenchRecord:
        """Read a record's file."""
        try:
            text = path.read_bytes()
            if path.suffix == ".gz":
                text = gzip.decompress(text)
            _refuse_other_format(path, text)
            return cls.model_validate_json(text)
        except (OSError, EOFError, zlib.error) as error:
            words = getattr(error, "strerror", None) or error
            raise RefusedError(f"cannot read {path}: {words}", code="record_refused") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the document"
            raise RefusedError(
                f"{path} is not a benchmark record: {where}: {first['msg']}",
                code="record_refused",
                next_step="make one:  flyball bench --scenario fraud-gbdt",
            ) from error


class _Head(BaseModel):
    format: str = ""


def _refuse_other_format(path: Path, text: bytes) -> None:
    """Checked first: another format would otherwise fail key by key."""
    found = _Head.model_validate_json(text).format
    if found.startswith(_FORMAT) and found != BenchRecord.model_fields["format"].default:
        raise RefusedError(
            f"{path} was written by another version of flyball (format {found})",
            code="record_refused",
            next_step="read it with that version, or measure again",
        )
