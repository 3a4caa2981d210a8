"""The journal's part of `flyball.native`: typed calls over `_native.JournalLog` and `_native.Journal`.

Records come as plain JSON objects; `flyball.decision_log` gives them meaning. Must not know the command line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic import TypeAdapter

from flyball.errors import EvidenceError, JournalRefusedError, LockedError
from flyball.native.boundary import boundary, native, ort_library
from flyball.native.journal_documents import Finding, Proof, SegmentFacts, Verified

_SEGMENTS = TypeAdapter(list[SegmentFacts])
_FINDINGS = TypeAdapter(list[Finding])
_MOST = 4096
_CLOCK_NS = 3_600_000_000_000
# A payload up to its input: {"kind": "decision", "id": sixteen zeros, "input": …
_INPUT_HEAD = b"\xa3\x64kind\x68decision\x62id\x50" + bytes(16) + b"\x65input"


@dataclass(frozen=True, slots=True)
class Frame:
    """A record as it lies in its segment."""

    seq: int
    prev: bytes
    leaf: bytes
    payload: bytes
    segment: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records are asked for, as `JournalLog.chunk` takes it."""

    kinds: tuple[str, ...] | None
    decision: str | None
    since_ns: int | None
    until_ns: int | None
    durable_only: bool

    def has(self, record: dict[str, Any], at: int) -> bool:
        """Whether a record that was made at a time is one of them."""
        return (
            (self.kinds is None or record["kind"] in self.kinds)
            and (self.decision is None or record.get("decision") == self.decision)
            and (self.since_ns is None or at >= self.since_ns)
            and (self.until_ns is None or at < self.until_ns)
        )


class JournalLog:
    """Reads a journal's folder, beside its writer too.

    `reveal` opens what is personal by the key in `kek`, or by the folder's own; without it such values stay "sealed".
    """

    def __init__(self, folder: Path, *, kek: str | None = None, reveal: bool = False) -> None:
        if not (folder / "node.json").is_file():
            raise JournalRefusedError(
                f"there is no journal in {folder}",
                next_step="say where it is:  --journal FOLDER   or set FLYBALL_JOURNAL; a server has it as journal_folder",
            )
        with boundary():
            self._log = native.JournalLog(str(folder), json.dumps({"kek": kek, "reveal": reveal}).encode())
        self.folder = folder
        self._erasures: tuple[tuple[int, int] | None, dict[str, int]] = (None, {})

    def segments(self) -> list[SegmentFacts]:
        """All segments that are still there, in order; the last one may be open."""
        with boundary():
            return _SEGMENTS.validate_json(self._log.segments())

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
        """Records from a sequence number on, oldest first, as JSON objects, to where the log ends now."""
        asked = None if kinds is None else tuple(kinds)
        return self.read(from_seq, Wanted(asked, decision, since_ns, until_ns, durable_only))

    def read(self, from_seq: int, wanted: Wanted) -> Iterator[dict[str, Any]]:
        """Those of the segments, in bounded chunks."""
        from_seq, end = max(from_seq, self.first_since(wanted.since_ns)), False
        while not end:
            lines, from_seq, end = self.chunk(from_seq, _MOST, asdict(wanted))
            yield from map(self.with_input, map(json.loads, lines.splitlines()))

    def chunk(self, from_seq: int, most: int, options: dict[str, Any]) -> tuple[bytes, int, bool]:
        """One chunk of `records`: JSON lines, where to go on, whether that is the end. Options as in `_native.pyi`."""
        told = {name: value for name, value in options.items() if value is not None}
        with boundary():
            return self._log.records(from_seq, most, json.dumps(told).encode())

    def frames(self, from_seq: int = 0, most: int = _MOST) -> Iterator[Frame]:
        """Durable frames from a sequence number on, to where the log ends now."""
        while True:
            with boundary():
                chunk = self._log.frames(from_seq, most)
            if not chunk:
                return
            for frame in chunk:
                yield Frame(*frame)
            from_seq = chunk[-1][0] + 1

    def find(self, decision_id: str) -> list[dict[str, Any]]:
        """All records of a decision, oldest first; none where there is no such decision."""
        with boundary():
            found: list[dict[str, Any]] = json.loads(self._log.find(decision_id))
        return [self.with_input(record) for record in found]

    def with_input(self, record: dict[str, Any]) -> dict[str, Any]:
        """A record with its long input put back where that can be read, and marked where its subject was erased since."""
        # The reason of an erasure is sealed under a key of its own: a later erasure of the subject leaves it.
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
        return {**record, "input": {**sent, **(record.get("input") or {})}}  # what is personal is opened from the record

    def erasures(self) -> dict[str, int]:
        """The last erasure of each subject that has one: its record's number, by the subject's token. Needs no key."""
        facts = (self.folder / "subjects").stat() if (self.folder / "subjects").exists() else None
        stamp = None if facts is None else (facts.st_mtime_ns, facts.st_size)  # an erasure changes the file
        if self._erasures[0] is None or stamp != self._erasures[0]:
            with boundary():
                self._erasures = (stamp, json.loads(self._log.erasures()))
        return self._erasures[1]

    def erasure(self, subject: str, from_seq: int) -> dict[str, Any] | None:
        """The first erasure of a subject, by its token, from a sequence number on; none: there is none."""
        return next(
            (record for record in self.records(from_seq, kinds=["erased"]) if record.get("subject") == subject), None
        )

    def first_since(self, since_ns: int | None) -> int:
        """From which number on records of a time are: whole segments that ended before it need not be read."""
        if since_ns is None:
            return 0
        segments = self.segments()
        # A record lies in its segment before the next one is begun; clocks may have been set since.
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
        """Check everything, or one segment, or against a note that was kept elsewhere; never stops at the first fault."""
        options = {"segment": segment, "checkpoint": checkpoint, "key": key, "without_keys": without_keys or None}
        given = {name: value for name, value in options.items() if value is not None}
        with boundary():
            return Verified.model_validate_json(self._log.verify(json.dumps(given).encode(), told))

    def prove(self, seq: int) -> Proof:
        """That a record is in its segment, and its segment under the last checkpoint."""
        with boundary():
            return Proof.model_validate_json(self._log.prove(seq))

    def render(self, payload: bytes) -> dict[str, Any]:
        """A frame's payload as `records` gives it, without its place in the log."""
        with boundary():
            record: dict[str, Any] = json.loads(self._log.render(payload))
            return record

    def header(self, segment: int) -> bytes:
        """The bytes that a segment begins with."""
        with boundary():
            return self._log.header(segment)

    def checkpoints(self) -> list[str]:
        """The signed notes, oldest first."""
        with boundary():
            return self._log.checkpoints()

    def token(self, subject: str) -> str:
        """Under which records name a subject, in hex. The log must have been opened with `reveal`: it takes the key."""
        with boundary():
            return self._log.token(subject)

    def blob(self, digest: str) -> bytes | None:
        """What lies beside the log under "sha256:hex"; none: it is not there."""
        with boundary():
            return self._log.blob(digest)


