"""Selects the segments of rows that get figures of their own: the largest with enough rows.

Must not know figures.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flyball.models.equivalence.document import Document

SEGMENTS_MAX = 50
SEGMENT_ROWS_MIN = 100


class SkippedSegment(Document):
    """A segment without figures, and why, so that nobody assumes that it passed."""

    segment: str
    rows: int
    why: str


def segments_of(column: NDArray[np.generic]) -> tuple[dict[str, NDArray[np.bool_]], list[SkippedSegment]]:
    """The rows of each evaluated segment, largest first, and the skipped segments."""
    named = np.asarray(column).astype(str)
    values, counts = np.unique(named, return_counts=True)
    chosen: dict[str, NDArray[np.bool_]] = {}
    left_out = []
    for rank, index in enumerate(np.argsort(-counts, kind="stable")):
        name, rows = str(values[index]), int(counts[index])
        if rank >= SEGMENTS_MAX:
            left_out.append(
                SkippedSegment(segment=name, rows=rows, why=f"only the {SEGMENTS_MAX} largest segments are evaluated")
            )
        elif rows < SEGMENT_ROWS_MIN:
            left_out.append(SkippedSegment(segment=name, rows=rows, why=f"fewer than {SEGMENT_ROWS_MIN} rows"))
        else:
            chosen[name] = named == name
    return chosen, left_out
