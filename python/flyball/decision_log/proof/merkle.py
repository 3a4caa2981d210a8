"""Trees of RFC 6962 over SHA-256, as the journal has them: over the frames of a segment, and over the roots of segments.

It makes the proofs of evidence packs, also of what lies in Parquet, which the Rust journal cannot read; that one keeps the
trees of segments. The pack's verify.py climbs them by code of its own, on purpose. Must not know files or records.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def leaf(*parts: bytes) -> bytes:
    """Of a leaf whose data are these parts, one after the other."""
    return hashlib.sha256(b"\0" + b"".join(parts)).digest()


def node(left: bytes, right: bytes) -> bytes:
    """Of what stands above two others."""
    return hashlib.sha256(b"\1" + left + right).digest()


def frame_leaf(seq: int, prev: bytes, payload: bytes) -> bytes:
    """Of a frame: the leaf in its segment's tree, and what the next frame's `prev` is."""
    return leaf(seq.to_bytes(8, "little"), prev, payload)


def root(leaves: Sequence[bytes]) -> bytes:
    """Of the whole tree; of nothing: the hash of the empty string."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    row = list(leaves)
    while len(row) > 1:
        row = _above(row)
    return row[0]


def path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The hashes beside the way from a leaf up to the root."""
    row, steps = list(leaves), []
    while len(row) > 1:
        beside = index ^ 1
        if beside < len(row):
            steps.append(row[beside])
        row, index = _above(row), index // 2
    return steps


def _above(row: list[bytes]) -> list[bytes]:
    """One level up. A last one without a partner rises as it is, which gives RFC 6962's shape."""
    pairs = [node(row[place], row[place + 1]) for place in range(0, len(row) - 1, 2)]
    return pairs if len(row) % 2 == 0 else [*pairs, row[-1]]
