"""Types of the Rust extension; `mypy.stubtest` compares this page with the built module.

Documents cross as JSON bytes, few and coarse. Only `flyball.native` imports it. Every failure raises `NativeError` with one
argument, a JSON text: {"code", "message", "exit_code", "faults"?, "reason"?, "row"?}.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, final

__all__ = [
    "Echo",
    "FeaturePush",
    "Journal",
    "JournalLog",
    "LoadRun",
    "Model",
    "NativeError",
    "Server",
    "Trust",
    "WindowBackfill",
    "build_info",
    "ceiling",
    "check_config",
    "check_decision",
    "check_release_place",
    "check_release_statement",
    "check_snapshot",
    "check_trust_policy",
    "compute_features",
    "contributions",
    "copy_external_data",
    "enclose",
    "feature_record",
    "inspect",
    "machine",
    "model_files",
    "package_files",
    "prove",
    "read_histograms",
    "release_statement",
    "runtime_fingerprint",
    "scan_model",
    "serve_models",
    "signed_payload",
    "transform_columns",
    "trust_policy",
    "verify_frames",
]

class NativeError(Exception):
    """A failure of the native side; `str(error)` is the JSON text."""

def build_info() -> bytes:
    """{"version", "commit", "profile", "target", "rustc", "debug_assertions"}."""

def machine() -> bytes:
    """What this machine allows.

    {"cpus", "cpu_quota", "lanes", "memory_bytes", "memory_limit_bytes", "cpu_model", "kernel", "rights"}
    """

def ceiling() -> bytes:
    """What one thread of this machine can do at most, measured in a third of a second.

    {"flops": of 32-bit floats a second, "int8_times": as many of 8-bit integers, "reads": [{"set_bytes", "bytes_a_second"}]}
    """

def model_files(path: str) -> bytes:
    """Digests of a model's file and of its external data, read without ONNX Runtime.

    {"digest", "size_bytes", "external_data": [{"name", "digest", "size_bytes"}],
     "opset": [{"domain", "version"}], "producer", "nodes", "inputs": [{"name", "datatype"?, "shape"?}], "outputs",
     "optional_inputs"}
    """

def copy_external_data(model: str, name: str, target: str) -> None:
    """Copy a file of weights that lies beside a model; a link, pipe or device is refused as at a load."""

def scan_model(path: str) -> bytes:
    """What a model's file says of itself, if it may be served at all; read without ONNX Runtime, nothing is loaded.

    {"opset", "producer", "nodes", "nodes_expanded", "depth", "functions", "initialisers", "weight_bytes", "domains": [str],
     "inputs", "outputs", "optional_inputs", "moves_texts", "value_dependent",
     "external_data": {name: bytes that it must have}}
    """

def inspect(path: str, options: bytes) -> bytes:
    """Load, probe and time a model. Options: {"ort_path": str, "rows_max": int, "probe_ms_max": int}.

    {"digest", "size_bytes", "opset", "producer", "nodes", "ort_version", "inputs": [{"name", "datatype", "shape"}],
     "outputs", "batching": {"on", "reason"}, "latency": [{"rows", "p50_us", "p99_us"}]}
    """

def prove(path: str, options: bytes) -> bytes:
    """Load and probe a model in a process of its own, and not in this one. Options: as `inspect`'s.

    {"on", "rows_max", "reason"}
    """

def serve_models() -> None:
    """Load and probe models for the process that started this one, on standard input, until it ends. For that one alone."""

def check_config(kind: str, document: bytes) -> bytes:
    """All faults of a "server" configuration or a "callers" file, sorted by path: [{"path", "is", "allowed"}]."""

def check_snapshot(kind: str, document: bytes) -> bytes:
    """All faults of an "index", a "deployment" or its "terms", sorted by path: [{"path", "is", "allowed"}]."""

def contributions(sidecar: bytes, rows: bytes, columns: int) -> bytes:
    """What each column added to a row's raw margin, and last the base: little-endian, f32 rows in, f64 rows out."""

def check_decision(document: bytes, models: bytes) -> bytes:
    """What the compiler says of a decision: {"faults": [{"path", "is", "allowed"}], "stages": [{"stage", "lines"}]}.

    `models`: [{"version", "inputs": [{"name", "datatype", "shape"}], "outputs", "explain": a path, or null}].
    """

def enclose(folder: str | Path, readable: Sequence[str | Path]) -> None:
    """Close this process off for good: it writes below `folder` alone, reads there and below `readable`.

    No network, no other processes, no capabilities. Codes: "no_landlock", or "no_sandbox" for all else that is missing.
    """

def signed_payload(kind: str, envelope: bytes) -> bytes:
    """The payload of a well-formed envelope: a "policy", a "release", an "index" or a "transfer". Nothing is verified."""

def trust_policy(envelope: bytes, roots: str | None) -> bytes:
    """The trust policy that one of the root keys (PEM) signed, in force or not; without roots nothing is verified."""

def check_trust_policy(document: bytes) -> None:
    """Refuse a document that is no trust policy."""

