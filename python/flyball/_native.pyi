"""Types of the Rust extension; `mypy.stubtest` compares this page with the built module.

Documents cross as JSON bytes, few and coarse. Only `flyball.engine` imports this module. Every failure raises
`NativeError` with one argument, a JSON text: {"code", "message", "exit_code", "faults"?}.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, final

__all__ = [
    "Echo",
    "FeaturePush",
    "LoadRun",
    "NativeError",
    "Server",
    "build_info",
    "check_decision",
    "check_snapshot",
    "contributions",
    "feature_record",
    "inspect",
    "machine",
    "model_files",
    "read_histograms",
    "transform_columns",
]

class NativeError(Exception):
    """A failure of the native side; `str(error)` is the JSON text."""

def build_info() -> bytes:
    """{"version", "commit", "profile", "target", "rustc", "debug_assertions"}."""

def machine() -> bytes:
    """What this machine allows.

    {"cpus", "cpu_quota", "lanes", "memory_bytes", "memory_limit_bytes", "cpu_model", "kernel", "rights"}
    """

def model_files(path: str) -> bytes:
    """Digests of a model's file and of its external data, read without ONNX Runtime.

    {"digest", "size_bytes", "external_data": [{"name", "digest", "size_bytes"}],
     "opset": [{"domain", "version"}], "producer", "nodes", "inputs": [{"name", "datatype"?, "shape"?}], "outputs"}
    """

def inspect(path: str, options: bytes) -> bytes:
    """Load, probe and time a model. Options: {"ort_path": str, "rows_max": int}.

    {"digest", "size_bytes", "opset", "producer", "nodes", "ort_version", "inputs": [{"name", "datatype", "shape"}],
     "outputs", "batching": {"on", "reason"}, "latency": [{"rows", "p50_us", "p99_us"}]}
    """

def check_snapshot(kind: str, document: bytes) -> bytes:
    """All faults of an "index" or "deployment" document: [{"path", "is", "allowed"}]."""

def contributions(sidecar: bytes, rows: bytes, columns: int) -> bytes:
    """What each column added to a row's raw margin, and last the base: little-endian, f32 rows in, f64 rows out."""

def check_decision(document: bytes, models: bytes) -> bytes:
    """What the compiler says of a decision: {"faults": [{"path", "is", "allowed"}], "stages": [{"stage", "lines"}]}.

    `models`: [{"version", "inputs": [{"name", "datatype", "shape"}], "outputs", "explain": a path, or null}].
    """

def transform_columns(document: bytes, rows: bytes) -> bytes:
    """The columns of a decision's only model for rows (JSON objects), as the walk computes them: little-endian f64 rows."""

@final
class Server:
    """A running data plane. The constructor returns once every deployment was applied or refused."""

    def __new__(cls, config: bytes, snapshot: bytes, on_load: Callable[[str], Path | None] | None = None) -> Server:
        """`on_load` gives the index file of the newest snapshot that has a model, when a client wants it loaded."""

    def addresses(self) -> list[str]:
        """The bound addresses: "127.0.0.1:8080", "tls://127.0.0.1:8443", "unix:/run/flyball.sock"."""

    def ready_line(self) -> str:
        """The one line that says that the server is ready: address, models with their versions, lanes."""

    def acks(self) -> bytes:
        """[{"name", "digest", "state", "reason", "versions": [{"version", "batching": {"on", "reason"}}]}]."""

    def apply(self, snapshot: bytes) -> bytes:
        """Apply another bundle, deployment by deployment; answers with the acks."""

    def drain(self) -> None:
        """Begin to drain: ready turns false, requests in flight finish. Does not wait."""

    def wait(self, timeout_s: float) -> bool:
        """Wait, without the GIL; True once the server has stopped."""

    def totals(self) -> bytes:
        """{"received", "answered", "refused", "failed", "abandoned", "in_flight"}."""

@final
class FeaturePush:
    """Fills a set of features: {"set", "redis": URL | "store": PATH, "expire_s"?}."""

    def __new__(cls, options: bytes) -> FeaturePush: ...
    def put(self, rows: bytes) -> None:
        """A batch of rows: [[key, {field: value}], ...]."""

    def finish(self) -> bytes:
        """{"rows", "bytes"}; a store has its new set from now on."""

    def abandon(self) -> None:
        """Give up what is not finished; a store stays as it was."""

def feature_record(options: bytes, key: str) -> bytes | None:
    """One record as it lies there, {"v", "at", "fields"}; none: no such key. Options as of `FeaturePush`."""

def read_histograms(document: bytes) -> bytes:
    """{"histograms": [base64 of HdrHistogram V2, ...]} merged into one.

    {"count", "min_us", "max_us", "mean_us", "values_us": [...], "counts": [...]}; a value is the middle of its bucket.
    """

@final
class LoadRun:
    """A running load. `payloads` is JSONL: {"inputs": [...], "outputs": [...] | null} a line."""

    def __new__(cls, plan: bytes, payloads: bytes) -> LoadRun: ...
    def progress(self) -> tuple[float, int]:
        """Seconds gone, requests finished."""

    def phase(self) -> Literal["warming", "beginning", "measuring", "ended"]:
        """How far it is; "beginning": the start of measuring is decided, but has not come. Lasts 60 ms at least.

        Without a warm-up it is the first phase; a closed loop then measures as soon as its connections are open.
        """

    def finished(self) -> bool:
        """Whether the run has ended."""

    def stop(self) -> None:
        """End the run early; `result` then tells what was measured."""

    def result(self) -> bytes:
        """Wait for the end, without the GIL, and give the measurements.

        Latencies are those of right answers, of requests that timed out, and of those that were never sent.
        """

@final
class Echo:
    """A bare HTTP/1.1 server on one thread, for measuring the generator and for known faults.

    {"listen", "cpus", "reply_bytes", "service_us", "stall_ms", "stall_every_s"}; all have defaults.
    """

    def __new__(cls, options: bytes) -> Echo: ...
    def url(self) -> str:
        """Where it listens, "http://127.0.0.1:8080"."""

    def stop(self) -> None:
        """End it, and wait until it has ended."""
