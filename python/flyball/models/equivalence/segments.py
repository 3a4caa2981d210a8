"""Which segments of rows are judged by themselves: the largest, of those that have rows enough to show something.

Must not know figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEGMENTS_MAX = 50
SEGMENT_ROWS_MIN = 100


class LeftOut(BaseModel):
    """A segment without a figure, and why: nobody shall take it for one that passed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    segment: str
    rows: int
    why: str


def segments_of(column: NDArray[np.generic]) -> tuple[dict[str, NDArray[np.bool_]], list[LeftOut]]:
    """The rows of each segment that is judged, the largest first, and the segments that are not."""
    named = np.asarray(column).astype(str)
    values, counts = np.unique(named, return_counts=True)
    chosen: dict[str, NDArray[np.bool_]] = {}
    left_out = []
    for rank, place in enumerate(np.argsort(-counts, kind="stable")):
        name, rows = str(values[place]), int(counts[place])
        if rank >= SEGMENTS_MAX:
            left_out.append(LeftOut(segment=name, rows=rows, why=f"only the {SEGMENTS_MAX} largest segments are told"))
        elif rows < SEGMENT_ROWS_MIN:
            left_out.append(LeftOut(segment=name, rows=rows, why=f"fewer than {SEGMENT_ROWS_MIN} rows"))
        else:
            chosen[name] = named == name
    return chosen, left_out
