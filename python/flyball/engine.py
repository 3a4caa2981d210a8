"""Typed calls over `_native`'s JSON documents, and where ONNX Runtime's library lies. Only this module, `journal` and
`model_runs` import it.

Never imports the `onnxruntime` package: that maps a second copy of the library and costs 0.3 s at start.
Must not know the command line, nor what a snapshot contains.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter

from flyball.errors import FlyballError, ModelRefusedError, UsageError, from_native
from flyball.faults import Fault
from flyball.load_documents import (
    Arrivals,
    EchoOptions,
    ErrorCount,
    Generator,
    LatencyFigures,
    LoadPlan,
    LoadResult,
    MergedHistogram,
    TimelineInterval,
    WarmedUp,
    Warmup,
)
from flyball.model_documents import (
    Batching,
    DeclaredTensor,
    ExternalData,
    Inspection,
    Latency,
    ModelFiles,
    ModelScan,
    Opset,
    Opsets,
    TensorSpec,
)
from flyball.server_documents import (
    Ack,
    BuildInfo,
    DecisionDigests,
    Deployments,
    DeploymentState,
    Machine,
    PlannedStage,
    Right,
    SignedAck,
    Totals,
    VersionAck,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from flyball.config import ServerConfig

__all__ = [
    "Ack",
    "Arrivals",
    "Batching",
    "BuildInfo",
    "DecisionCheck",
    "DecisionDigests",
    "DeclaredTensor",
    "DeploymentState",
    "Deployments",
    "Echo",
    "EchoOptions",
    "ErrorCount",
    "ExternalData",
    "Generator",
    "Inspection",
    "Latency",
    "LatencyFigures",
    "LoadPlan",
    "LoadResult",
    "LoadRun",
    "Machine",
    "MergedHistogram",
    "ModelFiles",
    "ModelScan",
    "Opset",
    "Opsets",
    "PlannedStage",
    "Right",
    "Server",
    "SignedAck",
    "TensorSpec",
    "TimelineInterval",
    "Totals",
    "VersionAck",
    "WarmedUp",
    "Warmup",
    "boundary",
    "build_info",
    "check_config",
    "check_decision",
    "check_snapshot",
    "compute_features",
    "contributions",
    "copy_external_data",
    "enclose",
    "inspect",
    "machine",
    "model_files",
    "naming",
    "ort_library",
    "prove",
    "read_histograms",
    "scan_model",
    "transform_columns",
]


_ACKS = TypeAdapter(list[Ack])
PROBE_MS_MAX = 30_000
"""CPU time for loading and probing a model in its own process: a server's default `probe_ms_max`."""


@dataclass(frozen=True, slots=True)
class DecisionCheck:
    """All faults of a decision; without any, its stages and digests."""

    faults: list[Fault]
    stages: list[PlannedStage]
    digests: DecisionDigests | None = None


def ort_library() -> Path:
    """ONNX Runtime's shared library: ORT_DYLIB_PATH, else the installed package's own, found without importing it."""
    named = os.environ.get("ORT_DYLIB_PATH")
    if named:
        path = Path(named)
        if not path.is_file():
            raise UsageError(f"ORT_DYLIB_PATH names {named}, which is not a file", next_step="unset ORT_DYLIB_PATH")
        return path.absolute()
    spec = importlib.util.find_spec("onnxruntime")
    folders = list(spec.submodule_search_locations or []) if spec else []
    found = [path for folder in folders for path in Path(folder, "capi").glob("libonnxruntime.so*") if path.is_file()]
    if not found:
        raise UsageError(
            "ONNX Runtime's shared library was not found",
            code="ort_missing",
            next_step="install it:  pip install 'onnxruntime>=1.30'   or name the library in ORT_DYLIB_PATH",
        )
    return max(found, key=_version_of)


def build_info() -> BuildInfo:
    """How the extension was built."""
    with boundary():
        from flyball import _native

        return BuildInfo.model_validate_json(_native.build_info())


def machine() -> Machine:
    """What this machine allows to this process."""
    with boundary():
        from flyball import _native

        return Machine.model_validate_json(_native.machine())


def model_files(path: Path) -> ModelFiles:
    """Digests of a model's file and of its external data, and what the file says of itself."""
    with naming(path), boundary():
        from flyball import _native

        return ModelFiles.model_validate_json(_native.model_files(str(path)))


def copy_external_data(model: Path, name: str, target: Path) -> None:
    """Copy a file of weights that lies beside a model, opened and checked as a server does; a link is refused."""
    with naming(model), boundary():
        from flyball import _native

        _native.copy_external_data(str(model), name, str(target))


