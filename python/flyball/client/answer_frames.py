"""Answers as a DataFrame of the library that the caller's rows came in. Must not know transports."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from flyball.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flyball.client.decisions import DecidedRow
    from flyball.rows.frames import Frame
    from flyball.rows.tensors import Array

# The columns of `flyball score`, after the decision's id.
_KINDS = {**dict.fromkeys(("id", "outcome", "band", "score", "route", "reasons", "remedy", "fault"), str), "score": float}


def outputs_frame(frame: Frame, outputs: Mapping[str, Array]) -> Any:
    """The outputs as columns: `y`, or `y[0]`, `y[1]` … for an output with several values a row."""
    columns: dict[str, Any] = {}
    for name, array in outputs.items():
        if array.ndim == 0 or len(array) != frame.count:
            raise InvalidInputError(
                f"output {name!r} has the shape {list(array.shape)} for {frame.count} rows, so it cannot be a column",
                next_step="pass arrays, and the answer is arrays:  client.infer(MODEL, frame.to_numpy())",
            )
        if array.ndim == 1:
            columns[name] = array
        elif array.ndim == 2:
            width = array.shape[1]
            columns |= {name if width == 1 else f"{name}[{index}]": array[:, index] for index in range(width)}
        else:
            columns[name] = array.tolist()
    return frame.like(columns, {})


def decided_frame(frame: Frame, rows: Sequence[DecidedRow]) -> Any:
    """The decisions as columns; a row that was not decided has only its fault."""
    results = [_result(row) for row in rows]
    return frame.like({name: [result.get(name) for result in results] for name in _KINDS}, _KINDS)


def _result(row: DecidedRow) -> dict[str, Any]:
    decided = row.decided
    if decided is None:
        return {"fault": str(row.fault).replace("\n", ";")}
    remedy = decided.remedy
    reasons = [{key: value for key, value in asdict(reason).items() if value is not None} for reason in decided.reasons]
    return {
        "id": decided.id,
        "outcome": decided.outcome,
        "band": decided.band,
        "score": decided.score,
        "route": decided.route,
        "reasons": json.dumps(reasons, ensure_ascii=False) if reasons else None,
        "remedy": f"{remedy.cause} at {remedy.stage}: {remedy.used}" if remedy else None,
    }
