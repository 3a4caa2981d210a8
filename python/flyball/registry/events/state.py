"""The state of one name, built from the `effects` of its events, like the tables.

Plain values, no store and no clock. `rules.py` evaluates acts by this state alone, so that every past act can be evaluated
again from the log.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from flyball.registry.events.fold import ALIAS, CANDIDATE, CHAMPION, Change, End, Put, Void, effects
from flyball.registry.events.kinds import Reference

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from flyball.registry.events.event import Event
    from flyball.registry.events.fold import Row

VersionStanding = Literal["registered", "signed", "approved", "rejected", "revoked", "retired"]


@dataclass(frozen=True, slots=True)
class Approval:
    """One approver's signature over the release."""

    approver: str
    key: str
    signature: str
    environments: tuple[str, ...]
    at: datetime


@dataclass(frozen=True, slots=True)
class Version:
    """A version: its package, signatures, approvals and state."""

    number: int
    root: str
    manifest: str
    tier: str
    author: str
    kind: str
    references: tuple[Reference, ...]
    registered_at: datetime
    bundle: str | None = None
    release: str | None = None
    signer: str | None = None
    """The name of the signing key."""
    signer_key: str | None = None
    approvals: tuple[Approval, ...] = ()
    rejected: str | None = None
    """The reason of its rejection."""
    revoked: str | None = None
    retired: bool = False
    changed: int = 0
    """Sequence of the last event about its signatures or its right to serve."""
    placed_as: tuple[str | None, int] | None = None
    """Its release and number of approvals at its last promotion, which were sufficient then."""

    def standing(self, approvals_needed: float) -> VersionStanding:
        """The version's state. `approvals_needed` is infinite if the trust policy is unreadable."""
        if self.revoked is not None:
            return "revoked"
        if self.retired:
            return "retired"
        if self.rejected is not None:
            return "rejected"
        if self.release is None:
            return "registered"
        return "approved" if len(self.approvals) >= approvals_needed else "signed"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate: it gets a share of the requests, or a copy of each."""

    version: int
    share: float
    shadow: bool


@dataclass(frozen=True, slots=True)
class Placement:
    """What an environment serves under the name; `before` are a rollback's targets, newest last."""

    version: int
    candidate: Candidate | None
    before: tuple[int, ...]
    sequence: int
    """Sequence of the event that placed it."""


@dataclass(frozen=True, slots=True)
class NameState:
    """The state of a name at a revision."""

    name: str
    revision: int = 0
    versions: dict[int, Version] = field(default_factory=dict)
    spots: dict[tuple[str, str], Row] = field(default_factory=dict)
    """Current placements, by slot and place, as rows of the placements table."""
    before: dict[str, tuple[int, ...]] = field(default_factory=dict)
    proven: dict[str, frozenset[int]] = field(default_factory=dict)
    """The versions that served in each environment and were not rolled back from."""

    def after(self, event: Event) -> NameState:
        """The state after an event. Every kind advances the revision."""
        versions, spots = dict(self.versions), dict(self.spots)
        for effect in effects(event):
            match effect:
                case Put("versions", row):
                    versions[row["number"]] = _version(row, event)
                case Put("approvals", row):
                    approved = versions[row["number"]]
                    approvals = (*approved.approvals, _approval(row, event))
                    versions[approved.number] = replace(approved, approvals=approvals, changed=event.sequence)
                case Change("versions", (_, number), values):
                    versions[number] = _changed(versions[number], values, event)
                case Void(_, number, sequence):
                    versions[number] = replace(versions[number], approvals=(), changed=sequence)
                case Put("placements", row):
                    spots[row["slot"], row["place"]] = row
                case End("placements", spot):
                    spots.pop((spot["slot"], spot["place"]), None)
        state = replace(self, revision=event.revision, versions=versions, spots=spots)
        return self._with_past(state, event) if event.kind in ("promoted", "rolled_back") else state

    def _with_past(self, state: NameState, event: Event) -> NameState:
        """Update rollback targets and proven versions."""
        place, spot = event.body["environment"], (CHAMPION, event.body["environment"])
        was, now = self.spots.get(spot), state.spots.get(spot)
        before, proven = self.before.get(place, ()), self.proven.get(place, frozenset())
        if event.kind == "promoted":
            number = event.body["version"]
            placed = state.versions[number]
            state.versions[number] = replace(placed, placed_as=(placed.release, len(placed.approvals)))
            proven |= {number}
            if was is not None and now is not was:
                before = tuple(past for past in (*before, was["version"]) if past != number)
        elif now is None:
            before = ()
        else:
            before = before[: before.index(now["version"])] if now["version"] in before else before
            proven -= {event.body["from"]}
        return replace(state, before={**self.before, place: before}, proven={**self.proven, place: proven})

    @property
    def next_number(self) -> int:
        """The number of the next registered version."""
        return max(self.versions, default=0) + 1

    @property
    def placements(self) -> dict[str, Placement]:
        """The placement in each environment."""
        return {place: self._placement(place, row) for (slot, place), row in self.spots.items() if slot == CHAMPION}

    def _placement(self, place: str, row: Row) -> Placement:
        tried = self.spots.get((CANDIDATE, place))
        candidate = None if tried is None else Candidate(tried["version"], float(tried["share"]), bool(tried["shadow"]))
        sequence = max(one["from_seq"] for one in (row, tried) if one is not None)
        return Placement(row["version"], candidate, self.before.get(place, ()), sequence)

    @property
    def aliases(self) -> dict[str, int]:
        """The version of each alias."""
        return {alias: row["version"] for (slot, alias), row in self.spots.items() if slot == ALIAS}

    def placed(self, number: int) -> list[str]:
        """Environments that serve the version as champion or candidate."""
        return [
            environment
            for environment, placement in self.placements.items()
            if number in (placement.version, placement.candidate.version if placement.candidate else None)
        ]


def fold(name: str, events: Iterable[Event]) -> NameState:
    """The state after all of these events."""
    state = NameState(name)
    for event in events:
        state = state.after(event)
    return state


def _version(row: Row, event: Event) -> Version:
    return Version(
        number=row["number"],
        root=row["root"],
        manifest=row["manifest"],
        tier=row["tier"],
        author=row["author"],
        kind=row["kind"],
        references=tuple(Reference(**one) for one in json.loads(row["references"])),
        registered_at=event.when,
    )


def _approval(row: Row, event: Event) -> Approval:
    return Approval(row["approver"], row["key"], row["signature"], tuple(json.loads(row["environments"])), event.when)


def _changed(version: Version, values: Row, event: Event) -> Version:
    match values.get("state"):
        case "signed":
            # `Void` drops the approvals: they were for the previous release.
            signed = replace(version, signer=values["signed_name"], signer_key=values["signed_key"], rejected=None)
            return replace(signed, bundle=values["bundle"], release=values["release"], changed=event.sequence)
        case "rejected":
            return replace(version, rejected=event.body["why"], changed=event.sequence)
        case "revoked":
            return replace(version, revoked=event.reason, changed=event.sequence)
        case "retired":
            return replace(version, retired=True)
    return version
