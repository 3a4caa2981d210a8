"""The registry's reads: names, versions, history, time travel, status and verification.

Answers come from the tables, so that they stay fast with a long history. Changes nothing.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from flyball.artifacts.packages import read_package
from flyball.errors import FlyballError
from flyball.registry.acts.expiry import endings
from flyball.registry.events.event import hashed, time_of
from flyball.registry.events.fold import ALIAS, CANDIDATE, CHAMPION
from flyball.registry.events.log import now_us
from flyball.registry.tables.nodes import GONE_US, NodeReport
from flyball.registry.views import (
    ApprovalView,
    EndingView,
    EventView,
    FileView,
    Head,
    MomentView,
    NameView,
    NodeView,
    PlacementView,
    StatusView,
    VerifiedView,
    VersionDetail,
    VersionView,
)

if TYPE_CHECKING:
    import builtins  # a method is called `list`
    from collections.abc import Iterable

    from flyball.artifacts.blobs import Store
    from flyball.registry.acts.rules import ApprovalRules
    from flyball.registry.events.event import Event
    from flyball.registry.events.state import NameState, Version
    from flyball.registry.handle import RegistryHandle
    from flyball.registry.tables.projections import Approval, Confirmation, Placement

    _Said = tuple[NodeReport | Confirmation, int, int | None]
    """A server's report, its time, and since when the server is gone, if it is."""

_NODES, _PLACEMENTS = TypeAdapter(list[NodeView]), TypeAdapter(list[PlacementView])
_WAITING_MAX = 100
_FINDINGS_MAX = 100


