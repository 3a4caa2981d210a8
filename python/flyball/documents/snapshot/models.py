"""The Snapshot's documents as types: one index, and one document per deployment, with defaults.

`crates/core` validates documents (`flyball.documents.snapshot.check`); docs/reference/snapshot.schema.json describes them.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

FORMAT = 1
"""Readers refuse unknown keys, so a new key needs a new number."""

TIME_MS_MAX = 600_000
LABELS_MAX = 65_536
LABEL_CHARACTERS_MAX = 256
LABELLED_OUTPUTS_MAX = 64
SHAPES_MAX = 256
RANK_MAX = 16


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class IndexEntry(_Part):
    """A deployment's name, and the digest of its document's exact bytes."""

    name: str
    digest: str


class Unavailable(_Part):
    """A model that is listed and not served; the reason is empty if nobody has loaded it."""

    name: str
    reason: str


class Checkpoint(_Part):
    """The end of a registry's chain of events."""

    sequence: int
    hash: str


class Index(_Part):
    """All deployments of a snapshot by digest, and the registry's checkpoint."""

    format: int
    generation: int
    deployments: list[IndexEntry]
    registry: Checkpoint | None = None
    environment: str | None = None
    unavailable: list[Unavailable] = []


class ExternalFile(_Part):
    """A file of external weights in the model's folder."""

    name: str
    digest: str


class Artifact(_Part):
    """A model file, by path and digest."""

    path: str
    digest: str
    external_data: list[ExternalFile] = []
    optional_inputs: list[str] = []
    """Inputs that are also constants of the model: clients may leave them out."""


class ModelVersion(_Part):
    """One version of a deployment's model."""

    version: str
    artifact: Artifact


class Route(_Part):
    """The version for requests that name none."""

    version: str


class Limits(_Part):
    """Resource limits of one deployment."""

    in_flight_max: int = 1024
    batch_rows_max: int = 64
    concurrency_max: int = 256
    queue_wait_ms_max: int = 1000
    run_ms_max: int = 10_000
    share: int = 100


class Slo(_Part):
    """Defaults for requests without their own deadline."""

    deadline_ms: int | None = None


class BatchWait(_Part):
    """Wait up to `window_ms` for `size` rows before a run."""

    size: int
    window_ms: int


class Terms(_Part):
    """A deployment's limits, deadline and batching."""

    limits: Limits = Limits()
    slo: Slo = Slo()
    batch: BatchWait | None = None


class Package(_Part):
    """A signed folder. Every model of a signed deployment is in one."""

    name: str
    version: int
    folder: str
    bundle: dict[str, Any]


class Signed(_Part):
    """A registry version with its packages, signatures and release."""

    name: str
    version: int
    packages: list[Package]
    release: dict[str, Any]


class Candidate(_Part):
    """A version tried beside the deployment's, on some of its requests."""

    share: float
    shadow: bool
    decision: dict[str, Any] | None = None
    signed: Signed | None = None
    versions: list[ModelVersion]


class ClientShape(_Part):
    """A tensor's shape for clients, and for the model; -1 is a free axis. `layout` is for image inputs."""

    client: list[int]
    model: list[int]
    layout: Literal["NCHW", "NHWC"] | None = None


class Deployment(Terms):
    """One deployment: versions, terms, decision, signatures and candidate."""

    format: int
    name: str
    route: Route
    versions: list[ModelVersion]
    labels: dict[str, list[str]] = {}
    shapes: dict[str, ClientShape] = {}
    decision: dict[str, Any] | None = None
    signed: Signed | None = None
    candidate: Candidate | None = None
