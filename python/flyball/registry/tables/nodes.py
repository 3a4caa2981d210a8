"""Servers' reports of what they serve: the newest of each server, and an event for each change.

Each report has its time, `seen_at`, so that a server that is gone is never shown as healthy. The reports table is not built
from events. Must not know how servers are asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import delete, func, insert, select

from flyball.errors import NotFoundError, RegistryRefusedError
from flyball.registry.events.event import Draft, Event, node_stream, text_of
from flyball.registry.events.log import now_us
from flyball.registry.tables.projections import Confirmation
from flyball.registry.tables.schema import confirmations, nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from flyball.registry.acts.interface import Actor
    from flyball.registry.events.log import EventLog
    from flyball.registry.tables.database import Database

WAITING = "waiting"
"""A server has neither applied nor refused the document yet; makes no event."""
REASON_LETTERS_MAX, NODE_LETTERS_MAX = 4096, 256
GONE_US = 5 * 60 * 1_000_000
"""A server without a report for this long counts as gone."""
CHANGES_AN_HOUR = 12
"""Limit of events per server and name; further changes are counted in the next event."""
_HOUR_US = 3600 * 1_000_000
_EVENTS_AT_ONCE = 1000


class NodeReport(NamedTuple):
    """One deployment on one server: what it should serve, the result, and what it does serve.

    A tuple in the order of its table's columns, because there are thousands. `state`: applied, refused or waiting. `seen_at`
    and `serving_since` are in microseconds since 1970. The registry sets `serving_since` and `unsaid`, the unrecorded
    changes.
    """

    node: str
    environment: str
    deployment: str
    generation: int
    digest: str
    state: str
    reason: str
    version: int | None
    seen_at: int
    serving_version: int | None = None
    serving_digest: str | None = None
    serving_since: int | None = None
    unsaid: int = 0


class Nodes:
    """The reports, and their events."""

    def __init__(self, database: Database, log: EventLog) -> None:
        self._database, self._log = database, log

    def report(self, node: str, environment: str, reports: Sequence[NodeReport], *, actor: str) -> list[Event]:
        """Replace a server's reports for an environment; returns events for the changes."""
        with self._database.writing() as connection:
            report = _Report(connection, node, environment, reports)
            connection.execute(delete(nodes).filter_by(node=node, environment=environment))
            if report.live:
                connection.execute(insert(nodes), [one._asdict() for one in report.live])
            stream = node_stream(environment)
            drafts = [
                Draft(stream, "acknowledged", body, actor, authenticated="server") for body in report.said[:_EVENTS_AT_ONCE]
            ]
            return self._log.append_in(connection, drafts) if drafts else []

    def forget(self, node: str, *, actor: Actor, reason: str = "") -> list[Event]:
        """Remove a server that is gone from current views; one event per environment."""
        with self._database.writing() as connection:
            seen = _seen(connection, node)
            if not seen:
                raise NotFoundError(f"unknown server {node!r}", code="node_not_found", next_step="flyball status")
            alive = [at for at in seen.values() if now_us() - at < GONE_US]
            if alive:
                raise RegistryRefusedError(
                    f"{node} reported at {text_of(max(alive))}, so it is not gone",
                    code="node_not_gone",
                    next_step="stop it, and forget it five minutes later",
                )
            connection.execute(delete(nodes).filter_by(node=node))
            drafts = [
                Draft(
                    node_stream(place),
                    "forgotten",
                    {"node": node, "environment": place, "silent_since": at},
                    actor.name,
                    reason,
                    authenticated=actor.authenticated,
                )
                for place, at in sorted(seen.items())
            ]
            return self._log.append_in(connection, drafts)

    def all(self, environment: str | None = None) -> list[NodeReport]:
        """Every report, or those of an environment."""
        asked = select(nodes).order_by(nodes.c.environment, nodes.c.deployment, nodes.c.node)
        with self._database.reading() as connection:
            rows = connection.execute(asked if environment is None else asked.filter_by(environment=environment)).all()
        return [NodeReport._make(row) for row in rows]


