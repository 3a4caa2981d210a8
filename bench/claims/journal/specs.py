"""Small decisions for the journal's claims, served with a journal. Must not know what is claimed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bench.claims.decisions import specs
from bench.claims.decisions.asking import Request, ask_all
from flyball.decision.compile.bundle import deployment_of
from flyball.decision.decision import Decision
from flyball.documents.snapshot import compile_models

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SPEC = """
decision: {name}
owner: claims@example.com
purpose: leave records
slo: {{timeout: 5s}}
input:
  account: {{type: string, key: true, pii: true}}
  amount: {{type: float, min: 0, max: 1000}}
  rate: {{type: float, min: 0, max: 1000}}
model: {{path: sum.onnx, name: sum, columns: [amount, rate], score: "score[0]"}}
policy:
  bands: {{low: "< 500", high: ">= 500"}}
{record}
"""


_CHUNK_ROWS = 500
JUDGED, EDGE = "judged", 500.0
_JUDGED = f"""
decision: {JUDGED}
owner: claims@example.com
purpose: be judged beside a candidate
slo: {{timeout: 5s}}
input:
  account: {{type: string, key: true}}
  amount: {{type: float, min: 0, max: 1000}}
  rate: {{type: float, min: 0, max: 1000}}
  country: {{type: category, values: [DE, FR, IT, US]}}
model: {{path: MODEL.onnx, name: sum, columns: [amount, rate], score: "score[0]"}}
policy:
  bands: {{low: "< {EDGE:g}", high: ">= {EDGE:g}"}}
"""


def snapshot(folder: Path, records: Mapping[str, str | None]) -> Path:
    """A snapshot with a decision for each name, which records as the text says; none: as the server does by itself."""
    paths = []
    for name, record in records.items():
        text = SPEC.format(name=name, record=f"record: {record}" if record else "")
        paths.append(specs.write(folder / name, text, name))
    sources = [deployment_of(Decision.load(path).check().compiled) for path in paths]
    return compile_models(sources).write(folder / "snapshot")


def configured(path: Path, journal: Path | None, **more: Any) -> Path:
    """A server's configuration: one lane, and this journal."""
    settings = {"lanes": 1, "log": "warn", **({"journal_folder": str(journal)} if journal else {}), **more}
    path.write_text(json.dumps(settings))
    return path


def row(number: int) -> dict[str, Any]:
    """What one of many callers sends."""
    return {"account": f"account-{number % 97}", "amount": float(number % 1000), "rate": 1.0}


def with_candidate(folder: Path) -> tuple[Path, Path]:
    """The snapshot of a decision, and the spec of a candidate for it: the same with other weights."""
    specs.write_model(folder / "champion.onnx", (1.0, 0.001))
    specs.write_model(folder / "candidate.onnx", (0.9, 0.1))
    for name in ("champion", "candidate"):
        (folder / f"{name}.yaml").write_text(_JUDGED.replace("MODEL", name))
    return Decision.load(folder / "champion.yaml").bundle().write(folder / "snapshot"), folder / "candidate.yaml"


def ask_rows(url: str, decision: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All rows, many to a request."""
    requests = [
        Request(json.dumps({"rows": [{"input": row} for row in rows[start : start + _CHUNK_ROWS]]}).encode())
        for start in range(0, len(rows), _CHUNK_ROWS)
    ]
    (answers,) = ask_all(url, decision, [requests])
    return [row for answer in answers for row in answer["rows"]]
