"""Reads and writes journals: typed calls of `_native.JournalLog` and `_native.Journal`.

Records are plain JSON objects; `flyball.decision_log` interprets them. Must not know the command line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from flyball.errors import EvidenceError, JournalRefusedError, LockedError
from flyball.native.boundary import call, native, ort_library
from flyball.native.journal_documents import Finding, Proof, SegmentFacts, Verified

_SEGMENTS = TypeAdapter(list[SegmentFacts])
_FINDINGS = TypeAdapter(list[Finding])
_MOST = 4096
_CLOCK_NS = 3_600_000_000_000
# A payload up to its input: {"kind": "decision", "id": sixteen zeros, "input": …
_INPUT_HEAD = b"\xa3\x64kind\x68decision\x62id\x50" + bytes(16) + b"\x65input"


@dataclass(frozen=True, slots=True)
class Frame:
    """A record as stored in its segment."""

    seq: int
    prev: bytes
    leaf: bytes
    payload: bytes
    segment: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """A filter of records, with the options of `JournalLog.chunk`."""

    kinds: tuple[str, ...] | None
    decision: str | None
    since_ns: int | None
    until_ns: int | None
    durable_only: bool

    def has(self, record: dict[str, Any], at: int) -> bool:
        """Whether a record of a time passes the filter."""
        return (
            (self.kinds is None or record["kind"] in self.kinds)
            and (self.decision is None or record.get("decision") == self.decision)
            and (self.since_ns is None or at >= self.since_ns)
            and (self.until_ns is None or at < self.until_ns)
        )


class JournalLog:
    """Reads a journal's folder, also while a server writes to it.

    `reveal` decrypts personal data with the key `kek`, or with the folder's own; without it such values stay "sealed".
    """

    def __init__(self, folder: Path, *, kek: str | None = None, reveal: bool = False) -> None:
        if not (folder / "node.json").is_file():
            raise JournalRefusedError(
                f"there is no journal in {folder}",
                next_step="name it:  --journal-folder DIR   or set FLYBALL_JOURNAL_FOLDER",
            )
        self._log = call(native.JournalLog, str(folder), json.dumps({"kek": kek, "reveal": reveal}).encode())
        self.folder = folder
        self._erasures: tuple[tuple[int, int] | None, dict[str, int]] = (None, {})

    def segments(self) -> list[SegmentFacts]:
        """All remaining segments in order; the last one may be open."""
        return _SEGMENTS.validate_json(call(self._log.segments))

    def records(
        self,
        from_seq: int = 0,
        *,
        kinds: Sequence[str] | None = None,
        decision: str | None = None,
        since_ns: int | None = None,
        until_ns: int | None = None,
        durable_only: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """Records from a sequence number to the current end, oldest first, as JSON objects."""
        wanted = None if kinds is None else tuple(kinds)
        return self.read(from_seq, Wanted(wanted, decision, since_ns, until_ns, durable_only))

    def read(self, from_seq: int, wanted: Wanted) -> Iterator[dict[str, Any]]:
        """Read the segments in bounded chunks."""
        from_seq, end = max(from_seq, self.first_since(wanted.since_ns)), False
        while not end:
            lines, from_seq, end = self.chunk(from_seq, _MOST, asdict(wanted))
            yield from map(self.with_input, map(json.loads, lines.splitlines()))

    def chunk(self, from_seq: int, most: int, options: dict[str, Any]) -> tuple[bytes, int, bool]:
        """One chunk of `records`: JSON lines, the next sequence number, whether it is the last. Options: `_native.pyi`."""
        return call(self._log.records, from_seq, most, _options(options))

    def frames(self, from_seq: int = 0, most: int = _MOST) -> Iterator[Frame]:
        """Durable frames from a sequence number to the current end."""
        while chunk := call(self._log.frames, from_seq, most):
            for frame in chunk:
                yield Frame(*frame)
            from_seq = chunk[-1][0] + 1

    def find(self, decision_id: str) -> list[dict[str, Any]]:
        """All records of a decision, oldest first; empty if there is no such decision."""
        return [self.with_input(record) for record in json.loads(call(self._log.find, decision_id))]

    def with_input(self, record: dict[str, Any]) -> dict[str, Any]:
        """A record with its long input, if that can be read, and with a mark if its subject was erased since."""
        # The reason of an erasure is sealed under its own key, which a later erasure of the subject keeps.
        sealed = record.get("personal") == "sealed" and record["kind"] != "erased"
        if sealed and record["seq"] < self.erasures().get(record.get("subject", ""), 0):
            record = {**record, "personal": "erased"}
        kept = self.blob(record["input_blob"][0]) if "input_blob" in record else None
        if kept is None:
            return record
        try:
            sent = self.render(_INPUT_HEAD + kept)["input"]
        except EvidenceError:
            return record
        return {**record, "input": {**sent, **(record.get("input") or {})}}  # personal data comes from the record

    def erasures(self) -> dict[str, int]:
        """The sequence number of each erased subject's last erasure, by the subject's token. Needs no key."""
        facts = (self.folder / "subjects").stat() if (self.folder / "subjects").exists() else None
        stamp = None if facts is None else (facts.st_mtime_ns, facts.st_size)  # an erasure changes the file
        if self._erasures[0] is None or stamp != self._erasures[0]:
            self._erasures = (stamp, json.loads(call(self._log.erasures)))
        return self._erasures[1]

    def erasure(self, subject: str, from_seq: int) -> dict[str, Any] | None:
        """The first erasure of a subject, by its token, from a sequence number on; None without one."""
        return next(
            (record for record in self.records(from_seq, kinds=["erased"]) if record.get("subject") == subject), None
        )

    def first_since(self, since_ns: int | None) -> int:
        """The first sequence number to read for records since a time; segments that ended earlier are skipped."""
        if since_ns is None:
            return 0
        segments = self.segments()
        # A segment's records are older than the next segment's start; the clock may have been changed since.
        old = [later.first_seq for later in segments[1:] if later.created_unix_ns + _CLOCK_NS <= since_ns]
        return max(old, default=0)

    def verify(
        self,
        *,
        segment: int | None = None,
        checkpoint: str | None = None,
        key: str | None = None,
        without_keys: bool = False,
        told: Callable[[int, int], None] | None = None,
    ) -> Verified:
        """Verify everything or one segment, also against a note kept elsewhere; reports all faults, not only the first."""
        options = {"segment": segment, "checkpoint": checkpoint, "key": key, "without_keys": without_keys or None}
        return Verified.model_validate_json(call(self._log.verify, _options(options), told))

    def prove(self, seq: int) -> Proof:
        """Prove that a record is in its segment, and the segment under the last checkpoint."""
        return Proof.model_validate_json(call(self._log.prove, seq))

    def render(self, payload: bytes) -> dict[str, Any]:
        """A frame's payload in the form of `records`, without its location in the log."""
        return dict(json.loads(call(self._log.render, payload)))

    def header(self, segment: int) -> bytes:
        """The header bytes of a segment."""
        return call(self._log.header, segment)

    def checkpoints(self) -> list[str]:
        """The signed notes, oldest first."""
        return call(self._log.checkpoints)

    def token(self, subject: str) -> str:
        """The token of a subject in records, in hex. Requires `reveal`, because it is computed with the key."""
        return call(self._log.token, subject)

    def blob(self, digest: str) -> bytes | None:
        """The content stored beside the log as "sha256:hex"; None if it is absent."""
        return call(self._log.blob, digest)


