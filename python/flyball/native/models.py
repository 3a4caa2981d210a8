"""Reads, scans, probes and times model files like a server. Must not know what a snapshot contains."""

from __future__ import annotations

import json
from pathlib import Path

from flyball.native.boundary import call_on, native, ort_library
from flyball.native.model_documents import Batching, Inspection, ModelFiles, ModelScan

PROBE_MS_MAX = 30_000
"""CPU time limit for loading and probing a model in its own process: a server's default `probe_ms_max`."""


def model_files(path: Path) -> ModelFiles:
    """Digests of a model's file and its external data, and the file's metadata."""
    return ModelFiles.model_validate_json(call_on(path, native.model_files, str(path)))


def copy_external_data(model: Path, name: str, target: Path) -> None:
    """Copy a weights file beside a model, opened and checked like a server; a link is refused."""
    call_on(model, native.copy_external_data, str(model), name, str(target))


def scan_model(path: Path) -> ModelScan:
    """Scan a model's file without loading it; refuses like a server."""
    return ModelScan.model_validate_json(call_on(path, native.scan_model, str(path)))


def inspect(path: Path, rows_max: int = 64) -> Inspection:
    """Load, probe and time a model. Refused if loading and probing it in its own process does not end."""
    return Inspection.model_validate_json(call_on(path, native.inspect, str(path), _probe_options(rows_max)))


def prove(path: Path, rows_max: int = 64) -> Batching:
    """Load and probe a model only in its own process, within a server's limits."""
    return Batching.model_validate_json(call_on(path, native.prove, str(path), _probe_options(rows_max)))


def _probe_options(rows_max: int) -> bytes:
    return json.dumps({"ort_path": str(ort_library()), "rows_max": rows_max, "probe_ms_max": PROBE_MS_MAX}).encode()
