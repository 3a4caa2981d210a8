"""The latency gate: serves a version on this machine and measures it against its contract.

Server and load generator are separate processes, so that this one does not disturb the measurement. The evidence states the
requests and the hardware. Must not know the other gates.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.errors import FlyballError, InvalidInputError
from flyball.registry.acts.rules import Gate
from flyball.registry.packages.deployment import main_model, resolved
from flyball.registry.packages.meta import DECISION, SAMPLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flyball.bench.record import BenchRecord
    from flyball.registry.acts.registry import GateInput
    from flyball.registry.packages.deployment import PackageFolder
    from flyball.registry.packages.meta import LatencyContract

_MEASURE_MARGIN_S = 180.0
_WORDS_MAX = 1000
_ROWS_MAX = 10_000
_NO_SAMPLES = "register it again with rows of its fields:  flyball register NAME … --sample ROW.json"


@dataclass(slots=True)
class _Measured:
    """What is measured: the server's command, the rows and the contract."""

    what: str
    serve: list[str]
    rows: list[dict[str, Any]]
    contract: dict[str, Any]
    evidence: dict[str, Any] = field(default_factory=dict)


def latency(subject: GateInput, package: PackageFolder, contract: LatencyContract) -> Gate:
    """Measure a contract; the measurement's record is stored as an artifact."""
    promise = f"p99 ≤ {contract.p99_ms:g} ms at {contract.rate_per_s:,.0f}/s"
    evidence: dict[str, Any] = {"promise": promise}
    with tempfile.TemporaryDirectory(prefix="flyball-gate-") as made:
        folder = Path(made)
        try:
            measured = _prepared(subject, package, folder)
            evidence |= {"measured": measured.what, **measured.evidence}
            kept, words = _prove(measured, contract, folder, evidence)
        except (FlyballError, OSError, subprocess.TimeoutExpired) as error:
            kept, words = False, str(error)
        record = next(iter(sorted(folder.glob("record/*.json"))), None)
        if record is not None:
            evidence["record"] = subject.handle.store.put_bytes(record.read_bytes()).digest
            evidence |= _figures(record)
    return Gate("latency", passed=kept, words=(words or _kept(promise, evidence))[:_WORDS_MAX], evidence=evidence)


def _prepared(subject: GateInput, package: PackageFolder, folder: Path) -> _Measured:
    """Prepare the whole decision, or a plain package's model, with the package's samples as rows."""
    rows = _samples(package.folder)
    said: dict[str, Any] = {"contract": "promotion", "model": subject.name}
    if rows:
        lines = folder / "samples.jsonl"
        lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
        said["payloads"] = {"source": "file", "file": lines.name, "check": False}
    serve = [sys.executable, "-m", "flyball", "serve", "--listen", "127.0.0.1:0"]
    if not (package.folder / DECISION).is_file():
        model = main_model(package.folder)
        known: dict[str, Any] = {"model": model.name, "rows": len(rows) or "generated from the model's signature"}
        return _Measured("model", [*serve, f"{subject.name}={model}"], rows, said, known)
    if not rows:
        raise InvalidInputError(
            f"{package.ref} has a latency contract and no samples, so its decision cannot be measured", next_step=_NO_SAMPLES
        )
    whole, shared = _alone(package, subject.handle.references(subject.version))
    (folder / DECISION).write_text(whole)
    serve += ["--decision", str(folder / DECISION), "--journal-folder", str(folder / "journal")]
    known = {"decision": subject.name, "rows": len(rows), **({"windows_not_shared": shared} if shared else {})}
    return _Measured("decision", serve, rows, {**said, "protocol": "decision"}, known)


def _alone(package: PackageFolder, references: Mapping[str, PackageFolder]) -> tuple[str, list[str]]:
    """The decision for a server of this machine, and the names of windows that were made local.

    Shared windows would otherwise count the samples of every promotion as callers' events.
    """
    from flyball.decision.spec.write import yaml_of

    spec, _ = resolved(package, references)
    shared = [name for name, one in spec.features.items() if one.window is not None and one.window.source is not None]
    features = {
        name: one.model_copy(update={"window": one.window.model_copy(update={"source": None})})
        if name in shared and one.window is not None
        else one
        for name, one in spec.features.items()
    }
    return yaml_of(spec.model_copy(update={"features": features}) if shared else spec), shared


