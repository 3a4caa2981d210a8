"""A decision's document checked and computed by the data plane's own program: faults, columns, features, contributions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flyball.errors import Fault
from flyball.native.boundary import boundary, native
from flyball.native.server_documents import DecisionDigests, PlannedStage


@dataclass(frozen=True, slots=True)
class DecisionCheck:
    """All faults of a decision; without any, its stages and digests."""

    faults: list[Fault]
    stages: list[PlannedStage]
    digests: DecisionDigests | None = None


def check_decision(document: dict[str, Any], models: list[dict[str, Any]]) -> DecisionCheck:
    """What the data plane's compiler says of a decision: its faults, or its stages."""
    with boundary():
        answer = json.loads(native.check_decision(json.dumps(document).encode(), json.dumps(models).encode()))
    faults = [Fault.from_document(item) for item in answer["faults"]]
    digests = DecisionDigests.model_validate(answer["digests"]) if answer.get("digests") else None
    return DecisionCheck(faults, [PlannedStage.model_validate(item) for item in answer["stages"]], digests)


def transform_columns(document: dict[str, Any], rows: Sequence[dict[str, Any]]) -> bytes:
    """The columns of a decision's only model for rows, as the walk computes them: little-endian float64, row by row."""
    with boundary():
        return native.transform_columns(json.dumps(document).encode(), json.dumps(list(rows)).encode())


def compute_features(document: dict[str, Any], rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """The computed features of a decision for rows, as the walk computes them: for each its values; none: missing."""
    with boundary():
        answer = native.compute_features(json.dumps(document).encode(), json.dumps(list(rows)).encode())
        return dict(json.loads(answer))


def contributions(sidecar: bytes, rows: bytes, columns: int) -> bytes:
    """What each column added to a row's raw margin, and last the base: little-endian, f32 rows in, f64 rows out."""
    with boundary():
        return native.contributions(sidecar, rows, columns)
