"""What a server in this process tells of itself: what became of deployments, and what it counted.

Callers import these from `flyball.engine`, beside what gives them. Must not know the extension.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from flyball.model_documents import Batching


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
