"""`verify`: checks the whole chain, and the tables against a fold of its events.

Treats the database as hostile: an edited row is a finding with its position, never an exception. A consistent chain may
still be another one than before: see `heads`. Must not change anything.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from flyball.errors import FlyballError
from flyball.registry.events.event import GENESIS, Event, Head, canonical, hash_of
from flyball.registry.events.fold import Fold
from flyball.registry.events.kinds import BODIES
from flyball.registry.events.log import stored
from flyball.registry.tables import schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection, Row

    from flyball.registry.tables.database import Database

FINDINGS_MAX = 100
_BATCH = 2_000
_TYPES = {"sequence": int, "revision": int, "at": int}  # SQLite keeps anything in any column


@dataclass(frozen=True, slots=True)
class Finding:
    """An inconsistency: the event or table, and what is wrong."""

    where: str
    words: str

    def __str__(self) -> str:
        return f"{self.where}: {self.words}"


@dataclass(slots=True)
class Verdict:
    """The result of `verify`: at most 100 findings; `more` counts the others."""

    head: Head
    events: int = 0
    findings: list[Finding] = field(default_factory=list)
    more: int = 0

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def add(self, where: str, words: str) -> None:
        """Add a finding."""
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(Finding(where, words))
        else:
            self.more += 1


def verify(database: Database) -> Verdict:
    """Check the events and tables of a database."""
    with database.reading() as connection:
        walk = _Walk()
        for row in stored(connection):
            walk.step(row)
        verdict = walk.end()
        if walk.folds:
            _compare(walk.sums, _sums_of_tables(connection), verdict)
    return verdict


class _Walk:
    """The state between two events: expected hash, revisions, and the fold so far."""

    def __init__(self) -> None:
        self.verdict = Verdict(Head(0, GENESIS))
        self.sums = RowSums()
        self.folds = True
        self._fold = Fold(self.sums.add)
        self._revisions: Counter[str] = Counter()
        self._at = 0

    def step(self, row: Row[Any]) -> None:
        """Check one row."""
        where = f"event {row.sequence}"
        self.verdict.events += 1
        if not all(isinstance(value, _TYPES.get(column, str)) for column, value in row._mapping.items()):
            self.verdict.add(where, "was changed: a column has the wrong type")
            self.folds = False
            return
        event = self._read(row, where)
        self._links(row, where)
        if event is not None:
            if hash_of(event) != row.hash:
                self.verdict.add(where, f"was changed: its content does not have its hash ({row.kind} of {row.name})")
            self._folded(event, where)
        self._at = max(self._at, row.at)
        self.verdict.head = Head(row.sequence, row.hash)

    def end(self) -> Verdict:
        """The verdict after the last row."""
        for table, row in self._fold.rows():
            self.sums.add(table, row)
        return self.verdict

    def _read(self, row: Row[Any], where: str) -> Event | None:
        try:
            body = json.loads(row.body)
            event = Event(**{**row._mapping, "body": body})
            same = isinstance(body, dict) and canonical(body) == row.body
        except (ValueError, TypeError, RecursionError):
            same = False
        if not same:
            self.verdict.add(where, "was changed: its body is not the text that was written")
            self.folds = False
            return None
        return event

    def _links(self, row: Row[Any], where: str) -> None:
        expected = self.verdict.head.sequence + 1
        if row.sequence != expected:
            missing = f"{expected}" if row.sequence == expected + 1 else f"{expected} to {row.sequence - 1}"
            self.verdict.add(where, f"follows a gap: {missing} is missing")
        if row.previous != self.verdict.head.hash:
            self.verdict.add(where, "does not follow the previous event: the chain is broken between them")
        self._revisions[row.name] += 1
        if row.revision != self._revisions[row.name]:
            self.verdict.add(where, f"is revision {row.revision} of {row.name}, and must be {self._revisions[row.name]}")
            self._revisions[row.name] = row.revision
        if row.at < self._at:
            self.verdict.add(where, "has an earlier time than the previous event")
        if row.kind not in BODIES:
            self.verdict.add(where, f"has the unknown kind {row.kind!r}")

    def _folded(self, event: Event, where: str) -> None:
        try:
            self._fold.apply(event)
        except FlyballError as error:
            self.verdict.add(where, f"cannot be read: {str(error)[:200]}")
            self.folds = False


class RowSums:
    """Counts and hash sums of rows by table and name: compares row sets in any order with little memory."""

    def __init__(self) -> None:
        self._sums: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])

    def add(self, table: str, row: dict[str, Any]) -> None:
        """Add a row."""
        held = self._sums[(table, str(row.get("name", row.get("environment"))))]
        held[0] += 1
        held[1] += int.from_bytes(hashlib.sha256(repr(sorted(row.items())).encode()).digest())

    def differences(self, other: RowSums) -> Iterator[tuple[str, str, int, int]]:
        """Table, name and both counts, for each difference."""
        for table, name in sorted({*self._sums, *other._sums}):
            mine, theirs = self._sums.get((table, name), [0, 0]), other._sums.get((table, name), [0, 0])
            if mine != theirs:
                yield table, name, mine[0], theirs[0]


def _sums_of_tables(connection: Connection) -> RowSums:
    sums = RowSums()
    for table in schema.PROJECTIONS:
        found = connection.execution_options(yield_per=_BATCH).execute(select(table))
        for row in found:
            sums.add(table.name, dict(row._mapping))
    return sums


def _compare(folded: RowSums, tables: RowSums, verdict: Verdict) -> None:
    for table, name, right, found in folded.differences(tables):
        counts = f"{found} rows for {right}" if found != right else f"{found} rows, not all of them right"
        verdict.add(f"table {table}", f"does not match the events of {name}: {counts}; flyball registry rebuild")
