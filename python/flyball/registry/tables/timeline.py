"""Time travel: placements at a time, with actor, reason and the approvals by then.

Answers come from the placements' intervals, so that their cost depends on the number of names, not on the length of history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Integer, and_, func, literal_column, or_, select

from flyball.registry.events.event import microseconds
from flyball.registry.events.fold import ALIAS, CANDIDATE, CHAMPION
from flyball.registry.events.log import now_us
from flyball.registry.tables import schema
from flyball.registry.tables.nodes import GONE_US
from flyball.registry.tables.projections import Confirmation, Placement

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, FromClause, Row, Select, Table

    from flyball.registry.tables.database import Database


class Standing(NamedTuple):
    """A version at a spot at a time, with its approvers by then."""

    placement: Placement
    approvers: list[str]


class Said(NamedTuple):
    """A server's last report about a name; `gone_since` if it has sent none for too long."""

    confirmation: Confirmation
    gone_since: int | None


@dataclass(frozen=True, slots=True)
class Moment:
    """The registry at a time: the last event by then, placements, and servers' reports."""

    sequence: int
    at: int
    standings: list[Standing]
    said: list[Said]


class Timeline:
    """Reads of past states."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def at(
        self, time: datetime | None, name: str | None = None, *, slots: tuple[str, ...] = (CHAMPION, CANDIDATE, ALIAS)
    ) -> Moment:
        """Placements at a time, of all names or one; events of that very microsecond are included.

        The present, which is the default, and the future use the last event whatever its time: its writer's clock may be
        ahead.
        """
        now = now_us()
        wanted = now if time is None else microseconds(time)
        with self._database.reading() as connection:
            events = schema.events.c
            last = select(events.sequence).order_by(events.at.desc(), events.sequence.desc()).limit(1)
            by_then = last if wanted >= now else last.where(events.at <= wanted)
            sequence = connection.execute(by_then).scalar() or 0
            standings = _standings(connection, sequence, name, slots)
            return Moment(sequence, wanted, standings, _said(connection, sequence, wanted, name))


def _standings(connection: Connection, sequence: int, name: str | None, slots: tuple[str, ...]) -> list[Standing]:
    """One query with a row per approval, so that the newest placement is looked up once."""
    held, spots, approvals = schema.placements, schema.spots, schema.approvals
    counted = and_(
        approvals.c.name == held.c.name,
        approvals.c.number == held.c.version,
        approvals.c.sequence <= sequence,
        or_(approvals.c.void_seq.is_(None), approvals.c.void_seq > sequence),
    )
    wanted = [spots.c.slot.in_(slots), *([] if name is None else [spots.c.name == name])]
    asked = select(held, approvals.c.sequence, approvals.c.approver).outerjoin_from(
        _newest(connection, held, spots, sequence, wanted), approvals, counted
    )
    standings: list[Standing] = []
    width = len(held.c)
    # Sorted here: rows come almost in order, and SQLite would move all columns through its sorter.
    for row in sorted(_held(connection, asked, held, sequence), key=lambda row: (row[:3], row[width] or 0)):
        placement = Placement._make(row[:width])
        if not standings or standings[-1].placement != placement:
            standings.append(Standing(placement, []))
        if row[width] is not None:
            standings[-1].approvers.append(row[width + 1])
    return standings


def _said(connection: Connection, sequence: int, at: int, name: str | None) -> list[Said]:
    """Each server's last report by then; a report counts until the server goes silent."""
    held, spots = schema.confirmations, schema.node_spots
    newest = _newest(connection, held, spots, sequence, [] if name is None else [spots.c.name == name])
    rows = _held(connection, select(held).select_from(newest), held, sequence)
    reports = schema.nodes.c
    seen = select(reports.node, reports.environment, func.max(reports.seen_at)).group_by(reports.node, reports.environment)
    heard = {(node, environment): at for node, environment, at in connection.execute(seen).all()}
    said = []
    for one in sorted(map(Confirmation._make, rows), key=lambda one: one[:3]):
        # A report that ended later counts up to its end: then the server went silent, or reported a change.
        until, grace = (heard.get((one.node, one.environment), at), GONE_US) if one.to_at is None else (one.to_at, 0)
        said.append(Said(one, until if at > until + grace else None))
    return said


def _held(connection: Connection, asked: Select[Any], held: Table, sequence: int) -> Sequence[Row[Any]]:
    """The newest rows that had not ended."""
    return connection.execute(asked.where(or_(held.c.to_seq.is_(None), held.c.to_seq > sequence))).all()


def _newest(
    connection: Connection, held: Table, spots: Table, sequence: int, wanted: list[ColumnElement[bool]]
) -> FromClause:
    """Each wanted spot with its newest row by then: one index lookup, however long the spot's history is."""
    some, earlier = select(spots).where(*wanted).cte("wanted_spots"), held.alias("earlier")
    by_then = and_(_same(spots, earlier, some), earlier.c.from_seq <= sequence)
    if connection.dialect.name == "sqlite":
        # The index holds the rowid, which saves a second lookup: a third of the time.
        rows = select(literal_column("earlier.rowid", Integer)).select_from(earlier).where(by_then)
        newest_row = rows.order_by(earlier.c.from_seq.desc()).limit(1).correlate(some).scalar_subquery()
        return some.join(held, literal_column(f"{held.name}.rowid", Integer) == newest_row)
    from_seq = select(func.max(earlier.c.from_seq)).where(by_then).correlate(some).scalar_subquery()
    newest = select(some, from_seq.label("from_seq")).cte("newest").prefix_with("MATERIALIZED")
    return newest.join(held, and_(_same(spots, held, newest), held.c.from_seq == newest.c.from_seq))


def _same(spots: Table, one: FromClause, other: FromClause) -> ColumnElement[bool]:
    return and_(*(one.c[key] == other.c[key] for key in spots.c.keys()))  # noqa: SIM118 - of columns, not of a dict