def release_statement(envelope: bytes) -> bytes:
    """The statement inside a release; nothing is verified."""

def check_release_statement(document: bytes) -> None:
    """Refuse a document that is no release statement."""

def check_release_place(envelope: bytes, now: int, environment: str) -> None:
    """Refuse a release that does not hold now, or not in this environment, whoever signed it."""

def package_files(folder: str, whole: bool) -> bytes:
    """{"NAME": SHA-256 in hex} of a folder's files; `whole`: with those that signers of OMS leave out."""

@final
class Trust:
    """A trust policy in force. What is refused raises with code "signature_refused" and its "reason"."""

    def __new__(cls, policy: bytes | None, roots: str, now: int, serial_least: int) -> Trust:
        """The policy that one of the root keys (PEM) signed, with this serial or a higher one."""

    def key(self, hint: str, now: int) -> bytes:
        """{"hint", "name", "roles"} of a key that counts now."""

    def signers(self, kind: str, envelope: bytes, now: int) -> bytes:
        """[{"hint", "name", "roles"}] of the keys that signed an envelope; kinds as of `signed_payload`."""

    def package(self, bundle: bytes | None, now: int, folder: str | None) -> str:
        """The root of the package that an OMS bundle signs, and that this folder holds exactly."""

    def release(self, envelope: bytes | None, now: int, environment: str) -> bytes:
        """{"author", "approvers", "approver_keys"} of a release that holds now and there."""

    def index(self, index: bytes, envelope: bytes | None, now: int) -> None:
        """Refuse where a publisher did not sign these very bytes."""

    def admit(self, asked: bytes, now: int) -> bytes:
        """As `release`, where all of it may be served.

        {"name", "environment", "models", "decision", "policy", "schema", "release", "packages"}; of a package {"name",
        "folder", "bundle"}
        """

def compute_features(document: bytes, rows: bytes) -> bytes:
    """{"NAME": [value, …]} of a decision's computed features for rows (JSON objects), as the walk computes them."""

def transform_columns(document: bytes, rows: bytes) -> bytes:
    """The columns of a decision's only model for rows (JSON objects), as the walk computes them: little-endian f64 rows."""

@final
class Server:
    """A running data plane. The constructor returns once every deployment was applied or refused."""

    def __new__(
        cls, config: bytes, snapshot: bytes, on_load: Callable[[str, str | None, bool], Path | None] | None = None
    ) -> Server:
        """`on_load` gives the index file of the newest snapshot that has a model, when a client wants it loaded.

        It gets the model's name, and the configuration in JSON if the client sent one.
        """

    def addresses(self) -> list[str]:
        """The bound addresses: "127.0.0.1:8080", "tls://127.0.0.1:8443", "unix:/run/flyball.sock"."""

    def ready_line(self) -> str:
        """The one line that says that the server is ready: address, models with their versions, lanes."""

    def acks(self) -> bytes:
        """[{"name", "digest", "state", "reason", "versions": [{"version", "batching": {"on", "reason"}}]}]."""

    def deployments(self) -> bytes:
        """What serves now, what was refused and what is warm: as `GET /v1/deployments`."""

    def apply(self, snapshot: bytes) -> bytes:
        """Apply another bundle, deployment by deployment; answers with the acks."""

    def drain(self) -> None:
        """Begin to drain: ready turns false, requests in flight finish. Does not wait."""

    def wait(self, timeout_s: float) -> bool:
        """Wait, without the GIL; True once the server has stopped."""

    def totals(self) -> bytes:
        """{"received", "answered", "refused", "failed", "abandoned", "in_flight"}."""

@final
class Model:
    """One session of a model in this process, as a server's: one thread, no spinning. Runs on it wait for each other."""

    def __new__(cls, path: str, options: bytes) -> Model:
        """{"ort_path", "probe_ms_max", "graph"?, "profile"?: a path, "weights_as_given"?: bool}.

        "graph": "off", "basic", "extended" or "all".
        """

    def facts(self) -> bytes:
        """{"digest", "size_bytes", "ort_version", "inputs", "outputs", "batching", "load_ms", "resident_bytes"}."""

    def made_up(self, rows: int) -> list[tuple[str, str, list[int], bytes]]:
        """Inputs of so many rows, as probing made them up."""

    def run(self, inputs: Sequence[tuple[str, str, Sequence[int], bytes]]) -> list[tuple[str, str, list[int], bytes]]:
        """Name, datatype, shape and raw elements of each input, and of each output; Ctrl-C ends it."""

    def measure(self, inputs: Sequence[tuple[str, str, Sequence[int], bytes]], runs: int, warm_runs: int) -> bytes:
        """Time runs on the same inputs; Ctrl-C ends it.

        {"runs", "rows", "p50_us", "p95_us", "p99_us", "p999_us", "max_us", "mean_us", "cpu_us": a run on average}
        """

    def end_profile(self) -> Path:
        """End the profile, once; the file that ONNX Runtime wrote."""

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