class _Report:
    """Compares a server's report with its previous one: new rows in `live`, event bodies in `said`."""

    def __init__(self, connection: Connection, node: str, environment: str, reports: Sequence[NodeReport]) -> None:
        self._connection, self._node, self._environment = connection, node, environment
        spot = {"node": node, "environment": environment}
        rows = connection.execute(select(nodes).filter_by(**spot)).all()
        self._before = {row.deployment: NodeReport._make(row) for row in rows}
        held = connection.execute(select(confirmations).filter_by(**spot, to_seq=None)).all()
        self._held = {row.name: Confirmation._make(row) for row in held}
        now = max((one.seen_at for one in reports), default=now_us())
        last = max((one.seen_at for one in self._before.values()), default=now)
        self._silent_since = last if now - last > GONE_US else None
        self._now = now
        self.said: list[dict[str, Any]] = []
        self.live = [self._told(self._kept(one)) for one in reports]
        gone = self._held.keys() - {one.deployment for one in reports}
        self.said += [self._removed(self._held[name]) for name in sorted(gone)]

    def _kept(self, one: NodeReport) -> NodeReport:
        """Add since when the server serves this document."""
        since = self._now if one.serving_digest else None
        for known in (self._before.get(one.deployment), self._held.get(one.deployment)):
            if known is not None and known.serving_digest == one.serving_digest and known.serving_since is not None:
                since = known.serving_since
                break
        reason = "".join(letter if letter.isprintable() else " " for letter in one.reason[:REASON_LETTERS_MAX])
        return one._replace(reason=reason, serving_since=since)

    def _told(self, one: NodeReport) -> NodeReport:
        """Record a change, or count it above the hourly limit; returns the row to store."""
        held, before = self._held.get(one.deployment), self._before.get(one.deployment)
        unsaid = before.unsaid if before else 0
        if one.state == WAITING:
            return one._replace(unsaid=unsaid)
        changed = held is None or _word(one) != _word(held)
        if not (changed or unsaid or self._silent_since):
            return one
        if self._too_often(one.deployment):
            return one._replace(unsaid=unsaid + (before is None or _word(one) != _word(before)))
        serving = None
        if one.serving_digest is not None:
            serving = {"version": one.serving_version, "digest": one.serving_digest, "since": one.serving_since}
        wanted = {"version": one.version, "digest": one.digest or None, "generation": one.generation}
        said = {"state": one.state, "reason": one.reason, "serving": serving, "unsaid": unsaid}
        self.said.append({**self._spot(one.deployment), **wanted, **said, "silent_since": self._silent_since})
        return one._replace(unsaid=0)

    def _removed(self, held: Confirmation) -> dict[str, Any]:
        nothing = {"version": None, "digest": None, "serving": None, "reason": ""}
        said = {"generation": held.generation, "state": "removed", "unsaid": 0, "silent_since": self._silent_since}
        return {**self._spot(held.name), **nothing, **said}

    def _spot(self, name: str) -> dict[str, Any]:
        return {"name": name, "node": self._node, "environment": self._environment}

    def _too_often(self, name: str) -> bool:
        newest = select(confirmations.c.from_at).filter_by(**self._spot(name)).order_by(confirmations.c.from_seq.desc())
        at = self._connection.execute(newest.offset(CHANGES_AN_HOUR - 1).limit(1)).scalar()
        return at is not None and at > self._now - _HOUR_US


def _word(one: NodeReport | Confirmation) -> tuple[str, str, str | None]:
    """What makes two reports equal; the text of a reason may vary."""
    return one.state, one.digest or "", one.serving_digest


def _seen(connection: Connection, node: str) -> dict[str, int]:
    """Time of a server's last report by environment; without reports, of its last event."""
    said = select(confirmations.c.environment, func.max(confirmations.c.from_at)).filter_by(node=node, to_seq=None)
    seen = select(nodes.c.environment, func.max(nodes.c.seen_at)).filter_by(node=node)
    asked = (said.group_by(confirmations.c.environment), seen.group_by(nodes.c.environment))
    return {row[0]: row[1] for one in asked for row in connection.execute(one).all()}
