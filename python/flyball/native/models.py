"""Model files read, scanned, probed and timed as a server does it. Must not know what a snapshot contains."""

from __future__ import annotations

import json
from pathlib import Path

from flyball.native.boundary import boundary, naming, native, ort_library
from flyball.native.model_documents import Batching, Inspection, ModelFiles, ModelScan

PROBE_MS_MAX = 30_000
"""CPU time for loading and probing a model in its own process: a server's default `probe_ms_max`."""


def model_files(path: Path) -> ModelFiles:
    """Digests of a model's file and of its external data, and what the file says of itself."""
    with naming(path), boundary():
        return ModelFiles.model_validate_json(native.model_files(str(path)))


def copy_external_data(model: Path, name: str, target: Path) -> None:
    """Copy a file of weights that lies beside a model, opened and checked as a server does; a link is refused."""
    with naming(model), boundary():
        native.copy_external_data(str(model), name, str(target))


def scan_model(path: Path) -> ModelScan:
    """What a model says of itself, if it may be served at all; reads its file, loads nothing. Refuses as a server would."""
    with naming(path), boundary():
        return ModelScan.model_validate_json(native.scan_model(str(path)))


def inspect(path: Path, rows_max: int = 64) -> Inspection:
    """Load, probe and time a model. Refused where loading and probing it in a process of its own does not end."""
    options = _probe_options(rows_max)
    with naming(path), boundary():
        return Inspection.model_validate_json(native.inspect(str(path), json.dumps(options).encode()))


def prove(path: Path, rows_max: int = 64) -> Batching:
    """Load and probe a model in a process of its own, within a server's limits, and not in this one."""
    with naming(path), boundary():
        return Batching.model_validate_json(native.prove(str(path), json.dumps(_probe_options(rows_max)).encode()))


def _probe_options(rows_max: int) -> dict[str, object]:
    return {"ort_path": str(ort_library()), "rows_max": rows_max, "probe_ms_max": PROBE_MS_MAX}
