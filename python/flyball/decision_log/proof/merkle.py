"""RFC 6962 Merkle trees over SHA-256: over the frames of a segment, and over the roots of segments.

Computes the proofs of evidence packs, also of records in Parquet, which the Rust journal cannot read. The pack's
verify.py has its own implementation, on purpose. Must not know files or records.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def leaf(*parts: bytes) -> bytes:
    """The hash of a leaf whose data is the concatenation of these parts."""
    return hashlib.sha256(b"\0" + b"".join(parts)).digest()


def node(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return hashlib.sha256(b"\1" + left + right).digest()


def frame_leaf(seq: int, prev: bytes, payload: bytes) -> bytes:
    """The hash of a frame: its leaf in the segment's tree, and the next frame's `prev`."""
    return leaf(seq.to_bytes(8, "little"), prev, payload)


def root(leaves: Sequence[bytes]) -> bytes:
    """The root of the tree; of no leaves, the hash of the empty string."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    row = list(leaves)
    while len(row) > 1:
        row = _above(row)
    return row[0]


def path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The sibling hashes on the path from a leaf to the root."""
    row, steps = list(leaves), []
    while len(row) > 1:
        sibling = index ^ 1
        if sibling < len(row):
            steps.append(row[sibling])
        row, index = _above(row), index // 2
    return steps


def _above(row: list[bytes]) -> list[bytes]:
    """One level up. A last node without a sibling moves up unchanged, which gives RFC 6962's shape."""
    pairs = [node(row[index], row[index + 1]) for index in range(0, len(row) - 1, 2)]
    return pairs if len(row) % 2 == 0 else [*pairs, row[-1]]
