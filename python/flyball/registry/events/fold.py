"""The changes that an event makes: one pure function, `effects`, used by tables, `verify` and time travel.

Effects do not depend on earlier rows, so applying them to tables in a transaction and to dictionaries in memory gives the
same rows. Must not know databases, nor which acts are allowed: `rules` decides before an event is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flyball.registry.events import kinds
from flyball.registry.events.event import canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flyball.registry.events.event import Event

CHAMPION, CANDIDATE, ALIAS = "champion", "candidate", "alias"
"""The slots of a place: an environment's champion and candidate, and the version of an alias."""

KEYS: dict[str, tuple[str, ...]] = {
    "names": ("name",),
    "versions": ("name", "number"),
    "approvals": ("name", "number", "sequence"),
    "spots": ("name", "slot", "place"),
    "placements": ("name", "slot", "place", "from_seq"),
    "node_spots": ("name", "environment", "node"),
    "confirmations": ("name", "environment", "node", "from_seq"),
    "api_keys": ("name",),
    "published": ("environment",),
}
"""The primary key of each table."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Put:
    """Insert or replace a row by its key; column `highest` keeps the higher value."""

    table: str
    row: Row
    highest: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Update columns of an existing row; a missing row stays missing."""

    table: str
    key: tuple[Any, ...]
    values: Row


@dataclass(frozen=True, slots=True)
class End:
    """End the open intervals whose columns match: one spot, or all spots of a server."""

    table: str
    spot: Row
    to_seq: int
    to_at: int


@dataclass(frozen=True, slots=True)
class Void:
    """Void a version's approvals: they were for a replaced release."""

    name: str
    number: int
    void_seq: int


Effect = Put | Change | End | Void


def effects(event: Event) -> Iterator[Effect]:
    """All effects of an event, in order."""
    body = kinds.read_body(event.kind, event.body)
    match body:
        case kinds.Registered():
            yield from _registered(event, body)
        case kinds.Signed():
            signed = {"bundle": body.bundle, "release": body.release, "signed_key": body.key, "signed_name": body.name}
            yield Change("versions", (event.name, body.version), {**_state("signed", event), **signed})
            yield Void(event.name, body.version, event.sequence)
        case kinds.Approved():
            yield _approved(event, body)
        case kinds.Rejected():
            yield Change("versions", (event.name, body.version), _state("rejected", event))
            yield Void(event.name, body.version, event.sequence)
        case kinds.Revoked() | kinds.Retired():
            yield Change("versions", (event.name, body.version), _state(event.kind, event))
        case kinds.Promoted():
            yield from _promoted(event, body)
        case kinds.RolledBack():
            yield _ended(event, CANDIDATE, body.environment)
            yield from _placed(event, CHAMPION, body.environment, body.version)
        case kinds.Aliased():
            yield from _placed(event, ALIAS, body.alias, body.version)
        case kinds.Imported():
            yield Change("versions", (event.name, body.version), {"imported_from": body.from_})
        case _:
            yield from _beside_versions(event, body)


def _beside_versions(event: Event, body: kinds.Body) -> Iterator[Effect]:
    """Effects of events about keys, snapshots and servers."""
    match body:
        case kinds.KeyAdded():
            yield _key_added(event, body)
        case kinds.KeyRemoved():
            yield Change("api_keys", (body.name,), {"removed_at": event.at})
        case kinds.Published():
            row = {"environment": body.environment, "generation": body.generation, "digest": body.digest}
            yield Put("published", {**row, "sequence": event.sequence, "at": event.at})
        case kinds.Acknowledged():
            yield from _acknowledged(event, body)
        case kinds.Forgotten():
            node = {"node": body.node, "environment": body.environment}
            yield End("confirmations", node, event.sequence, body.silent_since)


def _registered(event: Event, body: kinds.Registered) -> Iterator[Effect]:
    # `folded` is unique: names that differ only in case would be one folder on some disks.
    named = {"name": event.name, "folded": event.name.lower(), "latest": body.version}
    changed = {"changed_seq": event.sequence, "changed_at": event.at}
    yield Put("names", {**named, **changed}, highest="latest")  # imported versions keep their numbers, in any order
    row = {
        "name": event.name,
        "number": body.version,
        "root": body.root,
        "manifest": body.manifest,
        "meta": body.meta,
        "kind": body.kind,
        "tier": body.tier,
        "author": body.author,
        "references": canonical([reference.model_dump() for reference in body.references]),
        **_state("registered", event),
        "registered_seq": event.sequence,
        "registered_at": event.at,
        "registered_by": event.actor,
        "reason": event.reason,
    }
    nothing_yet = dict.fromkeys(("bundle", "release", "signed_key", "signed_name", "imported_from"))
    yield Put("versions", {**row, **nothing_yet})


