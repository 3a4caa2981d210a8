"""`EventLog`: appends events to the chain, one writer at a time, and reads them.

An event and its changes to the tables are one transaction. A writer states the revision of the name that it saw; if the name
changed since, the error names the conflicting act. Must not know which acts are allowed.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, insert, select

from flyball.documents.names import NAME_PATTERN, NAME_WORDS
from flyball.errors import RegistryConflictError, RegistryRefusedError
from flyball.registry.events.clocks import too_late
from flyball.registry.events.event import BODY_BYTES_MAX, GENESIS, Draft, Event, Head, canonical, hashed, sealed
from flyball.registry.events.kinds import printable, read_body
from flyball.registry.events.sentences import told
from flyball.registry.tables import projections
from flyball.registry.tables.schema import events, names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Connection, Row

    from flyball.registry.acts.interface import Authenticated
    from flyball.registry.tables.database import Database

DRAFTS_MAX = 10_000
EVENTS_MAX = 10_000
_PAGE = 2_000
_STREAM = re.compile(rf"{NAME_PATTERN}|@[a-z]{{1,16}}(\.[A-Za-z0-9._-]{{1,128}})?")
_CHANGES_NOTHING = ("refused",)
_ACTOR_MAX, _REASON_MAX = 200, 4096


def now_us() -> int:
    """The wall clock, in microseconds since 1970."""
    return time.time_ns() // 1000


class EventLog:
    """The chain of events in a database."""

    def __init__(self, database: Database, clock: Callable[[], int] = now_us) -> None:
        self._database, self._clock = database, clock

    def append(
        self,
        name: str,
        expected_revision: int | None,
        kind: str,
        body: dict[str, Any],
        *,
        actor: str,
        reason: str = "",
        authenticated: Authenticated = "none",
    ) -> Event:
        """Append one event with its effects; raises `RegistryConflictError` if the name has changed."""
        return self.append_all([Draft(name, kind, body, actor, reason, expected_revision, authenticated)])[0]

    def append_all(self, drafts: Sequence[Draft]) -> list[Event]:
        """Append several events atomically."""
        if not 0 < len(drafts) <= DRAFTS_MAX:
            raise RegistryRefusedError(f"{len(drafts)} events at once; 1 to {DRAFTS_MAX:,} are allowed")
        for draft in drafts:
            _check(draft)
        with self._database.writing() as connection:
            return self._append(connection, drafts)

    def append_in(self, connection: Connection, drafts: Sequence[Draft]) -> list[Event]:
        """Append within a writer's transaction."""
        for draft in drafts:
            _check(draft)
        return self._append(connection, drafts)

    def _append(self, connection: Connection, drafts: Sequence[Draft]) -> list[Event]:
        made = _chain(connection, drafts, self._clock())
        for event in made:
            projections.apply(connection, event)
        return made

    def rebuild(self) -> int:
        """Rebuild the tables from the events, under the writers' lock; returns the number of events."""
        with self._database.writing() as connection:
            return projections.rebuild(connection, (event_of(row) for row in stored(connection)))

    def head(self) -> Head:
        """The end of the chain."""
        with self._database.reading() as connection:
            return _head(connection)[0]

    def warnings(self) -> list[str]:
        """Warnings about clocks: the last event is ahead of this one."""
        with self._database.reading() as connection:
            warning = too_late(_head(connection)[1], self._clock())
        return [warning] if warning else []

    def acted_since(self, sequence: int) -> bool:
        """Whether an act changed a package after this sequence; refusals and servers' reports do not count."""
        asked = select(events.c.sequence).where(events.c.sequence > sequence, events.c.kind.not_in(_CHANGES_NOTHING))
        with self._database.reading() as connection:
            return connection.execute(asked.where(events.c.name.not_like("@%")).limit(1)).first() is not None

    def revision(self, name: str) -> int:
        """The number of a name's events, for `expected_revision`."""
        with self._database.reading() as connection:
            return _revision(connection, name)

    def get(self, sequence: int) -> Event:
        """The event with this sequence."""
        with self._database.reading() as connection:
            row = connection.execute(select(events).where(events.c.sequence == sequence)).first()
        if row is None:
            raise RegistryRefusedError(f"the registry has no event {sequence}", next_step="flyball registry history NAME")
        return event_of(row)

    def of(self, name: str, *, after_revision: int = 0, after: int = 0, limit: int = EVENTS_MAX) -> list[Event]:
        """Events of a name after a revision and a sequence, oldest first; at most 10,000."""
        asked = select(events).where(events.c.name == name, events.c.revision > after_revision)
        return self._read(asked.where(events.c.sequence > after).order_by(events.c.revision), limit)

    def other_spelling(self, name: str) -> str | None:
        """A registered name that differs from this one only in case: both would be one folder on some disks."""
        with self._database.reading() as connection:
            return _other_spelling(connection, name)

    def latest(self, name: str, limit: int = 100) -> list[Event]:
        """The newest events of a name, newest first."""
        return self._read(select(events).where(events.c.name == name).order_by(events.c.revision.desc()), limit)

    def since(self, sequence: int, *, limit: int = EVENTS_MAX) -> list[Event]:
        """Events after a sequence, oldest first; at most 10,000."""
        return self._read(select(events).where(events.c.sequence > sequence).order_by(events.c.sequence), limit)

    def _read(self, asked: Any, limit: int) -> list[Event]:
        with self._database.reading() as connection:
            rows = connection.execute(asked.limit(max(0, min(limit, EVENTS_MAX)))).all()
        return [event_of(row) for row in rows]