def scan_model(path: Path) -> ModelScan:
    """What a model says of itself, if it may be served at all; reads its file, loads nothing. Refuses as a server would."""
    with naming(path), boundary():
        from flyball import _native

        return ModelScan.model_validate_json(_native.scan_model(str(path)))


def inspect(path: Path, rows_max: int = 64) -> Inspection:
    """Load, probe and time a model. Refused where loading and probing it in a process of its own does not end."""
    options = _probe_options(rows_max)
    with naming(path), boundary():
        from flyball import _native

        return Inspection.model_validate_json(_native.inspect(str(path), json.dumps(options).encode()))


def prove(path: Path, rows_max: int = 64) -> Batching:
    """Load and probe a model in a process of its own, within a server's limits, and not in this one."""
    with naming(path), boundary():
        from flyball import _native

        return Batching.model_validate_json(_native.prove(str(path), json.dumps(_probe_options(rows_max)).encode()))


def _probe_options(rows_max: int) -> dict[str, object]:
    return {"ort_path": str(ort_library()), "rows_max": rows_max, "probe_ms_max": PROBE_MS_MAX}


def check_snapshot(kind: Literal["index", "deployment", "terms"], document: bytes) -> list[Fault]:
    """All faults of a document, sorted by path."""
    with boundary():
        from flyball import _native

        return [Fault.from_document(item) for item in json.loads(_native.check_snapshot(kind, document))]


def check_config(kind: Literal["server", "callers"], document: bytes) -> list[Fault]:
    """All faults of a server's configuration or a callers' file, sorted by path."""
    with boundary():
        from flyball import _native

        return [Fault.from_document(item) for item in json.loads(_native.check_config(kind, document))]


def transform_columns(document: dict[str, Any], rows: Sequence[dict[str, Any]]) -> bytes:
    """The columns of a decision's only model for rows, as the walk computes them: little-endian float64, row by row."""
    with boundary():
        from flyball import _native

        return _native.transform_columns(json.dumps(document).encode(), json.dumps(list(rows)).encode())


