"""What the extension reports of servers, this build and this machine, as documents.

Must not know the extension.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from flyball.native.model_documents import Batching


class _Document(BaseModel):
    # Extra keys are taken silently: an extension built from a newer commit may tell more.
    model_config = ConfigDict(frozen=True, extra="ignore")


class VersionAck(_Document):
    """A version that serves."""

    version: str
    batching: Batching


class SignedAck(_Document):
    """A version of a registry whose release was judged, and who approved it."""

    name: str
    version: int
    approvers: list[str]


class Ack(_Document):
    """What became of one deployment of a snapshot."""

    name: str
    digest: str
    state: Literal["applied", "kept", "removed", "refused"]
    reason: str | None = None
    versions: list[VersionAck] = []
    signed: SignedAck | Literal["unsigned"] | None = None
    """What stands behind it; none where it is not known, as of what is refused."""


class DeploymentState(_Document):
    """One deployment on a server: it serves, was refused, or is kept warm."""

    name: str
    digest: str
    generation: int
    """Of the last snapshot that asked for it."""
    state: Literal["applied", "refused", "warm"]
    reason: str | None = None
    signed: SignedAck | Literal["unsigned"] | None = None


class Deployments(_Document):
    """What a server says of itself in `GET /v1/deployments`; of one name, what serves comes first."""

    generation: int
    """Of the last snapshot that was taken whole."""
    refused: str | None = None
    """Why a later one was refused as a whole."""
    deployments: list[DeploymentState]


class Totals(_Document):
    """Requests counted once each: received = answered + refused + failed + abandoned + in flight."""

    received: int
    answered: int
    refused: int
    failed: int
    abandoned: int
    in_flight: int


class BuildInfo(_Document):
    """How the extension was built."""

    version: str
    commit: str
    profile: str
    target: str
    rustc: str
    debug_assertions: bool


class Right(_Document):
    """A right that tuning needs: whether this process has it, and the command that grants it."""

    name: str
    granted: bool
    why: str
    grant: str


class Machine(_Document):
    """What this machine allows to this process."""

    cpus: list[int]
    cpu_quota: float | None
    lanes: int
    memory_bytes: int
    memory_limit_bytes: int | None
    cpu_model: str
    kernel: str
    rights: list[Right]


class PlannedStage(_Document):
    """A stage of a compiled decision, in words."""

    stage: str
    lines: list[str]


class DecisionDigests(_Document):
    """What a decision's document, its policy and its schema are known by, here and where it is served."""

    document: str
    policy: str
    schema_: str = Field(alias="schema")
