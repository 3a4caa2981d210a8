"""The index of a compacted segment, `state/index/N.jsonl`: records with subjects or blobs, and holds.

A server reads it instead of Parquet to erase a subject or order a hold, and so does `verify`. It has only unencrypted
parts of records. Must not know how segments are compacted.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from flyball.documents.durable_file import making_folder, write_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_ALWAYS = ("kind", "seq", "segment")
_WHERE_THERE = ("at", "decision", "subject")
_OF_HOLDS = ("name", "by", "why", "from", "to")
_HOLDS = ("hold", "release")


def index_of(records: Iterable[dict[str, Any]]) -> bytes:
    """The index lines of records, in order."""
    lines = (_line(record) for record in records)
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines if line is not None)


def write_index(journal: Path, segment: int, index: bytes) -> None:
    """Write the index durably."""
    path = index_path(journal, segment)
    making_folder(path.parent)
    write_bytes(path, index)


def index_path(journal: Path, segment: int) -> Path:
    """The index file of a segment."""
    return journal / "state" / "index" / f"{segment:016d}.jsonl"


def remove_index(journal: Path, segment: int) -> None:
    """Remove the index after the segment's records."""
    index_path(journal, segment).unlink(missing_ok=True)


def differs(journal: Path, segment: int, index: bytes) -> bool:
    """Whether the file is missing or does not match the records."""
    try:
        return index_path(journal, segment).read_bytes() != index
    except FileNotFoundError:
        return True


def _line(record: dict[str, Any]) -> dict[str, Any] | None:
    holds = record["kind"] in _HOLDS
    blobs = [digest.removeprefix("sha256:") for digest in _blobs(record)]
    if not (holds or blobs or "subject" in record):
        return None
    names = (*_ALWAYS, *_WHERE_THERE, *(_OF_HOLDS if holds else ()))
    line = {name: record[name] for name in names if record.get(name) is not None}
    # The reason of an erasure is encrypted with its own key, not the subject's.
    personal = record["kind"] != "erased" and any(name.startswith("personal") for name in record)
    return line | ({"personal": True} if personal else {}) | ({"blobs": blobs} if blobs else {})


def _blobs(record: dict[str, Any]) -> list[str]:
    if record["kind"] == "served":
        return [record["deployment"], record["runtime"]]
    return [record["input_blob"][0]] if "input_blob" in record else []