class Journal:
    """Writes to a journal that no server holds; a `LockedError` says so where one does. Close it, or use `with`."""

    def __init__(self, folder: Path, *, kek: str | None = None, key: Path | None = None) -> None:
        options = {"folder": str(folder), "kek": kek, "key": None if key is None else str(key)}
        with _locked(), boundary():
            self._journal = native.Journal(json.dumps(options).encode())

    def append(self, event: dict[str, Any]) -> int:
        """An outcome, an override, a hold or a release, as `_native.pyi` has them; its number, once it is durable."""
        with boundary():
            return self._journal.append(json.dumps(event).encode())

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
        """Delete a subject's key, and what features keep of it and of further keys; record that. Counts by kind."""
        folder = None if features_folder is None else str(features_folder)
        places = {"features_folder": folder, "stores": [str(store) for store in stores]}
        order = {"subject": subject, "by": by, "why": why, "keys": list(keys), **places}
        with boundary():
            counts: dict[str, int] = json.loads(self._journal.erase(json.dumps(order).encode()))
        return counts

    def close(self) -> None:
        """Seal what was written."""
        with boundary():
            self._journal.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def verify_frames(header: bytes, frames: list[tuple[int, bytes, bytes]], root: bytes) -> list[Finding]:
    """Whether (seq, prev, payload)s, all of one segment, are those under its root; no finding: they are."""
    with boundary():
        return _FINDINGS.validate_json(native.verify_frames(header, frames, root))


def runtime_fingerprint() -> dict[str, Any]:
    """What makes a run differ from machine to machine, as records of this machine would have it."""
    with boundary():
        found: dict[str, Any] = json.loads(native.runtime_fingerprint(str(ort_library())))
        return found


@contextmanager
def _locked() -> Iterator[None]:
    """A journal that a server holds is written through that server."""
    try:
        yield
    except LockedError as error:
        raise LockedError(error.message, next_step="say where it listens:  --url http://HOST:PORT") from error
