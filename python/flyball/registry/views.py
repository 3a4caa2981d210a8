"""The documents that registry reads and acts return, in this process and over HTTP.

The admin API's OpenAPI document is generated from them, and `remote/registry.py` parses answers with them.
Must not know how anything is stored.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from flyball.registry.acts.interface import Authenticated

State = Literal["registered", "signed", "approved", "rejected", "revoked", "retired"]
Tier = Literal["low", "standard", "high"]


_Authenticated = Annotated[
    Authenticated,
    Field(
        description="how the actor was authenticated: signing key, API key, operating system user, server, or none",
        examples=["key"],
    ),
]


class View(BaseModel):
    """Base of all views: immutable; may be validated from an object's attributes."""

    model_config = ConfigDict(from_attributes=True, extra="forbid", frozen=True, populate_by_name=True, defer_build=True)


class Head(View):
    """The last event. A stored head reveals later changes of the log."""

    sequence: int = Field(description="number of events", examples=[41])
    hash: str = Field(description="hash of the last event; 64 zeros for an empty log", examples=["9f2c…"])


class EventView(View):
    """One event of the log."""

    sequence: int = Field(description="position in the whole log, from 1", examples=[41])
    name: str = Field(description="the name or stream of the event", examples=["fraud"])
    revision: int = Field(description="position among the events of this name, from 1", examples=[7])
    kind: str = Field(description="kind of the event", examples=["promoted"])
    at: datetime = Field(description="when, in UTC")
    actor: str = Field(description="who did it", examples=["ada"])
    authenticated: _Authenticated
    reason: str = Field(description="why, in the actor's words", examples=["quarterly refit"])
    body: dict[str, Any] = Field(
        description="fields of this kind of event", examples=[{"version": 7, "environment": "production"}]
    )
    previous: str = Field(description="hash of the previous event")
    hash: str = Field(description="hash of this event")


class ApprovalView(View):
    """One approver's signature over the release."""

    approver: str = Field(description="name of the key in the trust policy", examples=["grace"])
    key: str = Field(description="hint of the key")
    environments: list[str] = Field(description="environments of the release")
    at: datetime = Field(description="when, in UTC")


class FileView(View):
    """One file of a package."""

    name: str = Field(description="path inside the package", examples=["model.onnx"])
    digest: str = Field(description="sha256 of its bytes", examples=["sha256:3f9c…"])
    size: int = Field(description="bytes", examples=[12378112])


class VersionView(View):
    """One version of a name."""

    name: str = Field(examples=["fraud"])
    number: int = Field(examples=[7])
    root: str = Field(description="the package's id: the OMS root digest of its files", examples=["sha256:3f9c…"])
    kind: Literal["model", "decision"]
    tier: Tier = Field(description="risk class; decides the number of approvals")
    author: str = Field(description="who registered it", examples=["ada"])
    state: State
    registered_at: datetime
    signed_by: str | None = Field(description="name of the signing key; null if not signed", examples=["payments-risk"])
    approvals: list[ApprovalView]
    approvals_needed: int | None = Field(
        description="required approvals by others than the author; null if the trust policy is unreadable",
        examples=[2],
    )
    placed: list[str] = Field(description="environments that serve it", examples=[["staging"]])
    aliases: list[str] = Field(description="aliases that point to it", examples=[["champion"]])

    @field_validator("approvals_needed", mode="before")
    @classmethod
    def _unknown(cls, needed: object) -> object:
        """An unknown number is infinite; JSON has no infinity."""
        return None if needed == math.inf else needed


class NameView(View):
    """One name: its newest version, and its placements."""

    name: str = Field(examples=["fraud"])
    versions: int = Field(description="number of versions", examples=[7])
    newest: int = Field(examples=[7])
    state: State = Field(description="state of the newest version")
    changed_at: datetime = Field(description="time of its last change")
    placed: dict[str, int] = Field(description="the version that each environment serves", examples=[{"production": 6}])


class VersionDetail(VersionView):
    """One version with its card, files and release."""

    manifest: str = Field(description="digest of the package's manifest in the artifact store")
    meta: dict[str, Any] = Field(description="meta.json of the package: card, metrics, lineage, contract")
    files: list[FileView]
    environments: list[str] = Field(description="environments of the release; empty if not signed")
    not_before: datetime | None
    not_after: datetime | None


