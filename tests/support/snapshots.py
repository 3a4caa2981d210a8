"""Writes Snapshots to disk for the tests, from the format's specification alone.

It does not use flyball's own compiler: a second author of the same bytes is what tests a format.
"""

import hashlib
import json
from pathlib import Path
from typing import Any


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def deployment(
    name: str,
    model: Path,
    *,
    versions: dict[str, Path] | None = None,
    external_data: list[Path] | None = None,
    limits: dict[str, int] | None = None,
    slo: dict[str, int | None] | None = None,
    batch: dict[str, int] | None = None,
    artifact_digest: str | None = None,
    decision: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """One deployment document. `artifact_digest` overrides the true one, to make a broken document."""
    entries = [
        {
            "version": version,
            "artifact": {
                "path": str(path),
                "digest": artifact_digest or digest(path.read_bytes()),
                "external_data": [{"name": f.name, "digest": digest(f.read_bytes())} for f in external_data or []],
            },
        }
        for version, path in (versions or {"1": model}).items()
    ]
    terms: dict[str, Any] = {key: value for key, value in {"limits": limits, "slo": slo, "batch": batch}.items() if value}
    if decision is not None:
        terms["decision"] = decision
    return {
        "format": 1,
        "name": name,
        "route": {"version": entries[-1]["version"]},
        "versions": entries,
        **terms,
    }


def write(folder: Path, generation: int, documents: list[dict[str, Any]]) -> Path:
    """Puts documents and index where flyballd looks for them; the index last, and at once."""
    (folder / "deployments").mkdir(parents=True, exist_ok=True)
    entries = []
    for document in documents:
        content = json.dumps(document).encode()
        name = digest(content)
        (folder / "deployments" / f"{name.removeprefix('sha256:')}.json").write_bytes(content)
        entries.append({"name": document["name"], "digest": name})
    index = folder / "index.json"
    fresh = folder / "index.json.new"
    fresh.write_text(json.dumps({"format": 1, "generation": generation, "deployments": entries}))
    fresh.replace(index)
    return index