class Reading:
    """All reads of a registry."""

    def __init__(self, opened: RegistryHandle) -> None:
        self.handle = opened

    def head(self) -> Head:
        """The last event."""
        return Head.model_validate(self.handle.log.head())

    def names(self, *, after: str | None = None, limit: int = 100) -> list[NameView]:
        """The names in order, with the newest version and the placements of each."""
        tables, needed = self.handle.tables, self.handle.approval_rules().needed
        newest = tables.newest(after=after or "", limit=limit)
        approvals = tables.approvals_of([(one.name, one.number) for one in newest if one.state == "signed"])
        placed: dict[str, dict[str, int]] = {}
        for placement in tables.placed(slots=(CHAMPION,)):
            placed.setdefault(placement.name, {})[placement.place] = placement.version
        views = []
        for one in newest:
            given = [approval for approval in approvals.get((one.name, one.number), ()) if approval.sequence > one.state_seq]
            enough = one.state == "signed" and len(given) >= needed(one.tier)
            said = {
                "name": one.name,
                "versions": one.number,
                "newest": one.number,
                "state": "approved" if enough else one.state,
                "changed_at": time_of(one.registered_at),
                "placed": placed.get(one.name, {}),
            }
            views.append(NameView.model_validate(said))
        return views

    def versions(self, name: str, *, before: int | None = None, limit: int = 100) -> builtins.list[VersionView]:
        """The versions of a name, newest first."""
        state, approval_rules = self.handle.known(name), self.handle.approval_rules()
        numbers = sorted((number for number in state.versions if before is None or number < before), reverse=True)
        return [version_view(state, state.versions[number], approval_rules) for number in numbers[: max(0, limit)]]

    def show(self, ref: str) -> VersionDetail:
        """One version with its card, files, signer and approvals."""
        from flyball.registry.packages.meta import META

        state, version = self.handle.find(ref)
        package = read_package(self.handle.store, version.manifest)
        meta = next(file for file in package.files if file.name == META)
        shown = version_view(state, version, self.handle.approval_rules()).model_dump()
        return VersionDetail.model_validate(
            {
                **shown,
                "manifest": version.manifest,
                "meta": json.loads(self.handle.store.read(meta.digest)),
                "files": [FileView(name=one.name, digest=one.digest, size=one.size) for one in package.files],
                **self._window(version),
            }
        )

    def release(self, ref: str) -> bytes:
        """The release statement with all signatures: an envelope that approvers sign."""
        from flyball.signing.reasons import Reason, refused

        _, version = self.handle.find(ref)
        envelope = self.handle.release(version)
        if envelope is None:
            raise refused(Reason.UNSIGNED, f"{ref} is not signed", f"flyball sign {ref} --key FILE")
        return envelope

    def history(self, name: str | None = None, *, after: int = 0, limit: int = 1000) -> builtins.list[EventView]:
        """The events of a name, or all events, after a sequence number, oldest first."""
        log = self.handle.log
        if name is None:
            return [event_view(event) for event in log.since(after, limit=limit)]
        self.handle.known(name)
        return [event_view(event) for event in log.of(name, after=after, limit=limit)]

    def at(self, when: datetime | None = None, name: str | None = None) -> MomentView:
        """Placements, approvals and servers' reports at a time; default: now."""
        moment = self.handle.timeline.at(when, name, slots=(CHAMPION, CANDIDATE))
        head = Head(sequence=0, hash="0" * 64)
        if moment.sequence:
            head = Head.model_validate(self.handle.log.get(moment.sequence).head)
        serving = moment.standings
        approvers = {(one.placement.name, one.placement.version): one.approvers for one in serving}
        placed = [one.placement for one in serving]
        said = [(one.confirmation, one.confirmation.from_at, one.gone_since) for one in moment.said]
        served_by, others = _served_by(placed, said)
        return MomentView(
            at=time_of(moment.at),
            head=head,
            placements=self._placement_views(placed, approvers, served_by),
            nodes=_node_views(others),
        )

    def status(self, name: str | None = None) -> StatusView:
        """Current placements, servers' reports, versions waiting for approval, and expirations."""
        placed = self.handle.tables.placed(name)
        approvals = self.handle.tables.approvals_placed(name)
        approvers = {version: [one.approver for one in given] for version, given in approvals.items()}
        now = now_us()
        reports = [one for one in self.handle.nodes.all() if name is None or one.deployment == name]
        said = [(one, one.seen_at, one.seen_at if now - one.seen_at > GONE_US else None) for one in reports]
        return StatusView(
            head=self.head(),
            environments=self.handle.home.settings.environments,
            placements=self._placement_views(placed, approvers, _served_by(placed, said)[0]),
            nodes=_node_views(said),
            waiting=self._waiting(name),
            endings=self._endings(placed, approvals, name),
            warnings=self.handle.log.warnings(),
        )

    def verify(self, *, quick: bool = False) -> VerifiedView:
        """Check the chain, the tables and all artifacts; `quick` checks only that artifacts exist."""
        from flyball.registry.events.verify import verify

        verdict = verify(self.handle.database)
        store, judged = self.handle.store, dict[str, str | None]()
        versions = self.handle.tables.versions()
        findings = [str(finding) for finding in verdict.findings]
        if verdict.more:
            findings.append(f"and {verdict.more} more")
        for version in versions:
            ref = f"{version.name}@{version.number}"
            try:
                files = [file.digest for file in read_package(store, version.manifest).files]
            except FlyballError as error:
                findings.append(f"{ref}: {error.message}")
                files = []
            for digest in filter(None, (*files, version.bundle, version.release)):
                if digest not in judged:
                    judged[digest] = _unsound(store, digest, quick=quick)
                if words := judged[digest]:
                    findings.append(f"{ref}: {words}")
            if len(findings) > _FINDINGS_MAX:
                findings = [*findings[:_FINDINGS_MAX], "and more"]
                break
        head = Head.model_validate(verdict.head)  # the last verified event, not the newest
        return VerifiedView(
            events=verdict.events,
            versions=len(versions),
            artifacts=len(judged),
            quick=quick,
            head=head,
            findings=findings,
            warnings=self.handle.log.warnings(),
        )

    def _placement_views(
        self,
        placed: builtins.list[Placement],
        approvers: dict[tuple[str, int], builtins.list[str]],
        served_by: dict[tuple[str, str], builtins.list[str]],
    ) -> builtins.list[PlacementView]:
        """Champions with their candidates, by name and order of environments; without aliases."""
        order = {environment: place for place, environment in enumerate(self.handle.home.settings.environments)}
        candidates = {(one.name, one.place): one for one in placed if one.slot == CANDIDATE}
        champions = [one for one in placed if one.slot == CHAMPION]
        champions.sort(key=lambda one: (one.name, order.get(one.place, len(order)), one.place))
        return _PLACEMENTS.validate_python(
            [
                {
                    "name": one.name,
                    "environment": one.place,
                    "version": one.version,
                    "candidate": _candidate(candidates.get((one.name, one.place))),
                    "since": time_of(one.from_at),
                    "actor": one.actor,
                    "authenticated": one.authenticated,
                    "reason": one.reason,
                    "approvers": list(dict.fromkeys(approvers.get((one.name, one.version), ()))),
                    "served_by": served_by.get((one.name, one.place), []),
                }
                for one in champions
            ]
        )

    def _endings(
        self,
        placed: builtins.list[Placement],
        approvals: dict[tuple[str, int], builtins.list[Approval]],
        name: str | None,
    ) -> builtins.list[EndingView]:
        """Expirations under current placements. An unreadable trust policy is reported itself."""
        trust = self.handle.trust_if_readable()
        if trust is None and placed:
            words = "the trust policy is unreadable or expired, so servers load nothing new:  flyball trust show"
            return [EndingView(what="the trust policy", ends_at=None, ended=True, words=words)]
        if trust is None:
            return []
        champions = [one for one in placed if one.slot == CHAMPION]
        return endings(champions, self.handle.tables.signed_placed(name), approvals, trust.policy, datetime.now(UTC))

    def _waiting(self, name: str | None) -> builtins.list[VersionView]:
        """The newest versions that lack a signature or approvals."""
        tables, needed = self.handle.tables, self.handle.approval_rules().needed
        newest = tables.newest(name=name, states=("registered", "signed"), limit=_WAITING_MAX)
        approvals = tables.approvals_of([(one.name, one.number) for one in newest])
        placed = tables.placed(slots=(CHAMPION, CANDIDATE, ALIAS)) if newest else []
        found = []
        for one in newest:
            given = [approval for approval in approvals.get((one.name, one.number), ()) if approval.sequence > one.state_seq]
            if one.state == "signed" and len(given) >= needed(one.tier):
                continue
            spots = [spot for spot in placed if (spot.name, spot.version) == (one.name, one.number)]
            said = {key: getattr(one, key) for key in ("name", "number", "root", "kind", "tier", "author", "state")}
            found.append(
                VersionView.model_validate(
                    {
                        **said,
                        "registered_at": time_of(one.registered_at),
                        "signed_by": one.signed_name,
                        "approvals": [_approval_view(approval) for approval in given],
                        "approvals_needed": needed(one.tier),
                        "placed": [spot.place for spot in spots if spot.slot != ALIAS],
                        "aliases": [spot.place for spot in spots if spot.slot == ALIAS],
                    }
                )
            )
        return found

    def _window(self, version: Version) -> dict[str, Any]:
        if version.release is None:
            return {"environments": [], "not_before": None, "not_after": None}
        from flyball.signing.release import read_release

        stated = read_release(self.handle.store.read(version.release)).predicate
        window = {"not_before": stated.not_before, "not_after": stated.not_after}
        return {
            "environments": stated.environments,
            **{key: datetime.fromisoformat(text).astimezone(UTC) for key, text in window.items()},
        }