def _samples(folder: Path) -> list[dict[str, Any]]:
    """The rows of all samples: a file has one row, a list of rows, or requests in a server's format."""
    rows: list[dict[str, Any]] = []
    for path in sorted((folder / SAMPLES).glob("*.json")):
        document = json.loads(path.read_bytes())
        found = _rows_of(document)
        if not found or not all(isinstance(row, dict) for row in found):
            raise InvalidInputError(f"{SAMPLES}/{path.name} has no rows", next_step="write one JSON object a row")
        rows += found
    if len(rows) > _ROWS_MAX:
        raise InvalidInputError(f"{SAMPLES} has {len(rows):,} rows", next_step=f"{_ROWS_MAX:,} are enough")
    return rows


def _rows_of(document: Any) -> list[Any]:
    if isinstance(document, list):
        return [row for one in document for row in _rows_of(one)]
    if isinstance(document, dict) and isinstance(document.get("rows"), list):
        return [row for one in document["rows"] for row in _rows_of(one)]
    if isinstance(document, dict) and isinstance(document.get("input"), dict):
        return [document["input"]]
    return [document]


def _prove(measured: _Measured, contract: LatencyContract, folder: Path, evidence: dict[str, Any]) -> tuple[bool, str]:
    """Serve it, send every row once, then measure."""
    from flyball.bench.process import Process

    asked = folder / "contract.json"
    asked.write_text(json.dumps({**measured.contract, **contract.model_dump()}))
    with Process(measured.serve) as server:
        if measured.what == "decision":
            remedies = _asked_once(server.url, str(measured.contract["model"]), measured.rows)
            evidence |= {"remedies": remedies} if remedies else {}
        return _gate(asked, server.url, folder / "record", contract)


def _asked_once(url: str, decision: str, rows: list[dict[str, Any]]) -> dict[str, int]:
    """Send every row once, to report a refused one by its own fault; returns the remedies that were used."""
    from flyball.client import Client

    causes: Counter[str] = Counter()
    with Client(url) as client:
        for number, row in enumerate(rows, start=1):
            try:
                remedy = client.decide(decision, row).remedy
            except InvalidInputError as error:
                raise InvalidInputError(
                    f"sample {number} cannot be decided: {error.message}", faults=error.faults, next_step=_NO_SAMPLES
                ) from error
            if remedy is not None:
                causes[remedy.cause] += 1
    return dict(causes)


def _gate(contract: Path, url: str, out: Path, said: LatencyContract) -> tuple[bool, str]:
    """Run `flyball bench gate`; returns whether the contract is kept, and its message if not."""
    command = [sys.executable, "-m", "flyball", "bench", "gate", str(contract), "--url", url, "--out", str(out), "--json"]
    limit_s = said.window_s * said.repeats * 3 + _MEASURE_MARGIN_S
    ended = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    if ended.returncode == 0:
        return True, ""
    last = ended.stderr.strip().splitlines()[-1:] or ["the measurement failed without a message"]
    try:
        return False, str(json.loads(last[0])["error"])
    except (ValueError, KeyError, TypeError):
        return False, last[0]


def _figures(path: Path) -> dict[str, Any]:
    """The record's main figures, for the history."""
    from flyball.bench.record import BenchRecord
    from flyball.bench.statistics import figures

    record: BenchRecord = BenchRecord.read(path)
    hardware = {"cpu": record.machine.cpu_model, "cores": len(record.machine.cpus_allowed), "kernel": record.machine.kernel}
    if not record.windows:
        return {"hardware": hardware}
    found = figures(record.windows)
    shown = {f"{name}_ms": round(found[name].value / 1000, 3) for name in ("p50", "p99") if found[name].value > 0}
    return {"rate_per_s": round(found["rate"].value, 1), **shown, "hardware": hardware}


def _kept(promise: str, evidence: dict[str, Any]) -> str:
    """`the decision, asked with 12 rows: p99 3.1 ms, p50 1.2 ms at 100/s; p99 ≤ 5 ms at 100/s is kept`."""
    rows = evidence["rows"]
    asked = f"asked with {rows:,} sample row{'s' * (rows != 1)}" if isinstance(rows, int) else f"asked with rows {rows}"
    found = f"p99 {evidence.get('p99_ms', '?')} ms, p50 {evidence.get('p50_ms', '?')} ms"
    used = evidence.get("remedies")
    remedies = f" ({sum(used.values())} of them answered by a remedy: {', '.join(used)})" if used else ""
    hardware = evidence.get("hardware", {})
    return f"the {evidence['measured']}, {asked}{remedies}: {found} on {hardware.get('cores', '?')} cores; {promise} is kept"
