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
        description="how the actor is known: by the signing key, an API key, the user of the machine, the server itself, or"
        " not at all",
        examples=["key"],
    ),
]


class View(BaseModel):
    """A document that is read only; it may be made from an object with the same names."""

    model_config = ConfigDict(from_attributes=True, extra="forbid", frozen=True, populate_by_name=True, defer_build=True)


class Head(View):
    """The last event: whoever kept it can tell later whether the log was changed."""

    sequence: int = Field(description="how many events there are", examples=[41])
    hash: str = Field(description="hash of the last event; 64 zeros where there is none", examples=["9f2c…"])


class EventView(View):
    """One event of the log, as it was written."""

    sequence: int = Field(description="place in the whole log, from 1", examples=[41])
    name: str = Field(description="what it is about", examples=["fraud"])
    revision: int = Field(description="place among the events of this name, from 1", examples=[7])
    kind: str = Field(description="what happened", examples=["promoted"])
    at: datetime = Field(description="when, in UTC")
    actor: str = Field(description="who did it", examples=["ada"])
    authenticated: _Authenticated
    reason: str = Field(description="why, in the actor's words", examples=["quarterly refit"])
    body: dict[str, Any] = Field(
        description="what the kind of event says", examples=[{"version": 7, "environment": "production"}]
    )
    previous: str = Field(description="hash of the event before")
    hash: str = Field(description="hash of this event")


class ApprovalView(View):
    """One person's approval, made with a key of their own."""

    approver: str = Field(description="name of the key in the trust policy", examples=["grace"])
    key: str = Field(description="hint of the key")
    environments: list[str] = Field(description="environments that the release names")
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
    tier: Tier = Field(description="how much hangs on it; decides how many must approve")
    author: str = Field(description="who registered it", examples=["ada"])
    state: State
    registered_at: datetime
    signed_by: str | None = Field(description="name of the signing key; none: not signed yet", examples=["payments-risk"])
    approvals: list[ApprovalView]
    approvals_needed: int | None = Field(
        description="how many people other than the author must approve; none: the trust policy cannot be read", examples=[2]
    )
    placed: list[str] = Field(description="environments that serve it", examples=[["staging"]])
    aliases: list[str] = Field(description="aliases that lead to it", examples=[["champion"]])

    @field_validator("approvals_needed", mode="before")
    @classmethod
    def _unknown(cls, needed: object) -> object:
        """Where nobody knows, no number is enough; JSON has no such number."""
        return None if needed == math.inf else needed


class NameView(View):
    """One name: its newest version, and what is placed where."""

    name: str = Field(examples=["fraud"])
    versions: int = Field(description="how many there are", examples=[7])
    newest: int = Field(examples=[7])
    state: State = Field(description="of the newest")
    changed_at: datetime = Field(description="of its last event")
    placed: dict[str, int] = Field(description="the version that each environment serves", examples=[{"production": 6}])


class VersionDetail(VersionView):
    """One version with everything that was registered."""

    manifest: str = Field(description="digest of the package's manifest in the artifact store")
    meta: dict[str, Any] = Field(description="meta.json of the package: card, metrics, lineage, contract")
    files: list[FileView]
    environments: list[str] = Field(description="environments that the release allows; none before it is signed")
    not_before: datetime | None
    not_after: datetime | None


class StatementView(View):
    """What a release of a version says, whoever signs it: the signer adds where and how long it may serve."""

    name: str
    version: int
    tier: Tier
    models: dict[str, str] = Field(
        description="which model answers as which version: digest of the file, or of the file and its external data"
    )
    decision: str | None = Field(description="digest of the decision's document; none for a plain model")
    policy: str | None
    schema_: str | None = Field(alias="schema")
    subjects: dict[str, str] = Field(description="NAME@VERSION to root: its own first, then the versions that it asks")


class CandidateView(View):
    """A version that gets a share of the requests, or a copy of each."""

    version: int
    share: float = Field(ge=0, le=1)
    shadow: bool


class PlacementView(View):
    """What an environment serves under a name, since when, by whom and why."""

    name: str = Field(examples=["fraud"])
    environment: str = Field(examples=["production"])
    version: int = Field(examples=[7])
    candidate: CandidateView | None
    since: datetime
    actor: str = Field(examples=["ada"])
    authenticated: _Authenticated
    reason: str
    approvers: list[str] = Field(description="who had approved it", examples=[["grace", "barbara"]])
    served_by: list[str] = Field(description="servers that said that they answer with this version", examples=[["web-1"]])


class ServingView(View):
    """What a server answers with."""

    version: int | None = Field(description="none where the server does not know a version", examples=[6])
    digest: str = Field(description="of the deployment's document")
    since: datetime = Field(description="when the registry first heard of it")


class NodeView(View):
    """What one server says of one name: what it should serve, what became of that, and what it does serve."""

    node: str = Field(examples=["web-1/127.0.0.1:8080"])
    environment: str
    generation: int
    deployment: str
    version: int | None = Field(description="the version that it should serve", examples=[7])
    digest: str = Field(description="of the document that it should serve; empty where that cannot be made")
    state: str = Field(description="applied; refused; or waiting, where it has not judged it yet")
    reason: str | None = Field(description="why it was refused")
    serving: ServingView | None = Field(description="what it answers with; none: nothing under this name")
    seen_at: datetime = Field(description="when it last said so; of a moment in the past, when it first did")
    gone_since: datetime | None = Field(description="when it was last heard of, where that is more than five minutes ago")


class EndingView(View):
    """Something under a placement that ended or ends soon, and what follows from it."""

    what: str = Field(examples=["fraud@7 in production: its release"])
    ends_at: datetime | None = Field(description="none where it holds already, as a minimum does")
    ended: bool
    words: str


class StatusView(View):
    """Where everything stands."""

    head: Head
    environments: list[str]
    placements: list[PlacementView]
    nodes: list[NodeView]
    waiting: list[VersionView] = Field(description="versions that wait to be signed or approved")
    endings: list[EndingView] = Field(
        default=[], description="releases, keys and the trust policy that ended or end within two weeks; earliest first"
    )
    warnings: list[str] = Field(default=[], description="what makes times doubtful: a clock that is, or was, wrong")


class MomentView(View):
    """What was placed at a moment, who had approved it, and what the servers said that they served."""

    at: datetime
    head: Head
    placements: list[PlacementView]
    nodes: list[NodeView] = Field(
        description="of servers that served something else than was placed, refused that, or were gone"
    )


class GateView(View):
    """What one gate found."""

    gate: str = Field(examples=["signatures"])
    passed: bool
    words: str = Field(examples=["signed by payments-risk, approved by grace and barbara"])


class ReceiptView(View):
    """What an act did: the event that it left."""

    event: EventView
    version: int | None = None
    previous: int | None = Field(default=None, description="the version that was there before")
    gates: list[GateView] = []
    warning: str | None = Field(default=None, description="the event's time is doubtful: a clock is, or was, wrong")


class VerifiedView(View):
    """Whether the registry is as it was written."""

    events: int
    versions: int
    artifacts: int = Field(description="files and signatures that were looked at")
    quick: bool = Field(description="whether they were only looked for, and their bytes not read")
    head: Head = Field(description="the last event that was checked")
    findings: list[str] = Field(description="everything that is not as it should be, with its place")
    warnings: list[str] = Field(default=[], description="what makes times doubtful: a clock that is, or was, wrong")