def _unsound(store: Store, digest: str, *, quick: bool) -> str | None:
    """What is wrong with an artifact: missing, or changed bytes."""
    try:
        if not store.has(digest):
            return f"{digest} is not in the artifact store"
        if not quick:
            for _ in store.chunks(digest):
                pass  # verified while read
    except FlyballError as error:
        return error.message
    return None


def event_view(event: Event) -> EventView:
    """An event as a view."""
    return EventView.model_validate({**hashed(event), "at": event.when, "hash": event.hash})


def version_view(state: NameState, version: Version, approval_rules: ApprovalRules) -> VersionView:
    """A version as a view."""
    needed = approval_rules.needed(version.tier)
    return VersionView.model_validate(
        {
            "name": state.name,
            "number": version.number,
            "root": version.root,
            "kind": version.kind,
            "tier": version.tier,
            "author": version.author,
            "state": version.standing(needed),
            "registered_at": version.registered_at,
            "signed_by": version.signer,
            "approvals": [
                ApprovalView(approver=one.approver, key=one.key, environments=list(one.environments), at=one.at)
                for one in version.approvals
            ],
            "approvals_needed": needed,
            "placed": state.placed(version.number),
            "aliases": sorted(alias for alias, number in state.aliases.items() if number == version.number),
        }
    )


def _approval_view(approval: Approval) -> ApprovalView:
    return ApprovalView(
        approver=approval.approver, key=approval.key, environments=approval.environments, at=time_of(approval.at)
    )


def _node_views(said: Iterable[_Said]) -> list[NodeView]:
    """Validated in one call: there may be thousands."""
    return _NODES.validate_python(
        [
            {
                "node": one.node,
                "environment": one.environment,
                "generation": one.generation,
                "deployment": one.deployment if isinstance(one, NodeReport) else one.name,
                "version": one.version,
                "digest": one.digest or "",
                "state": one.state,
                "reason": one.reason or None,
                "serving": _serving(one),
                "seen_at": time_of(seen_at),
                "gone_since": None if gone_since is None else time_of(gone_since),
            }
            for one, seen_at, gone_since in said
        ]
    )


def _candidate(tried: Placement | None) -> dict[str, Any] | None:
    return tried and {"version": tried.version, "share": tried.share or 0.0, "shadow": bool(tried.shadow)}


def _serving(said: NodeReport | Confirmation) -> dict[str, Any] | None:
    if said.serving_digest is None or said.serving_since is None:
        return None
    return {"version": said.serving_version, "digest": said.serving_digest, "since": time_of(said.serving_since)}


def _served_by(placed: Iterable[Placement], said: Iterable[_Said]) -> tuple[dict[tuple[str, str], list[str]], list[_Said]]:
    """Servers that serve what is placed, by name and environment; and the reports of all others."""
    versions = {(one.name, one.place): one.version for one in placed if one.slot == CHAMPION}
    served_by: dict[tuple[str, str], list[str]] = {}
    others = []
    for told in said:
        one, _, gone_since = told
        spot = one.deployment if isinstance(one, NodeReport) else one.name, one.environment
        serves = one.serving_version is not None and one.serving_version == versions.get(spot) and gone_since is None
        if serves:
            served_by.setdefault(spot, []).append(one.node)
        if not serves or one.state != "applied":
            others.append(told)
    return served_by, others
