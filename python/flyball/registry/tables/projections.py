"""The projection tables: written in the transaction of each event, and read as typed rows.

`rebuild` recreates them from the events. Must not know which acts are allowed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import and_, case, delete, insert, select, tuple_, update
from sqlalchemy.dialects import sqlite

from flyball.registry.acts.api_keys import ApiKey
from flyball.registry.events.event import time_of
from flyball.registry.events.fold import CANDIDATE, CHAMPION, KEYS, Change, End, Fold, Put, Void, effects
from flyball.registry.tables import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection, Select, Table

    from flyball.registry.acts.interface import Authenticated
    from flyball.registry.events.event import Event
    from flyball.registry.tables.database import Database

_TABLES: dict[str, Table] = {table.name: table for table in schema.PROJECTIONS}
_BATCH = 5_000
_ASKED_AT_ONCE = 1_000


# The rows' classes have the columns in the tables' order: lists are long, and names cost more than values. A test compares.
@dataclass(frozen=True, slots=True)
class Version:
    """A version. `state`: registered, signed, rejected, retired or revoked; `references` is JSON."""

    name: str
    number: int
    root: str
    manifest: str
    meta: str
    kind: str
    tier: str
    author: str
    references: str
    state: str
    state_seq: int
    registered_seq: int
    registered_at: int
    registered_by: str
    reason: str
    bundle: str | None
    release: str | None
    signed_key: str | None
    signed_name: str | None
    imported_from: str | None


class Approval(NamedTuple):
    """One approver's signature; void since event `void_seq`, which signed the version again or rejected it."""

    name: str
    number: int
    sequence: int
    approver: str
    key: str
    environments: list[str]
    signature: str
    at: int
    actor: str
    reason: str
    void_seq: int | None


class Placement(NamedTuple):
    """A version at a spot, from one event to another. `slot`: champion, candidate or alias."""

    name: str
    slot: str
    place: str
    from_seq: int
    from_at: int
    to_seq: int | None
    to_at: int | None
    version: int
    share: float | None
    shadow: bool | None
    break_glass: bool
    act: str
    actor: str
    authenticated: Authenticated
    reason: str


class Confirmation(NamedTuple):
    """A server's report about a name, from one event to another: what it should serve, and what it serves."""

    name: str
    environment: str
    node: str
    from_seq: int
    from_at: int
    to_seq: int | None
    to_at: int | None
    generation: int
    version: int | None
    digest: str | None
    state: str
    reason: str
    unsaid: int
    serving_version: int | None
    serving_digest: str | None
    serving_since: int | None


def apply(connection: Connection, event: Event) -> None:
    """Write the effects of an event."""
    for effect in effects(event):
        match effect:
            case Put():
                connection.execute(_upsert(connection, effect))
            case Change(table, key, values):
                where = dict(zip(KEYS[table], key, strict=True))
                connection.execute(update(_TABLES[table]).filter_by(**where).values(values))
            case End(table, spot, to_seq, to_at):
                held = update(_TABLES[table]).filter_by(**spot, to_seq=None)
                connection.execute(held.values(to_seq=to_seq, to_at=to_at))
            case Void(name, number, void_seq):
                counted = {"name": name, "number": number, "void_seq": None}
                connection.execute(update(schema.approvals).filter_by(**counted).values(void_seq=void_seq))


def rebuild(connection: Connection, events: Iterable[Event]) -> int:
    """Rebuild all rows from these events, which must be all events; returns their number."""
    for table in _TABLES.values():
        connection.execute(delete(table))
    ended: dict[str, list[dict[str, Any]]] = {}

    def finished(name: str, row: dict[str, Any]) -> None:
        rows = ended.setdefault(name, [])
        rows.append(row)
        if len(rows) >= _BATCH:
            connection.execute(insert(_TABLES[name]), rows)
            rows.clear()

    count, fold = 0, Fold(finished)
    for event in events:
        fold.apply(event)
        count += 1
    for name, rest in ended.items():
        if rest:
            connection.execute(insert(_TABLES[name]), rest)
    for name, rows in fold.tables.items():
        left = iter(rows.values())
        while batch := list(islice(left, _BATCH)):
            connection.execute(insert(_TABLES[name]), batch)
    return count