def _approved(event: Event, body: kinds.Approved) -> Put:
    return Put(
        "approvals",
        {
            "name": event.name,
            "number": body.version,
            "sequence": event.sequence,
            "approver": body.approver,
            "key": body.key,
            "environments": canonical(body.environments),
            "signature": body.signature,
            "at": event.at,
            "actor": event.actor,
            "reason": event.reason,
            "void_seq": None,
        },
    )


def _promoted(event: Event, body: kinds.Promoted) -> Iterator[Effect]:
    glass = body.break_glass
    if body.candidate is not None:
        terms = {"share": body.candidate.share, "shadow": body.candidate.shadow}
        yield from _placed(event, CANDIDATE, body.environment, body.version, break_glass=glass, **terms)
    else:
        yield _ended(event, CANDIDATE, body.environment)
        yield from _placed(event, CHAMPION, body.environment, body.version, break_glass=glass)


def _placed(event: Event, slot: str, place: str, version: int | None, **terms: Any) -> Iterator[Effect]:
    yield _ended(event, slot, place)
    if version is None:
        return
    spot = {"name": event.name, "slot": slot, "place": place}
    yield Put("spots", spot)
    interval = {"from_seq": event.sequence, "from_at": event.at, "to_seq": None, "to_at": None}
    told = {"act": event.kind, "actor": event.actor, "authenticated": event.authenticated, "reason": event.reason}
    how = {"share": None, "shadow": None, "break_glass": False, **terms}
    yield Put("placements", {**spot, **interval, "version": version, **how, **told})


def _ended(event: Event, slot: str, place: str) -> End:
    return End("placements", {"name": event.name, "slot": slot, "place": place}, event.sequence, event.at)


def _acknowledged(event: Event, body: kinds.Acknowledged) -> Iterator[Effect]:
    spot = {"name": body.name, "environment": body.environment, "node": body.node}
    ended_at = event.at if body.silent_since is None else body.silent_since
    yield End("confirmations", spot, event.sequence, ended_at)
    if body.state == "removed":
        return
    yield Put("node_spots", spot)
    interval = {"from_seq": event.sequence, "from_at": event.at, "to_seq": None, "to_at": None}
    wanted = {"generation": body.generation, "version": body.version, "digest": body.digest}
    serving = body.serving
    serves = {
        "serving_version": serving.version if serving else None,
        "serving_digest": serving.digest if serving else None,
        "serving_since": serving.since if serving else None,
    }
    said = {"state": body.state, "reason": body.reason, "unsaid": body.unsaid}
    yield Put("confirmations", {**spot, **interval, **wanted, **said, **serves})


def _key_added(event: Event, body: kinds.KeyAdded) -> Put:
    added = {"added_at": event.at, "added_by": event.actor, "removed_at": None}
    return Put("api_keys", {"name": body.name, "sha256": body.sha256, "roles": canonical(body.roles), **added})


def _state(state: str, event: Event) -> Row:
    return {"state": state, "state_seq": event.sequence}


@dataclass(slots=True)
class Fold:
    """The tables in memory. Ended intervals go to `finished` at once: a long history has very many."""

    finished: Callable[[str, Row], None]
    tables: dict[str, dict[tuple[Any, ...], Row]] = field(default_factory=lambda: {name: {} for name in KEYS})
    _open: dict[tuple[str, *tuple[Any, ...]], tuple[Any, ...]] = field(default_factory=dict)
    _counted: dict[tuple[str, int], list[Row]] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        """Apply one event."""
        for effect in effects(event):
            match effect:
                case Put():
                    self._put(effect)
                case Change(table, key, values):
                    if (held := self.tables[table].get(key)) is not None:
                        held.update(values)
                case End():
                    self._end(effect)
                case Void(name, number, void_seq):
                    for row in self._counted.pop((name, number), ()):
                        row["void_seq"] = void_seq

    def _end(self, end: End) -> None:
        held = self.tables[end.table]
        one = (end.table, *(end.spot.get(part) for part in KEYS[end.table][:-1]))
        if None not in one:
            ending = [self._open[one]] if one in self._open else []
        else:  # a forgotten server, which is rare
            ending = [key for key, row in held.items() if all(row[part] == value for part, value in end.spot.items())]
        for key in ending:
            del self._open[end.table, *key[:-1]]
            self.finished(end.table, {**held.pop(key), "to_seq": end.to_seq, "to_at": end.to_at})

    def _put(self, put: Put) -> None:
        table, row = put.table, put.row
        key, kept = tuple(row[part] for part in KEYS[table]), dict(row)
        if put.highest and (before := self.tables[table].get(key)) is not None:
            kept[put.highest] = max(before[put.highest], row[put.highest])
        self.tables[table][key] = kept
        if "to_seq" in row:
            self._open[table, *key[:-1]] = key
        elif table == "approvals":
            self._counted.setdefault((row["name"], row["number"]), []).append(kept)

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Every row in memory, with its table."""
        for table, rows in self.tables.items():
            for row in rows.values():
                yield table, row