class Journal:
    """Writes to a journal that no server has locked; else raises `LockedError`. Close it, or use `with`."""

    def __init__(self, folder: Path, *, kek: str | None = None, key: Path | None = None) -> None:
        options = {"folder": str(folder), "kek": kek, "key": None if key is None else str(key)}
        try:
            self._journal = call(native.Journal, json.dumps(options).encode())
        except LockedError as error:
            raise LockedError(error.message, next_step="say where it listens:  --url http://HOST:PORT") from error

    def append(self, event: dict[str, Any]) -> int:
        """Append an outcome, override, hold or release (`_native.pyi`); returns its number once it is durable."""
        return call(self._journal.append, json.dumps(event).encode())

    def erase(
        self,
        subject: str,
        *,
        by: str,
        why: str,
        keys: Sequence[str] = (),
        features_folder: Path | None = None,
        stores: Sequence[Path] = (),
    ) -> dict[str, int]:
        """Delete a subject's key, and the features of it and of further keys; record that. Returns counts by kind."""
        folder = None if features_folder is None else str(features_folder)
        targets = {"features_folder": folder, "stores": [str(store) for store in stores]}
        order = {"subject": subject, "by": by, "why": why, "keys": list(keys), **targets}
        return dict(json.loads(call(self._journal.erase, json.dumps(order).encode())))

    def close(self) -> None:
        """Seal the written records."""
        call(self._journal.close)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def verify_frames(header: bytes, frames: list[tuple[int, bytes, bytes]], root: bytes) -> list[Finding]:
    """Verify (seq, prev, payload)s of one segment against its root; no finding means valid."""
    return _FINDINGS.validate_json(call(native.verify_frames, header, frames, root))


def runtime_fingerprint() -> dict[str, Any]:
    """Properties of this machine that can change a result, as in its records."""
    return dict(json.loads(call(native.runtime_fingerprint, str(ort_library()))))


def _options(given: dict[str, Any]) -> bytes:
    return json.dumps({name: value for name, value in given.items() if value is not None}).encode()