class StatementView(View):
    """The required content of a version's release; the signer adds environments and validity."""

    name: str
    version: int
    tier: Tier
    models: dict[str, str] = Field(
        description="digest of each model, with its external data, by the version that callers see"
    )
    decision: str | None = Field(description="digest of the decision's document; null for a plain model")
    policy: str | None
    schema_: str | None = Field(alias="schema")
    subjects: dict[str, str] = Field(description="NAME@VERSION to root: its own first, then its references")


class CandidateView(View):
    """A candidate: a version that gets a share of the requests, or a copy of each."""

    version: int
    share: float = Field(ge=0, le=1)
    shadow: bool


class PlacementView(View):
    """What an environment serves under a name, with time, actor and reason."""

    name: str = Field(examples=["fraud"])
    environment: str = Field(examples=["production"])
    version: int = Field(examples=[7])
    candidate: CandidateView | None
    since: datetime
    actor: str = Field(examples=["ada"])
    authenticated: _Authenticated
    reason: str
    approvers: list[str] = Field(description="approvers of the version", examples=[["grace", "barbara"]])
    served_by: list[str] = Field(description="servers that report this version", examples=[["web-1"]])


class ServingView(View):
    """What a server serves."""

    version: int | None = Field(description="null if the server does not know the version", examples=[6])
    digest: str = Field(description="digest of the deployment's document")
    since: datetime = Field(description="time of the first report")


class NodeView(View):
    """One server's report about one name: what it should serve, the result, and what it does serve."""

    node: str = Field(examples=["web-1/127.0.0.1:8080"])
    environment: str
    generation: int
    deployment: str
    version: int | None = Field(description="the version that it should serve", examples=[7])
    digest: str = Field(description="digest of the document that it should serve; empty if it does not compile")
    state: str = Field(description="applied, refused, or waiting for the server's answer")
    reason: str | None = Field(description="why it was refused")
    serving: ServingView | None = Field(description="what it serves under this name, or null")
    seen_at: datetime = Field(description="time of the last report; for a past time, of the first one")
    gone_since: datetime | None = Field(description="time of the last report, if more than five minutes ago")


class EndingView(View):
    """An expiration under a current placement, past or soon, and its consequence."""

    what: str = Field(examples=["fraud@7 in production: its release"])
    ends_at: datetime | None = Field(description="null if it applies already, like a minimum version")
    ended: bool
    words: str


class StatusView(View):
    """The current status of the registry."""

    head: Head
    environments: list[str]
    placements: list[PlacementView]
    nodes: list[NodeView]
    waiting: list[VersionView] = Field(description="versions that wait for a signature or approvals")
    endings: list[EndingView] = Field(
        default=[], description="releases, keys and trust policy that expired or expire within two weeks, earliest first"
    )
    warnings: list[str] = Field(default=[], description="unreliable times: a clock is or was wrong")


class MomentView(View):
    """Placements, approvals and servers' reports at a time."""

    at: datetime
    head: Head
    placements: list[PlacementView]
    nodes: list[NodeView] = Field(description="servers that served another version, refused the placed one, or were gone")


class GateView(View):
    """The result of one gate."""

    gate: str = Field(examples=["signatures"])
    passed: bool
    words: str = Field(examples=["signed by payments-risk, approved by grace and barbara"])


class ReceiptView(View):
    """The result of an act: its event."""

    event: EventView
    version: int | None = None
    previous: int | None = Field(default=None, description="the previous version")
    gates: list[GateView] = []
    warning: str | None = Field(default=None, description="the event's time is unreliable: a clock is or was wrong")


class VerifiedView(View):
    """The result of verifying the registry."""

    events: int
    versions: int
    artifacts: int = Field(description="number of checked files and signatures")
    quick: bool = Field(description="whether artifacts were checked only for existence")
    head: Head = Field(description="the last checked event")
    findings: list[str] = Field(description="all inconsistencies, with their location")
    warnings: list[str] = Field(default=[], description="unreliable times: a clock is or was wrong")
