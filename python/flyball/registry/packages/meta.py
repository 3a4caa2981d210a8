"""`meta.json`: a package's description. It is signed with the other files, so approvers approve it too.

Unknown keys are refused: nobody should sign what nothing reads. Must not know where packages are stored.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flyball.documents.faults import Allowed, faults_of
from flyball.documents.field_types import Digest, Name, VersionNumber
from flyball.errors import RegistryRefusedError
from flyball.native.model_documents import TensorSpec

META = "meta.json"
DECISION = "decision.yaml"
MODEL = "model.onnx"
SAMPLES = "samples"
PROFILE = "profile.json"

Tier = Literal["low", "standard", "high"]
_Text = Annotated[str, Field(max_length=4096), Allowed("a text of up to 4096 characters")]
_Words = Annotated[str, Field(min_length=1, max_length=256), Allowed("a text of 1 to 256 characters")]
_Day = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$"), Allowed("a day, 2026-11-16")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class ModelSignature(_Part):
    """One ONNX file of the package, with its declared inputs and outputs."""

    file: _Words
    inputs: list[TensorSpec] = []
    outputs: list[TensorSpec] = []


class Reference(_Part):
    """A model of another version that the decision refers to."""

    model: _Words
    name: Name
    version: VersionNumber
    root: Digest


class DecisionDigests(_Part):
    """The digests of the package's decision."""

    document: Digest
    policy: Digest
    schema_: Digest = Field(alias="schema")


class Card(_Part):
    """Owner, purpose, risk tier, limits and validation dates."""

    owner: _Text = ""
    purpose: _Text = ""
    tier: Tier = "standard"
    limits: _Text = ""
    validated: _Day | None = None
    validation_due: _Day | None = None

    def overdue(self, today: date) -> bool:
        """Whether its next validation is overdue."""
        return self.validation_due is not None and date.fromisoformat(self.validation_due) < today


class Lineage(_Part):
    """Training data, code and parameters; `source`: the origin of an imported model."""

    source: _Text | None = None
    data: _Text | None = None
    code: _Text | None = None
    parameters: dict[str, Any] = {}


class LatencyContract(_Part):
    """The latency that a promotion must prove: p99 and error share at a rate."""

    p99_ms: Annotated[float, Field(gt=0, le=60_000)]
    rate_per_s: Annotated[float, Field(gt=0, le=1_000_000)]
    error_budget: Annotated[float, Field(ge=0, lt=1)] = 0.001
    window_s: Annotated[float, Field(gt=0, le=600)] = 10.0
    repeats: Annotated[int, Field(ge=1, le=20)] = 3
    connections: Annotated[int, Field(ge=1, le=1000)] = 32


class Meta(_Part):
    """The content of `meta.json`."""

    format: Literal[1] = 1
    name: Name
    created: Annotated[
        str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$"), Allowed("a time, 2026-11-16T04:00:00Z")
    ]
    author: _Words
    kind: Literal["model", "decision"]
    models: Annotated[list[ModelSignature], Field(max_length=32)] = []
    references: Annotated[list[Reference], Field(max_length=15)] = []
    decision: DecisionDigests | None = None
    metrics: Annotated[dict[str, float | int | str], Field(max_length=256)] = {}
    lineage: Lineage = Lineage()
    card: Card = Card()
    contract: LatencyContract | None = None
    notes: _Text = ""

    def to_bytes(self) -> bytes:
        """The file's content."""
        return (self.model_dump_json(by_alias=True, indent=2) + "\n").encode()


def read_meta(content: bytes) -> Meta:
    """Parse a meta.json; raises with all faults."""
    try:
        return Meta.model_validate_json(content)
    except ValidationError as error:
        faults = faults_of(error, Meta)
        raise RegistryRefusedError(
            f"{META} has {len(faults)} faults", faults=faults, next_step="make packages by  flyball register"
        ) from error


def now_text(now: datetime | None = None) -> str:
    """A time in the format of signed documents."""
    return (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
