"""One run of a suite: which record it belongs to, its attempts written as they begin and end, its lines and its exit code.

A run without `--only` starts a record. One with it continues the newest record, if that is of the same commit, build and
machine. Quick runs and builds that do not ship are measured and judged, and never stored.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bench.claims import ledger
from bench.claims.ages import fresh
from bench.claims.claim import OK, UNMEASURED
from bench.claims.provenance import SHIPPED
from bench.claims.record import BEGUN, DONE, FAILED, RECORDS, STOPPED, WITHIN, Attempt, Record
from bench.claims.settled import line_of, lines_of
from bench.claims.windows import as_json
from bench.parts.here import NotHereError
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.claims.claim import Suite, Topic
    from bench.claims.record import Head
    from bench.claims.settled import Line
    from bench.claims.tails.stand import Stand

_ERROR_LONGEST = 300


@dataclass(slots=True)
class Run:
    """A record that is being written; without a folder nothing is stored."""

    suite: Suite
    record: Record
    folder: Path | None
    least: int | None = None
    """Windows of a side that are enough; None as the claims have it."""
    chosen: list[Topic] = field(default_factory=list)

    @classmethod
    def begin(cls, suite: Suite, head: Head, only: Sequence[str], *, quick: bool, resume: bool, results: Path) -> Run:
        """Find the record to continue, or start one."""
        topics = [suite.topic(name) for name in only] if only else list(suite.topics)
        if quick or head.profile != SHIPPED:
            return cls(suite, Record(head), None, 1 if quick else None, topics)
        folder = results / suite.name / head.machine_class
        records = ledger.verified(folder)
        newest = records[-1] if records else None
        if newest is None or not (only or resume) or not newest.head.same_build_and_machine(head):
            return cls(suite, Record(head), folder, None, topics)
        if resume:
            topics = [topic for topic in topics if not newest.finished(topic.name)]
        return cls(suite, newest, folder, None, topics)

    def attempt(self, topic: Topic, stand: Stand) -> list[Line]:
        """Measure a topic; whatever happens, the record has it afterwards."""
        number = len(self.record.of(topic.name)) + 1
        attempt = Attempt(topic.name, number, {claim.name: topic.terms(claim) for claim in topic.claims})
        self.record.attempts.append(attempt)
        self._store(attempt)
        stand.begin(topic.name)
        began = time.monotonic()
        try:
            topic.measure(stand)
            attempt.state = DONE
        except NotHereError as missing:
            stand.not_measured(missing.message)
            attempt.state = DONE
        except FlyballError as error:  # a server that fails takes its own topic with it, not the others'
            attempt.state, attempt.error = FAILED, " ".join(str(error).split())[:_ERROR_LONGEST]
        except BaseException as error:
            attempt.state, attempt.error = STOPPED, f"{type(error).__name__}: {error}"[:_ERROR_LONGEST]
            raise
        finally:
            attempt.took_s = round(time.monotonic() - began, 1)
            attempt.raw, attempt.unmeasured = plain(stand.raw), dict(stand.unmeasured)
            attempt.digest = self.record.digest_of(attempt)
            self._store(attempt)
        return lines_of(self.record, [topic], least=self.least)

    def skip(self, reason: str) -> None:
        """State of every chosen topic why it is not measured at all."""
        for topic in self.chosen:
            number = len(self.record.of(topic.name)) + 1
            attempt = Attempt(topic.name, number, {claim.name: topic.terms(claim) for claim in topic.claims})
            self.record.attempts.append(attempt)
            self._store(attempt)
            attempt.state, attempt.unmeasured = DONE, {WITHIN: reason}
            attempt.digest = self.record.digest_of(attempt)
            self._store(attempt)

    def lines(self) -> list[Line]:
        """The verdicts of the chosen topics, over all of their attempts in this record."""
        return lines_of(self.record, self.chosen, least=self.least)

    def finish(self) -> str:
        """Write the summary for people into the record; says where it is."""
        self.record.summary = [str(line) for line in self.lines()]
        if self.folder is None:
            why = "a quick run proves nothing" if self.least else f"the build's profile is {self.record.head.profile}"
            return f"not stored: {why}"
        return str(self.record.write(self.folder))

    def _store(self, attempt: Attempt) -> None:
        if self.folder is None:
            return
        self.record.write(self.folder)
        (ledger.begun if attempt.state == BEGUN else ledger.ended)(self.folder, self.record, attempt)


def covered_elsewhere(lines: Sequence[Line], suite: Suite, head: Head, results: Path = RECORDS) -> list[Line]:
    """Lines that were not measured here, and hold by a stored record of another machine class under the same terms."""
    found = []
    others = [folder for folder in sorted((results / suite.name).glob("*/")) if folder.name != head.machine_class]
    records = [record for folder in others for record in ledger.verified(folder) if fresh(record.head)]
    for line in lines:
        if line.verdict.kind != UNMEASURED:
            continue
        for record in records:
            there = line_of(line.topic, line.claim, record.of(line.topic.name))
            terms = [attempt.terms.get(line.claim.name) for attempt in record.of(line.topic.name)]
            if there.verdict.kind == OK and all(term == line.topic.terms(line.claim) for term in terms):
                found.append(line)
                break
    return found


def plain(raw: dict[str, Any]) -> dict[str, Any]:
    """As the record's file will have it: verdicts of a run and of the page come from the same values."""
    made: dict[str, Any] = json.loads(json.dumps(raw, default=as_json), parse_constant=str)
    return made