def compute_features(document: dict[str, Any], rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """The computed features of a decision for rows, as the walk computes them: for each its values; none: missing."""
    with boundary():
        from flyball import _native

        answer = _native.compute_features(json.dumps(document).encode(), json.dumps(list(rows)).encode())
        return dict(json.loads(answer))


def enclose(folder: Path, readable: Sequence[Path]) -> None:
    """Close this process off for good: it writes below `folder` alone, and reads there and below `readable`."""
    with boundary():
        from flyball import _native

        _native.enclose(folder, readable)


def contributions(sidecar: bytes, rows: bytes, columns: int) -> bytes:
    """What each column added to a row's raw margin, and last the base: little-endian, f32 rows in, f64 rows out."""
    with boundary():
        from flyball import _native

        return _native.contributions(sidecar, rows, columns)


def check_decision(document: dict[str, Any], models: list[dict[str, Any]]) -> DecisionCheck:
    """What the data plane's compiler says of a decision: its faults, or its stages."""
    with boundary():
        from flyball import _native

        answer = json.loads(_native.check_decision(json.dumps(document).encode(), json.dumps(models).encode()))
    faults = [Fault.from_document(item) for item in answer["faults"]]
    digests = DecisionDigests.model_validate(answer["digests"]) if answer.get("digests") else None
    return DecisionCheck(faults, [PlannedStage.model_validate(item) for item in answer["stages"]], digests)


def read_histograms(encoded: Sequence[str]) -> MergedHistogram:
    """Merge histograms of load results."""
    with boundary():
        from flyball import _native

        document = json.dumps({"histograms": list(encoded)}).encode()
        return MergedHistogram.model_validate_json(_native.read_histograms(document))


class Server:
    """A data plane in this process, on threads of its own. Mask signals before you make one."""

    def __init__(self, config: ServerConfig, bundle: bytes, on_load: Callable[[str], Path | None] | None = None) -> None:
        """`on_load`: asked on another thread for the newest snapshot that has a model, when a client wants it loaded."""
        if config.ort_path is None:
            config = config.model_copy(update={"ort_path": str(ort_library())})
        with boundary():
            from flyball import _native

            self._server = _native.Server(config.model_dump_json().encode(), bundle, on_load)

    def addresses(self) -> list[str]:
        """The bound addresses: "127.0.0.1:8080", "tls://127.0.0.1:8443", "unix:/run/flyball.sock"."""
        with boundary():
            return self._server.addresses()

    def ready_line(self) -> str:
        """The one line that says that the server is ready, the same as `flyballd`'s."""
        with boundary():
            return self._server.ready_line()

    def acks(self) -> list[Ack]:
        """What became of each deployment."""
        with boundary():
            return _ACKS.validate_json(self._server.acks())

    def deployments(self) -> Deployments:
        """What serves now, what was refused and why, and what is kept warm."""
        with boundary():
            return Deployments.model_validate_json(self._server.deployments())

    def apply(self, bundle: bytes) -> list[Ack]:
        """Apply another snapshot, deployment by deployment."""
        with boundary():
            return _ACKS.validate_json(self._server.apply(bundle))

    def drain(self) -> None:
        """Begin to drain; does not wait."""
        with boundary():
            self._server.drain()

    def wait(self, timeout_s: float) -> bool:
        """Whether the server stopped within the time."""
        with boundary():
            return self._server.wait(timeout_s)

    def totals(self) -> Totals:
        """Requests so far."""
        with boundary():
            return Totals.model_validate_json(self._server.totals())


def push_features(options: dict[str, Any], batches: Iterable[bytes]) -> dict[str, int]:
    """Fill a set of features, whole or not at all where the target can: {"rows", "bytes"}."""
    with boundary():
        from flyball import _native

        push = _native.FeaturePush(json.dumps(options).encode())
        try:
            for batch in batches:
                push.put(batch)
            return TypeAdapter(dict[str, int]).validate_json(push.finish())
        finally:
            push.abandon()


def backfill_windows(options: dict[str, Any], batches: Iterable[bytes]) -> dict[str, int]:
    """Count past events in a decision's windows: {"events", "without_key"}."""
    with boundary():
        from flyball import _native

        backfill = _native.WindowBackfill(json.dumps(options).encode())
        try:
            for batch in batches:
                backfill.put(batch)
        finally:
            filled = backfill.finish()  # where it failed, too: it holds the windows' folder
        return TypeAdapter(dict[str, int]).validate_json(filled)


def feature_record(options: dict[str, Any], key: str) -> bytes | None:
    """One record of a set as it lies there; none: no such key."""
    with boundary():
        from flyball import _native

        return _native.feature_record(json.dumps(options).encode(), key)


class LoadRun:
    """A load on a server, from threads of its own; begins at once."""

    def __init__(self, plan: LoadPlan, payloads: bytes) -> None:
        with boundary():
            from flyball import _native

            self._run = _native.LoadRun(plan.model_dump_json().encode(), payloads)

    def progress(self) -> tuple[float, int]:
        """Seconds gone, requests finished."""
        with boundary():
            return self._run.progress()

    def phase(self) -> Literal["warming", "beginning", "measuring", "ended"]:
        """How far the run is; "beginning" lasts long enough to read the server's counters before measuring begins."""
        with boundary():
            return self._run.phase()

    def finished(self) -> bool:
        """Whether the run has ended."""
        with boundary():
            return self._run.finished()

    def stop(self) -> None:
        """End the run early."""
        with boundary():
            self._run.stop()

    def result(self) -> LoadResult:
        """Wait for the end and tell what was measured."""
        with boundary():
            return LoadResult.model_validate_json(self._run.result())


class Echo:
    """A bare HTTP/1.1 server in this process, on a thread of its own."""

    def __init__(self, options: EchoOptions | None = None) -> None:
        with boundary():
            from flyball import _native

            self._echo = _native.Echo((options or EchoOptions()).model_dump_json().encode())

    def url(self) -> str:
        """Where it listens."""
        with boundary():
            return self._echo.url()

    def stop(self) -> None:
        """End it, and wait until it has ended."""
        with boundary():
            self._echo.stop()


@contextmanager
def boundary() -> Iterator[None]:
    """Turns what the extension raises, or its absence, into our own errors."""
    try:
        yield
    except ImportError as error:
        raise FlyballError(
            f"the native extension of flyball cannot be loaded: {error}",
            code="native_missing",
            next_step="build it:  make build   or install a wheel:  pip install flyball",
        ) from error
    except Exception as error:
        native = sys.modules.get("flyball._native")
        if native is not None and isinstance(error, native.NativeError):
            raise from_native(str(error)) from error
        raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Puts the file's name before a refusal that does not say it: of several models, a person must know which."""
    try:
        yield
    except ModelRefusedError as error:
        if str(path) in error.message:
            raise
        named = f"{path}: {error.message}"
        raise ModelRefusedError(named, code=error.code, faults=error.faults, next_step=error.next_step) from error


def _version_of(path: Path) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", path.name.partition(".so")[2]))
