"""The Snapshot's documents as typed values: one index, and one document for each deployment.

They have the defaults that compilers write and readers see. What a document may say is checked by `crates/core`
(`flyball.documents.snapshot.check`), and described in docs/reference/snapshot.schema.json.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

FORMAT = 1
"""Readers refuse keys that they do not know, so a new key needs a new number."""

TIME_MS_MAX = 600_000
LABELS_MAX = 65_536
LABEL_CHARACTERS_MAX = 256
LABELLED_OUTPUTS_MAX = 64


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class IndexEntry(_Part):
    """Points from a deployment's name to the digest of its document's exact bytes."""

    name: str
    digest: str


class Checkpoint(_Part):
    """The end of a registry's chain of events."""

    sequence: int
    hash: str


class Index(_Part):
    """All deployments of a snapshot, by digest, and where they come from."""

    format: int
    generation: int
    deployments: list[IndexEntry]
    registry: Checkpoint | None = None
    environment: str | None = None


class ExternalFile(_Part):
    """A file in the model's folder that holds some of its weights."""

    name: str
    digest: str


class Artifact(_Part):
    """A model's bytes, by path and digest."""

    path: str
    digest: str
    external_data: list[ExternalFile] = []


class ModelVersion(_Part):
    """One version of a deployment's model."""

    version: str
    artifact: Artifact


class Route(_Part):
    """Which version answers a request that names none."""

    version: str


class Limits(_Part):
    """Bounds on what one deployment may take."""

    in_flight_max: int = 1024
    batch_rows_max: int = 64
    concurrency_max: int = 256
    queue_wait_ms_max: int = 1000
    run_ms_max: int = 10_000
    share: int = 100


class Slo(_Part):
    """What the deployment promises to callers who ask for nothing themselves."""

    deadline_ms: int | None = None


class BatchWait(_Part):
    """Wait up to `window_ms` for `size` rows before a run."""

    size: int
    window_ms: int


class Terms(_Part):
    """What a deployment says beside its versions: what the compiler is told for all of its models."""

    limits: Limits = Limits()
    slo: Slo = Slo()
    batch: BatchWait | None = None


class Package(_Part):
    """A folder of files that is signed as a whole. Every model of a signed deployment lies in one."""

    name: str
    version: int
    folder: str
    bundle: dict[str, Any]


class Signed(_Part):
    """A version of a registry, with what its signers and approvers said about it."""

    name: str
    version: int
    packages: list[Package]
    release: dict[str, Any]


class Candidate(_Part):
    """A version that is to replace the deployment's, tried on some of its requests."""

    share: float
    shadow: bool
    decision: dict[str, Any] | None = None
    signed: Signed | None = None
    versions: list[ModelVersion]


class Deployment(Terms):
    """One deployment: its versions and their terms, what is decided with them, who signed it, and what is tried beside."""

    format: int
    name: str
    route: Route
    versions: list[ModelVersion]
    labels: dict[str, list[str]] = {}
    decision: dict[str, Any] | None = None
    signed: Signed | None = None
    candidate: Candidate | None = None
