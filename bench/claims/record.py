"""Records of runs: one file for each run of a suite, written while it runs; its attempts are never changed or removed.

A folder holds the records of one suite on one machine class, beside their ledger (`ledger.py`). An attempt at a topic has a
digest over its raw values and the record's head, so that an edited record is found. Must not know claims' meaning.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

RESULTS = Path("bench/results")
RECORDS = RESULTS / "claims"
FORMAT = "flyball-claims/1"
BEGUN, DONE, FAILED, STOPPED = "begun", "done", "failed", "stopped"
WITHIN = "everything"
"""The key of `unmeasured` whose reason is that of the whole topic."""


@dataclass(frozen=True, slots=True)
class Head:
    """What was measured, where and when; the same for all attempts of a record."""

    suite: str
    started: str
    commit: str
    dirty: str
    """Empty for a clean tree; else a digest of what differs from the commit."""
    profile: str
    machine_class: str
    machine: Mapping[str, Any]

    def same_build_and_machine(self, other: Head) -> bool:
        """Whether attempts of both may be in one record."""
        return all(
            getattr(self, name) == getattr(other, name) for name in ("suite", "commit", "dirty", "profile", "machine")
        )


@dataclass(slots=True)
class Attempt:
    """One attempt at a topic, with everything that its verdicts are computed from."""

    topic: str
    number: int
    terms: Mapping[str, Mapping[str, str]]
    """Bar, subject and sample of each claim, as they were."""
    state: str = BEGUN
    took_s: float = 0.0
    error: str = ""
    unmeasured: dict[str, str] = field(default_factory=dict)
    """Reasons, by claim or for the whole topic."""
    raw: dict[str, Any] = field(default_factory=dict)
    digest: str = ""

    def why_unmeasured(self, claim: str) -> str | None:
        """The reason that a claim was not measured in a finished attempt, if it was not."""
        return self.unmeasured.get(claim) or self.unmeasured.get(WITHIN)


@dataclass(slots=True)
class Record:
    """A run: its head and its attempts, in order. The summary is for people; nothing is computed from it."""

    head: Head
    attempts: list[Attempt] = field(default_factory=list)
    summary: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The file's stem: when it started and what was measured."""
        return f"{self.head.started.replace(':', '')}-{self.head.commit[:8]}"

    def of(self, topic: str) -> list[Attempt]:
        """The attempts at a topic."""
        return [attempt for attempt in self.attempts if attempt.topic == topic]

    def finished(self, topic: str) -> bool:
        """Whether a topic was attempted to an end, good or bad."""
        return any(attempt.state in (DONE, FAILED) for attempt in self.of(topic))

    def digest_of(self, attempt: Attempt) -> str:
        """Over the head and all of the attempt."""
        content = {"head": asdict(self.head), "attempt": {**asdict(attempt), "digest": ""}}
        return hashlib.sha256(canonical(content)).hexdigest()

    def write(self, folder: Path) -> Path:
        """Into its file, whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json.gz"
        fresh = path.with_suffix(".new")
        fresh.write_bytes(gzip.compress(canonical({"format": FORMAT, **asdict(self)}), mtime=0))
        fresh.replace(path)
        return path

    @classmethod
    def read(cls, path: Path) -> Record:
        """From its file."""
        content = json.loads(gzip.decompress(path.read_bytes()))
        if content["format"] != FORMAT:
            raise ValueError(f"{path} has the format {content['format']}, not {FORMAT}")
        attempts = [Attempt(**attempt) for attempt in content["attempts"]]
        return cls(Head(**content["head"]), attempts, content["summary"])


def canonical(content: Any) -> bytes:
    """JSON with one spelling, for digests and files."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
