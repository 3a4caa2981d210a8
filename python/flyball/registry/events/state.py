"""One name's state: the fold of its events, in the order of their revisions.

Plain values, no store and no clock. `rules.py` judges acts by this and by nothing else, so that what was allowed can be
judged again from the log alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

VersionStanding = Literal["registered", "signed", "approved", "rejected", "revoked", "retired"]


class Happened(Protocol):
    """What a fold needs of an event."""

    @property
    def sequence(self) -> int: ...  # noqa: D102
    @property
    def revision(self) -> int: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def when(self) -> datetime: ...  # noqa: D102
    @property
    def actor(self) -> str: ...  # noqa: D102
    @property
    def reason(self) -> str: ...  # noqa: D102
    @property
    def body(self) -> Mapping[str, Any]: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Reference:
    """A model of another version that a decision asks."""

    model: str
    name: str
    version: int
    root: str


@dataclass(frozen=True, slots=True)
class Approval:
    """One person's signature under the release."""

    approver: str
    key: str
    signature: str
    environments: tuple[str, ...]
    at: datetime


@dataclass(frozen=True, slots=True)
class Version:
    """A package with its number, and what was said about it since."""

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
    """Name of the signing key."""
    signer_key: str | None = None
    approvals: tuple[Approval, ...] = ()
    rejected: str | None = None
    """Why, where somebody rejected it."""
    revoked: str | None = None
    retired: bool = False
    changed: int = 0
    """The place in the log of the last event about its signatures, or about whether it may serve."""
    placed_as: tuple[str | None, int] | None = None
    """Its release and how many had approved that when it was last placed, which enough had then."""

    def standing(self, approvals_needed: float) -> VersionStanding:
        """In one word. Where nobody knows how many are needed, no number is enough."""
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
    """A version that gets a share of the requests, or a copy of each."""

    version: int
    share: float
    shadow: bool


@dataclass(frozen=True, slots=True)
class Placement:
    """What an environment serves under the name; `before` are the versions that a rollback goes back to, newest last."""

    version: int
    candidate: Candidate | None
    before: tuple[int, ...]
    since: datetime
    actor: str
    reason: str
    sequence: int = 0
    """The place in the log of the event that placed it so."""


@dataclass(frozen=True, slots=True)
class NameState:
    """Everything that is known of a name at a revision."""

    name: str
    revision: int = 0
    sequence: int = 0
    """The place in the log of the last event that changed anything."""
    versions: dict[int, Version] = field(default_factory=dict)
    placements: dict[str, Placement] = field(default_factory=dict)
    aliases: dict[str, int] = field(default_factory=dict)
    proven: dict[str, frozenset[int]] = field(default_factory=dict)
    """For each environment the versions that served there and were not rolled back from."""

    def after(self, event: Happened) -> NameState:
        """The state once this has happened. Kinds that change nothing here only count."""
        change = _CHANGES.get(event.kind)
        if change is None:
            return replace(self, revision=event.revision)
        return replace(change(self, event, event.body), revision=event.revision, sequence=event.sequence)

    @property
    def next_number(self) -> int:
        """Of a version that is registered now."""
        return max(self.versions, default=0) + 1

    def placed(self, number: int) -> list[str]:
        """Environments that serve the version, or try it."""
        return [
            environment
            for environment, placement in self.placements.items()
            if number in (placement.version, placement.candidate.version if placement.candidate else None)
        ]


def fold(name: str, events: Iterable[Happened]) -> NameState:
    """The state after all of these."""
    state = NameState(name)
    for event in events:
        state = state.after(event)
    return state


def _registered(state: NameState, event: Happened, body: Mapping[str, Any]) -> NameState:
    references = tuple(
        Reference(item["model"], item["name"], item["version"], item["root"]) for item in body.get("references") or ()
    )
    version = Version(
        number=body["version"],
        root=body["root"],
        manifest=body["manifest"],
        tier=body["tier"],
        author=body["author"],
        kind=body["kind"],
        references=references,
        registered_at=event.when,
    )
    return replace(state, versions={**state.versions, version.number: version})


def _with_version(state: NameState, number: int, **changes: Any) -> NameState:
    return replace(state, versions={**state.versions, number: replace(state.versions[number], **changes)})


def _signed(state: NameState, event: Happened, body: Mapping[str, Any]) -> NameState:
    """Approvals were for the release before: who approved that has not seen this one."""
    return _with_version(
        state, body["version"], bundle=body["bundle"], release=body["release"], signer=body["name"],
        signer_key=body["key"], approvals=(), rejected=None, changed=event.sequence,
    )  # fmt: skip


def _approved(state: NameState, event: Happened, body: Mapping[str, Any]) -> NameState:
    approval = Approval(body["approver"], body["key"], body["signature"], tuple(body["environments"]), event.when)
    version = state.versions[body["version"]]
    return _with_version(state, version.number, approvals=(*version.approvals, approval), changed=event.sequence)


def _rejected(state: NameState, event: Happened, body: Mapping[str, Any]) -> NameState:
    return _with_version(state, body["version"], rejected=body["why"], approvals=(), changed=event.sequence)


def _revoked(state: NameState, event: Happened, body: Mapping[str, Any]) -> NameState:
    return _with_version(state, body["version"], revoked=event.reason, changed=event.sequence)


def _retired(state: NameState, event: Happened, body: Mapping[str, Any]) -> NameState:
    del event
    return _with_version(state, body["version"], retired=True)


def _promoted(state: NameState, event: Happened, body: Mapping[str, Any]) -> NameState:
    environment, number = body["environment"], body["version"]
    now = state.placements.get(environment)
    tried = body.get("candidate")
    if tried is not None and now is not None:
        candidate = Candidate(number, float(tried["share"]), bool(tried["shadow"]))
        placement = replace(
            now, candidate=candidate, since=event.when, actor=event.actor, reason=event.reason, sequence=event.sequence
        )
    else:
        before = () if now is None else tuple(past for past in (*now.before, now.version) if past != number)
        placement = Placement(number, None, before, event.when, event.actor, event.reason, event.sequence)
    proven = state.proven.get(environment, frozenset()) | {number}
    version = state.versions[number]
    return replace(
        _with_version(state, number, placed_as=(version.release, len(version.approvals))),
        placements={**state.placements, environment: placement},
        proven={**state.proven, environment: proven},
    )


def _rolled_back(state: NameState, event: Happened, body: Mapping[str, Any]) -> NameState:
    environment, number = body["environment"], body["version"]
    now = state.placements[environment]
    if number is None:
        others = {place: placed for place, placed in state.placements.items() if place != environment}
        return replace(state, placements=others)
    before = now.before[: now.before.index(number)] if number in now.before else now.before
    placement = Placement(number, None, before, event.when, event.actor, event.reason, event.sequence)
    proven = state.proven.get(environment, frozenset()) - {body["from"]}
    return replace(
        state,
        placements={**state.placements, environment: placement},
        proven={**state.proven, environment: proven},
    )


def _aliased(state: NameState, event: Happened, body: Mapping[str, Any]) -> NameState:
    del event
    others = {alias: number for alias, number in state.aliases.items() if alias != body["alias"]}
    number = body.get("version")
    return replace(state, aliases=others if number is None else {**others, body["alias"]: number})


_CHANGES = {
    "registered": _registered,
    "signed": _signed,
    "approved": _approved,
    "rejected": _rejected,
    "revoked": _revoked,
    "retired": _retired,
    "promoted": _promoted,
    "rolled_back": _rolled_back,
    "aliased": _aliased,
}
