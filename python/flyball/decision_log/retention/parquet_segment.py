"""A segment as Parquet: columns and exact bytes of its records, with the proof in each file's metadata.

A segment is split by day and decision, into several files with the same name. Must not know which segments exist.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from flyball.decision_log.read.columns import PROOF, row_of, table_of
from flyball.documents.durable_file import making_folder
from flyball.errors import FlyballError, JournalRefusedError
from flyball.native.journal import Frame, verify_frames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from flyball.native.journal import JournalLog

    Row = dict[str, Any]
    Partition = tuple[str, str]

EVENTS = "_events"
_METADATA = b"flyball.segment"
_BYTES_HELD_MAX = 32 << 20
_ROWS_HELD_MAX = 1024
# Errors that tampered bytes can cause, also a record without a kind.
_UNREADABLE = (FlyballError, pa.ArrowException, OSError, ValueError, KeyError, TypeError)


@dataclass(frozen=True, slots=True)
class SegmentProof:
    """The proof in the metadata of every file of a segment. Hashes and header in hex; the checkpoint is a note."""

    segment: int
    first_seq: int
    frames: int
    header: str
    root: str
    last: str
    checkpoint: str


class PartsWriter:
    """Writes the files of one segment under `folder`, by day and decision, with bounded memory."""

    def __init__(self, folder: Path, proof: SegmentProof, begun_unix_ns: int) -> None:
        self._folder, self._proof = folder, proof
        self._begun = begun_unix_ns
        self._held: dict[Partition, list[Row]] = {}
        self._held_bytes = 0
        self._writers: dict[Partition, pq.ParquetWriter] = {}
        self._metadata = {_METADATA: json.dumps(asdict(proof)).encode()}

    def add(self, record: dict[str, Any], frame: Frame) -> None:
        """Add a record, as returned by `JournalLog.render`."""
        partition = partition_of(record, self._begun)
        self._held.setdefault(partition, []).append(_row(record, frame, self._proof.first_seq))
        self._held_bytes += len(frame.payload)
        if self._held_bytes > _BYTES_HELD_MAX:
            self._flush()

    def finish(self) -> list[Path]:
        """Close and return the files. A segment without records has one without rows, for its header."""
        if not self._held and not self._writers:
            self._held[day_of(self._begun), EVENTS] = []
        self._flush()
        for writer in self._writers.values():
            writer.close()
        return [self._path(partition) for partition in self._writers]

    def _flush(self) -> None:
        for partition, rows in self._held.items():
            table = table_of(rows).replace_schema_metadata(self._metadata)
            if partition not in self._writers:
                making_folder(self._path(partition).parent)
                self._writers[partition] = pq.ParquetWriter(self._path(partition), table.schema, compression="zstd")
            self._writers[partition].write_table(table)
        self._held, self._held_bytes = {}, 0

    def _path(self, partition: Partition) -> Path:
        day, decision = partition
        return self._folder / f"day={day}" / f"decision={decision}" / file_name(self._proof.segment)


def file_name(segment: int) -> str:
    """The name of each file of a segment."""
    return f"{segment:016d}.parquet"


def partition_of(record: dict[str, Any], begun_unix_ns: int) -> Partition:
    """Day and decision. Records without a decision's name are events."""
    return day_of(record.get("at", begun_unix_ns)), quote(record.get("decision") or EVENTS, safe="")


def day_of(unix_ns: int) -> str:
    """The day in UTC."""
    return datetime.datetime.fromtimestamp(unix_ns // 1_000_000_000, datetime.UTC).date().isoformat()


def read_proof(part: Path) -> SegmentProof:
    """Read the proof from a file's metadata."""
    try:
        return SegmentProof(**json.loads(pq.read_schema(part).metadata[_METADATA]))
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise JournalRefusedError(f"{part} is not part of a segment: {error}") from error


def read_frames(parts: Iterable[Path], *, where: tuple[str, str, object] | None = None) -> list[Frame]:
    """The frames in these files, in order; `where` is a pyarrow filter."""
    found: list[Frame] = []
    for part in parts:
        try:
            table = pq.read_table(part, columns=list(PROOF), partitioning=None, filters=where and [where])
        except (pa.ArrowException, OSError) as error:
            raise JournalRefusedError(f"{part} cannot be read: {error}") from error
        found += _frames(table)
    return sorted(found, key=lambda frame: frame.seq)


def digest_of(parts: Iterable[Path]) -> str:
    """The digest of a segment's files with their paths: the root does not cover footers and statistics."""
    whole = hashlib.sha256()
    for part in sorted(parts, key=lambda part: part.parts[-3:]):
        with part.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        whole.update(f"{'/'.join(part.parts[-3:])} {content}\n".encode())
    return whole.hexdigest()


def faults_of_segment(log: JournalLog, parts: Sequence[Path], root: str) -> list[str]:
    """Verify a segment in Parquet: its frames against the root, its columns against the frames."""
    if not parts:
        return ["its files are missing"]
    faults: list[str] = []
    try:
        proofs = {read_proof(part) for part in parts}
        proof = next(iter(proofs))
        if len(proofs) > 1:
            faults.append("its files have different metadata")
        plain = [(frame.seq, frame.prev, frame.payload) for frame in read_frames(parts)]
        if len(plain) != proof.frames:
            faults.append(f"it has {len(plain)} records instead of {proof.frames}")
        found = verify_frames(bytes.fromhex(proof.header), plain, bytes.fromhex(root))
        faults += [f"record {finding.seq}: {finding.what}" if finding.seq else finding.what for finding in found]
        for part in parts:
            faults += _faults_of_columns(log, part, proof)
    except _UNREADABLE as error:
        faults.append(f"it cannot be read: {error}")
    return faults


def _faults_of_columns(log: JournalLog, part: Path, proof: SegmentProof) -> list[str]:
    """Queries read the columns: they must match the proven bytes, and be in the right partition."""
    begun = int.from_bytes(bytes.fromhex(proof.header)[168:176], "little", signed=True)
    day, decision = (folder.partition("=")[2] for folder in part.parts[-3:-1])
    faults: list[str] = []
    different: dict[str, None] = {}
    with pq.ParquetFile(part) as file:
        if table_of([]).schema.names != file.schema_arrow.names:
            return [f"day={day}/decision={decision}: its columns are not the columns of records"]
        for batch in file.iter_batches(_ROWS_HELD_MAX):
            stored = pa.Table.from_batches([batch])
            records = [(frame, log.render(frame.payload)) for frame in _frames(stored)]
            made = table_of(_row(record, frame, proof.first_seq) for frame, record in records)
            faults += [f"record {frame.seq} is in the wrong folder" for frame, record in records
                       if partition_of(record, begun) != (day, decision)]  # fmt: skip
            different |= {name: None for name in made.schema.names if not made[name].equals(stored[name])}
    return [*faults, *(f"day={day}/decision={decision}: {name} does not match its records" for name in different)]


def _row(record: dict[str, Any], frame: Frame, first_seq: int) -> Row:
    position = {"seq": frame.seq, "segment": frame.segment, "frame": frame.seq - first_seq}
    return row_of(record, {**position, "prev": frame.prev, "leaf": frame.leaf, "payload": frame.payload})


def _frames(table: pa.Table) -> Iterator[Frame]:
    columns = (table[name].to_pylist() for name in ("seq", "prev", "leaf", "payload", "segment"))
    return (Frame(*cells) for cells in zip(*columns, strict=True))
