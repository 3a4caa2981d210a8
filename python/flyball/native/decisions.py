"""Checks and computes decisions with the data plane's program: faults, columns, features, contributions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flyball.errors import Fault
from flyball.native.boundary import call, native
from flyball.native.server_documents import DecisionDigests, PlannedStage


@dataclass(frozen=True, slots=True)
class DecisionCheck:
    """All faults of a decision; without any, its stages and digests."""

    faults: list[Fault]
    stages: list[PlannedStage]
    digests: DecisionDigests | None = None


def check_decision(document: dict[str, Any], models: list[dict[str, Any]]) -> DecisionCheck:
    """Compile a decision; returns all its faults, or its stages and digests."""
    answer = json.loads(call(native.check_decision, json.dumps(document).encode(), json.dumps(models).encode()))
    faults = [Fault.from_document(item) for item in answer["faults"]]
    digests = DecisionDigests.model_validate(answer["digests"]) if answer.get("digests") else None
    return DecisionCheck(faults, [PlannedStage.model_validate(item) for item in answer["stages"]], digests)


def transform_columns(document: dict[str, Any], rows: Sequence[dict[str, Any]]) -> bytes:
    """Compute the columns of a decision's only model for rows: little-endian float64, row by row."""
    return call(native.transform_columns, json.dumps(document).encode(), json.dumps(list(rows)).encode())


def compute_features(document: dict[str, Any], rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """The values of each computed feature for rows; None is missing."""
    return dict(json.loads(call(native.compute_features, json.dumps(document).encode(), json.dumps(list(rows)).encode())))


def contributions(sidecar: bytes, rows: bytes, columns: int) -> bytes:
    """Each column's contribution to a row's raw margin, and the base last: little-endian f32 rows in, f64 rows out."""
    return call(native.contributions, sidecar, rows, columns)
