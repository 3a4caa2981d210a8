"""Documents about servers, this build and this machine.

Must not know the extension.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from flyball.native.answer import Answer
from flyball.native.model_documents import Batching


class VersionAck(Answer):
    """A version that serves."""

    version: str
    batching: Batching


class SignedAck(Answer):
    """A version of a registry with a verified release, and its approvers."""

    name: str
    version: int
    approvers: list[str]


class Ack(Answer):
    """The result of applying one deployment of a snapshot."""

    name: str
    digest: str
    state: Literal["applied", "kept", "removed", "refused"]
    reason: str | None = None
    versions: list[VersionAck] = Field(default=[])
    signed: SignedAck | Literal["unsigned"] | None = None
    """Its release; None if unknown, for example if it was refused."""


class DeploymentState(Answer):
    """One deployment on a server: it serves, was refused, or is kept warm."""

    name: str
    digest: str
    generation: int
    """Of the last snapshot that contained it."""
    state: Literal["applied", "refused", "warm"]
    reason: str | None = None
    signed: SignedAck | Literal["unsigned"] | None = None


class Deployments(Answer):
    """The answer of `GET /v1/deployments`; of one name, the serving deployment comes first."""

    generation: int
    """Of the last snapshot that was applied completely."""
    refused: str | None = None
    """Why a later snapshot was refused as a whole."""
    deployments: list[DeploymentState]


class Totals(Answer):
    """Requests counted once each: received = answered + refused + failed + abandoned + in flight."""

    received: int
    answered: int
    refused: int
    failed: int
    abandoned: int
    in_flight: int


class BuildInfo(Answer):
    """How the extension was built."""

    version: str
    commit: str
    profile: str
    target: str
    rustc: str
    debug_assertions: bool


class Right(Answer):
    """A right that tuning needs: whether this process has it, and the command that grants it."""

    name: str
    granted: bool
    why: str
    grant: str


class Machine(Answer):
    """The machine's limits for this process."""

    cpus: list[int]
    cpu_quota: float | None
    lanes: int
    memory_bytes: int
    memory_limit_bytes: int | None
    cpu_model: str
    kernel: str
    rights: list[Right]


class PlannedStage(Answer):
    """A stage of a compiled decision, as text."""

    stage: str
    lines: list[str]


class DecisionDigests(Answer):
    """Digests that identify a decision's document, policy and schema, also on servers."""

    document: str
    policy: str
    schema_: str = Field(alias="schema")