def stored(connection: Connection) -> Iterator[Row[Any]]:
    """Every event row in order, page by page."""
    # Not one long cursor: some drivers would load the whole result into memory.
    last = -(2**62)
    while True:
        asked = select(events).where(events.c.sequence > last).order_by(events.c.sequence)
        rows = connection.execute(asked.limit(_PAGE)).all()
        yield from rows
        if len(rows) < _PAGE:
            return
        last = rows[-1].sequence


def event_of(row: Row[Any]) -> Event:
    """An event from its row; nothing is validated."""
    values = row._mapping
    return Event(**{**values, "body": json.loads(values["body"])})


def row_of(event: Event) -> dict[str, Any]:
    """An event's row."""
    return {**hashed(event), "body": canonical(event.body), "hash": event.hash}


def chained(drafts: Sequence[Draft], head: Head, at: int, revisions: dict[str, int]) -> Iterator[Event]:
    """Drafts as the events after a head; updates `revisions`, by name."""
    for draft in drafts:
        revisions[draft.name] += 1
        event = sealed(draft, sequence=head.sequence + 1, revision=revisions[draft.name], at=at, previous=head.hash)
        head = event.head
        yield event


def _chain(connection: Connection, drafts: Sequence[Draft], now: int) -> list[Event]:
    head, last_at = _head(connection)
    revisions: defaultdict[str, int] = defaultdict(int)
    for name in {draft.name for draft in drafts}:
        revisions[name] = _revision(connection, name)
    seen: set[str] = set()
    for draft in drafts:
        if draft.name not in seen and draft.expected_revision is not None:
            _expect(connection, draft, revisions[draft.name])
        if draft.kind == "registered" and not revisions[draft.name]:
            _alone(connection, draft.name)
        seen.add(draft.name)
    # A clock that was set back must not date an event before earlier ones: time travel uses `at`.
    made = list(chained(drafts, head, max(now, last_at), revisions))
    connection.execute(insert(events), [row_of(event) for event in made])
    return made


def _expect(connection: Connection, draft: Draft, revision: int) -> None:
    """Refuse a writer with an outdated revision. Refused acts change nothing, so they do not conflict."""
    expected = draft.expected_revision
    asked = select(events).where(events.c.name == draft.name, events.c.revision > expected)
    meanwhile = connection.execute(
        asked.where(events.c.kind.not_in(_CHANGES_NOTHING)).order_by(events.c.revision.desc()).limit(1)
    ).first()
    if expected is not None and expected > revision:
        raise RegistryConflictError(
            f"{draft.name} has {revision} events and {expected} were expected",
            next_step="is this another registry, or one restored from a backup?  flyball registry verify",
        )
    if meanwhile is not None:
        raise RegistryConflictError(
            f"{draft.name} changed meanwhile, nothing was done: {told(event_of(meanwhile))}",
            next_step=f"look, and decide again:  flyball registry history {draft.name}",
        )


def _other_spelling(connection: Connection, name: str) -> str | None:
    return connection.execute(select(names.c.name).where(names.c.folded == name.lower(), names.c.name != name)).scalar()


def _alone(connection: Connection, name: str) -> None:
    if other := _other_spelling(connection, name):
        raise RegistryConflictError(
            f"{name} differs only in case from {other}, which exists", next_step=f"register it as {other}"
        )


def _head(connection: Connection) -> tuple[Head, int]:
    last = select(events.c.sequence, events.c.hash, events.c.at).order_by(events.c.sequence.desc()).limit(1)
    row = connection.execute(last).first()
    return (Head(0, GENESIS), 0) if row is None else (Head(row.sequence, row.hash), row.at)


def _revision(connection: Connection, name: str) -> int:
    return connection.execute(select(func.max(events.c.revision)).where(events.c.name == name)).scalar() or 0


def _check(draft: Draft) -> None:
    if not _STREAM.fullmatch(draft.name):
        raise RegistryRefusedError(f"{draft.name!r} is not a name", next_step=NAME_WORDS)
    _check_text("actor", draft.actor, 1, _ACTOR_MAX)
    _check_text("reason", draft.reason, 0, _REASON_MAX)
    read_body(draft.kind, draft.body)
    try:
        size = len(canonical(draft.body))
    except (ValueError, TypeError, RecursionError) as error:
        raise RegistryRefusedError(f"the body of this {draft.kind} event is not JSON: {error}") from error
    if size > BODY_BYTES_MAX:
        raise RegistryRefusedError(
            f"the body of this {draft.kind} event has {size:,} bytes; at most {BODY_BYTES_MAX:,} are allowed",
            next_step="keep large evidence as an artifact and name its digest",
        )


def _check_text(what: str, text: str, least: int, most: int) -> None:
    fits = least <= len(text) <= most
    if not fits or not printable(text):
        raise RegistryRefusedError(
            f"the {what} {text[:40]!r} is not valid", next_step=f"{least} to {most:,} printable characters"
        )