class Projections:
    """Reads of the current state; each answer is one consistent view."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def versions(self) -> list[Version]:
        """Every version, by name and newest first."""
        table = schema.versions
        return [Version(*row) for row in self._all(select(table).order_by(table.c.name, table.c.number.desc()))]

    def revoked(self) -> frozenset[tuple[str, int]]:
        """Name and number of every revoked version."""
        table = schema.versions
        return frozenset(map(tuple, self._all(select(table.c.name, table.c.number).where(table.c.state == "revoked"))))

    def newest(
        self, *, name: str | None = None, after: str = "", states: tuple[str, ...] = (), limit: int = 100
    ) -> list[Version]:
        """The newest version of each name after `after`, sorted by name, optionally only in some states."""
        names, table = schema.names, schema.versions
        latest = and_(table.c.name == names.c.name, table.c.number == names.c.latest)
        asked = select(table).join(names, latest).where(names.c.name > after).order_by(names.c.name)
        if name is not None:
            asked = asked.where(names.c.name == name)
        if states:
            asked = asked.where(table.c.state.in_(states))
        return [Version(*row) for row in self._all(asked.limit(max(0, limit)))]

    def approvals_of(self, versions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], list[Approval]]:
        """The valid approvals of these versions, oldest first, with one query per thousand."""
        found = dict[tuple[str, int], list[Approval]]()
        for begin in range(0, len(versions), _ASKED_AT_ONCE):
            found |= self._approvals_among(versions[begin : begin + _ASKED_AT_ONCE])
        return found

    def approvals_placed(self, name: str | None = None) -> dict[tuple[str, int], list[Approval]]:
        """The valid approvals of all current champions, or of one name, oldest first."""
        return self._approvals_among(_serving(name))

    def _approvals_among(
        self, versions: Sequence[tuple[str, int]] | Select[tuple[str, int]]
    ) -> dict[tuple[str, int], list[Approval]]:
        table, found = schema.approvals, dict[tuple[str, int], list[Approval]]()
        some = tuple_(table.c.name, table.c.number).in_(versions)
        for row in self._all(select(table).where(some, table.c.void_seq.is_(None)).order_by(table.c.sequence)):
            approval = _approval(row)
            found.setdefault((approval.name, approval.number), []).append(approval)
        return found

    def signed_placed(self, name: str | None = None) -> dict[tuple[str, int], dict[str, Any]]:
        """The bodies of the `signed` events of all current champions, or of one name."""
        table, events = schema.versions, schema.events
        joined = select(table.c.name, table.c.number, events.c.body).join(events, events.c.sequence == table.c.state_seq)
        some = tuple_(table.c.name, table.c.number).in_(_serving(name))
        asked = joined.where(some, table.c.state == "signed")
        return {(of, number): json.loads(body) for of, number, body in self._all(asked)}

    def placed(
        self, name: str | None = None, place: str | None = None, *, slots: tuple[str, ...] = (CHAMPION, CANDIDATE)
    ) -> list[Placement]:
        """Current placements: all, of a name, or in an environment; aliases with `slots=("alias",)`."""
        table = schema.placements
        asked = select(table).where(table.c.to_seq.is_(None), table.c.slot.in_(slots))
        if name is not None:
            asked = asked.where(table.c.name == name)
        if place is not None:
            asked = asked.where(table.c.place == place)
        return [Placement(*row) for row in self._all(asked.order_by(table.c.name, table.c.place, table.c.slot))]

    def api_keys(self) -> list[ApiKey]:
        """The valid API keys, sorted by name."""
        asked = select(schema.api_keys).filter_by(removed_at=None).order_by(schema.api_keys.c.name)
        return [
            ApiKey(row.name, frozenset(_words(row.roles)), row.sha256, time_of(row.added_at), row.added_by)
            for row in self._all(asked)
        ]

    def published(self, environment: str) -> int:
        """The generation of the environment's newest published snapshot, or 0."""
        found = self._all(select(schema.published.c.generation).filter_by(environment=environment))
        return found[0].generation if found else 0

    def _all(self, asked: Any) -> list[Any]:
        with self._database.reading() as connection:
            return list(connection.execute(asked).all())


def _upsert(connection: Connection, effect: Put) -> Any:
    kind: Any = sqlite
    if connection.dialect.name != "sqlite":
        from sqlalchemy.dialects import postgresql as kind
    table, key = _TABLES[effect.table], KEYS[effect.table]
    put = kind.insert(table).values(effect.row)
    others: dict[str, Any] = {column: put.excluded[column] for column in effect.row if column not in key}
    if effect.highest:
        old, new = table.c[effect.highest], put.excluded[effect.highest]
        others[effect.highest] = case((old > new, old), else_=new)
    return put.on_conflict_do_update(index_elements=key, set_=others) if others else put.on_conflict_do_nothing()


def _serving(name: str | None) -> Select[tuple[str, int]]:
    """Name and version of every current champion."""
    table = schema.placements
    asked = select(table.c.name, table.c.version).where(table.c.to_seq.is_(None), table.c.slot == CHAMPION)
    return asked if name is None else asked.where(table.c.name == name)


def _approval(row: Sequence[Any]) -> Approval:
    return Approval._make((*row[:5], list(_words(row[5])), *row[6:]))


@lru_cache(maxsize=256)
def _words(text: str) -> tuple[str, ...]:
    """A JSON list of words; cached, because thousands of approvals name the same few environments."""
    return tuple(json.loads(text))
