"""Compares a server's report with what it should serve: one report per name, for the registry.

States both what it should serve and what it does serve. Plain values; must not know how servers are asked, nor where reports
are stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.control.fetches import FETCHING
from flyball.documents.snapshot.store import digest_of
from flyball.registry.events.log import now_us
from flyball.registry.tables.nodes import WAITING, NodeReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flyball.control.compile import Snapshot
    from flyball.native.server_documents import Deployments, DeploymentState

_NOT_SEEN = "it has not seen this snapshot yet"
_NOT_THERE = "not_serving: it was neither loaded nor refused; it may have been unloaded"


def reports_of(
    node: str, said: Deployments, wanted: Snapshot, given: int, withdrawn: Mapping[str, DeploymentState]
) -> list[NodeReport]:
    """One report for each placed name.

    `given`: the generation that was applied last. `withdrawn`: documents that all servers refused and that were replaced by
    the last good ones, with a report.
    """
    serving = {one.name: one for one in said.deployments if one.state == "applied"}
    refused = {one.name: one for one in said.deployments if one.state == "refused"}
    seen_at, reports = now_us(), []
    for name in sorted(wanted.versions):
        digest = digest_of(wanted.documents[name]) if name in wanted.documents else ""
        serves, refusing = serving.get(name), refused.get(name)
        if refusing is not None and max(said.generation, refusing.generation) < given:
            refusing = None  # about an earlier snapshot
        if refusal := wanted.refusals.get(name):
            state = WAITING if refusal.code == FETCHING else "refused"
            reason = f"{refusal.code}: {refusal.message}"
        else:
            state, reason = _became(digest, said, given, serves, [refusing, withdrawn.get(name)])
        reports.append(
            NodeReport(
                node=node,
                environment=wanted.environment,
                deployment=name,
                generation=wanted.generation,
                digest=digest,
                state=state,
                reason=reason,
                version=wanted.versions[name],
                seen_at=seen_at,
                serving_version=_version(serves),
                serving_digest=serves.digest if serves else None,
            )
        )
    return reports


def _became(
    digest: str,
    said: Deployments,
    given: int,
    serves: DeploymentState | None,
    refusals: Sequence[DeploymentState | None],
) -> tuple[str, str]:
    """State and reason of the document that a server should serve."""
    if said.refused is not None:
        return "refused", said.refused
    for refusing in refusals:
        if refusing is not None and refusing.digest == digest:
            return "refused", refusing.reason or "refused"
    if serves is not None and serves.digest == digest:
        return "applied", ""
    return (WAITING, _NOT_SEEN) if said.generation < given else ("refused", _NOT_THERE)


def _version(serves: DeploymentState | None) -> int | None:
    if serves is None or serves.signed is None or isinstance(serves.signed, str):
        return None
    return serves.signed.version