@final
class WindowBackfill:
    """Counts past events in the windows of a decision: {"decision", "document", "folder": of embedded windows, or null}."""

    def __new__(cls, options: bytes) -> WindowBackfill: ...
    def put(self, events: bytes) -> None:
        """A batch of events in the order of their times: [[milliseconds since 1970, {field: value}], ...]."""

    def finish(self) -> bytes:
        """{"events", "without_key"}; everything is written."""

def feature_record(options: bytes, key: str) -> bytes | None:
    """One record as it lies there, {"v", "at", "fields"}; none: no such key. Options as of `FeaturePush`."""

def read_histograms(document: bytes) -> bytes:
    """{"histograms": [base64 of HdrHistogram V2, ...]} merged into one.

    {"count", "min_us", "max_us", "mean_us", "values_us": [...], "counts": [...]}; a value is the middle of its bucket.
    """

@final
class JournalLog:
    """Reads a journal, beside its writer too. Options: {"kek": PLACE | null, "reveal": bool}, both optional.

    With `reveal` what is personal is opened by the key in PLACE, which is the folder's own where it is null; without it
    what is personal stays "sealed". A record is JSON as docs/reference/decision-records.md has it.
    """

    def __new__(cls, folder: str, options: bytes) -> JournalLog: ...
    def segments(self) -> bytes:
        """[{"segment", "first_seq", "frames", "bytes", "began", "created_unix_ns", "sealed", "root", "last"}], in order."""

    def records(self, from_seq: int, most: int, options: bytes) -> tuple[bytes, int, bool]:
        """JSON lines, the sequence number to go on from, and whether the end of the log was reached.

        Options, all optional: {"durable_only": bool, "kinds": [str], "decision": str, "since_ns": int, "until_ns": int}.
        At most so many records; fewer where many frames had to be passed over.
        """

    def frames(self, from_seq: int, most: int) -> list[tuple[int, bytes, bytes, bytes, int]]:
        """Durable frames as they lie there: (seq, prev, leaf, payload, segment). None: the end."""

    def find(self, decision_id: str) -> bytes:
        """All records of a decision, oldest first, as a JSON list: itself, and what was told of it later."""

    def verify(self, options: bytes, told: Callable[[int, int], None] | None = None) -> bytes:
        """{"frames", "segments", "checkpoints", "findings": [{"segment", "frame", "seq", "offset", "what"}]}.

        Options: {"segment": int, "checkpoint": a note kept elsewhere, "key": hex, "without_keys": bool}, all optional.
        `told` hears how many segments are done, of how many; what it raises ends the verification.
        """

    def erasures(self) -> bytes:
        """{token of a subject, hex: number of its last erasure}. Needs no key."""

    def prove(self, seq: int) -> bytes:
        """That a record is in its segment, and its segment under the last checkpoint.

        {"seq", "segment", "index", "leaf", "path": [hex], "root", "leaves", "checkpoint_path": [hex] | null,
         "checkpoint": the note | null, "findings": [str]}; without findings the proof holds.
        """

    def render(self, payload: bytes) -> bytes:
        """A payload as JSON, as `records` gives it, without its place in the log."""

    def header(self, segment: int) -> bytes:
        """The 256 bytes that a segment begins with."""

    def checkpoints(self) -> list[str]:
        """The signed notes, oldest first."""

    def token(self, subject: str) -> str:
        """Under which records name a subject, in hex; needs `reveal`, for it takes the key."""

    def blob(self, digest: str) -> bytes | None:
        """What lies beside the log under "sha256:hex"; none: it is not there."""

@final
class Journal:
    """Writes to a journal that no server holds. Options: {"folder", "kek": PLACE | null, "key": PATH | null}.

    Where another process holds it, the code of the error is "journal_locked".
    """

    def __new__(cls, options: bytes) -> Journal: ...
    def append(self, event: bytes) -> int:
        """Returns once it is on the disk, with its sequence number.

        {"kind": "outcome", "id", "decision", "truth", "when"?: unix ns, "source"?, "caller"?} or {"kind": "override", "id",
        "decision", "outcome", "by", "why", "caller"?} or {"kind": "hold" | "release", "name", "by", "why", "decision"?,
        "from"?, "to"?}.
        """

    def erase(self, order: bytes) -> bytes:
        """Deletes a subject's key and what features keep of it, and records that.

        {"subject", "by", "why", "keys"?: [...], "features_folder"?: PATH | null, "stores"?: [PATH, ...]} to
        {"recorded", "records", "windows", "cached", "stored"}. The code is "record_not_found" where nothing is known of the
        subject, and "held" where a legal hold covers a record of it.
        """

    def close(self) -> None:
        """Seals what was written; the next call raises."""

def runtime_fingerprint(ort_path: str) -> bytes:
    """What makes a run differ from machine to machine, as `served` records have it.

    {"onnxruntime", "provider", "intra_threads", "inter_threads", "arch", "os", "cpu", "cpu_features", "flyball", "commit"}
    """

def verify_frames(header: bytes, frames: list[tuple[int, bytes, bytes]], root: bytes) -> bytes:
    """Whether (seq, prev, payload)s, all of one segment, are those under its root: [{"frame", "seq", "what"}], or []."""

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
