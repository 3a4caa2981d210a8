"""The Snapshot as pydantic models: one index, and one document for each deployment.

The Rust type is `crates/core`'s; golden files hold both to the same faults, and docs/reference/snapshot-v5.schema.json
is exported from here. A new key needs a new FORMAT: readers refuse keys that they do not know. `First…` is format 1,
`Second…` format 2, `Third…` format 3, `Fourth…` format 4.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from flyball.documents.faults import Allowed
from flyball.documents.field_types import Digest, Name, VersionNumber

FORMAT = 5
"""The newest format. Readers take it and those before; a document is written as the oldest that can say the same."""
FORMAT_OLDEST = 1

TIME_MS_MAX = 600_000
GENERATION_MAX = 9_007_199_254_740_991  # 2^53 - 1: the last integer that every JSON reader keeps exactly

Version = Annotated[
    str, Field(pattern=r"^[1-9][0-9]{0,8}$"), Allowed('a decimal string, "1" to "999999999", without leading zeros')
]
FileName = Annotated[
    str,
    Field(pattern=r"^(?:[^/\\\x00.]|\.[^/\\\x00.]|\.\.[^/\\\x00])[^/\\\x00]*$"),
    Allowed('a plain file name: no "/" or "\\", not "." or ".."'),
]
Format = Annotated[
    int,
    Field(ge=FORMAT_OLDEST, le=FORMAT),
    Allowed(f"{FORMAT_OLDEST} to {FORMAT}, the formats that this reader knows"),
]
PACKAGES_MAX = 16
LABELS_MAX = 65_536
LABEL_CHARACTERS_MAX = 256
LABELLED_OUTPUTS_MAX = 64
Label = Annotated[str, Field(max_length=LABEL_CHARACTERS_MAX), Allowed(f"a text of 0 to {LABEL_CHARACTERS_MAX} characters")]
Labels = Annotated[list[Label], Field(min_length=1, max_length=LABELS_MAX)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class IndexEntry(_Part):
    """Points from a deployment's name to the digest of its document's exact bytes."""

    name: Name = Field(description="the deployment's name, unique in the index")
    digest: Digest = Field(description="sha256 of the deployment document's exact bytes")


class FirstIndex(_Part):
    """All deployments of a snapshot, by digest, as formats 1 to 4 know them."""

    format: Format = Field(description="the format number")
    generation: Annotated[int, Field(ge=1, le=GENERATION_MAX), Allowed(f"a whole number, 1 to {GENERATION_MAX}")] = Field(
        description="counts up with each compiled snapshot"
    )
    deployments: list[IndexEntry] = Field(max_length=1000, description="a list of 0 to 1000 deployments")


class Checkpoint(_Part):
    """The end of a registry's chain of events."""

    sequence: Annotated[int, Field(ge=0, le=GENERATION_MAX), Allowed(f"a whole number, 0 to {GENERATION_MAX}")] = Field(
        description="the number of the last event; 0 for none"
    )
    hash: Digest = Field(description="the last event's hash")


class Index(FirstIndex):
    """All deployments of a snapshot, by digest, and where they come from."""

    registry: Checkpoint | None = Field(
        default=None, description="an object: the last event of the registry that it was compiled from"
    )
    environment: Name | None = Field(
        default=None, description="what it was compiled for: servers of another environment refuse it"
    )


class ExternalFile(_Part):
    """A file in the model's folder that holds some of its weights."""

    name: FileName = Field(description="the file's name, in the folder of the model")
    digest: Digest = Field(description="sha256 of the file")


class Artifact(_Part):
    """A model's bytes, by place and digest."""

    path: Annotated[str, Field(min_length=1), Allowed("a path that is not empty")] = Field(
        description="relative to the index file's folder, or to the working directory for a snapshot in memory"
    )
    digest: Digest = Field(description="sha256 of the model file")
    external_data: list[ExternalFile] = Field(
        default=[], max_length=1000, description="a list of 0 to 1000 files that the model refers to"
    )


class ModelVersion(_Part):
    """One version of a deployment's model."""

    version: Version = Field(description="the version, unique in the deployment")
    artifact: Artifact = Field(description="where the model lies")


class Route(_Part):
    """Which version answers a request that names none."""

    version: Version = Field(description="one of the deployment's versions")


class FirstLimits(_Part):
    """Bounds on what one deployment may take, as format 1 knows them."""

    in_flight_max: Annotated[int, Field(ge=1, le=65536), Allowed("a whole number, 1 to 65536")] = Field(
        default=1024, description="requests of this deployment in the server at once"
    )
    batch_rows_max: Annotated[int, Field(ge=1, le=1024), Allowed("a whole number, 1 to 1024")] = Field(
        default=64, description="rows of one run; 1 switches batching off"
    )


class Limits(FirstLimits):
    """Bounds on what one deployment may take."""

    concurrency_max: Annotated[int, Field(ge=1, le=256), Allowed("a whole number, 1 to 256")] = Field(
        default=256, description="runs of one version at once; never more than there are lanes"
    )
    queue_wait_ms_max: Annotated[int, Field(ge=1, le=TIME_MS_MAX), Allowed(f"a whole number, 1 to {TIME_MS_MAX}")] = Field(
        default=1000, description="a request that is predicted to wait longer is refused at the door"
    )
    run_ms_max: Annotated[int, Field(ge=10, le=TIME_MS_MAX), Allowed(f"a whole number, 10 to {TIME_MS_MAX}")] = Field(
        default=10_000, description="a run that takes longer is stopped"
    )
    share: Annotated[int, Field(ge=1, le=10_000), Allowed("a whole number, 1 to 10000")] = Field(
        default=100, description="its part of a lane's time when several models want it, in proportion to theirs"
    )


class Slo(_Part):
    """What the deployment promises to callers who ask for nothing themselves."""

    deadline_ms: Annotated[
        int | None, Field(ge=1, le=TIME_MS_MAX), Allowed(f"null, or a whole number, 1 to {TIME_MS_MAX}")
    ] = Field(default=None, description="the deadline of requests that bring none; null for none")


class BatchWait(_Part):
    """Wait a little for more rows before a run."""

    size: Annotated[int, Field(ge=2, le=1024), Allowed("a whole number, 2 to 1024")] = Field(
        description="rows to wait for; at most the limit batch_rows_max"
    )
    window_ms: Annotated[int, Field(ge=1, le=1000), Allowed("a whole number, 1 to 1000")] = Field(
        description="the longest wait for them"
    )


class Terms(_Part):
    """What a deployment says beside its versions: what the compiler is told for all of its models."""

    limits: Limits = Limits()
    slo: Slo = Slo()
    batch: BatchWait | None = None


class FirstDeployment(_Part):
    """One deployment, as format 1 knows it."""

    format: Format = Field(description="the format number")
    name: Name = Field(description="the deployment's name, as in the index")
    route: Route = Field(description="an object: which version answers")
    versions: list[ModelVersion] = Field(min_length=1, max_length=16, description="a list of 1 to 16 versions")
    limits: FirstLimits = Field(default=FirstLimits(), description="an object: bounds of this deployment")


class SecondDeployment(FirstDeployment):
    """One deployment, as format 2 knows it."""

    limits: Limits = Field(default=Limits(), description="an object: bounds of this deployment")
    slo: Slo = Field(default=Slo(), description="an object: what callers may expect")
    batch: BatchWait | None = Field(
        default=None, description="an object: the rows that a run waits for; null to run what is ready, never to wait"
    )


class ThirdDeployment(SecondDeployment):
    """One deployment, as format 3 knows it."""

    labels: dict[str, Labels] = Field(
        default={},
        max_length=LABELLED_OUTPUTS_MAX,
        description=f"an object: for up to {LABELLED_OUTPUTS_MAX} outputs, what their classes are called, in their order",
    )


class FourthDeployment(ThirdDeployment):
    """One deployment, as format 4 knows it."""

    decision: dict[str, Any] | None = Field(
        default=None,
        description="an object: what is decided with its models, which has checks of its own; null to serve models as such",
    )


class Package(_Part):
    """A folder of files that is signed as a whole. Every model of a signed deployment lies in one."""

    name: Name = Field(description="the version's name in the registry")
    version: VersionNumber = Field(description="the version's number in the registry")
    folder: Annotated[str, Field(min_length=1), Allowed("a path that is not empty")] = Field(
        description="where its files lie: relative as the paths of models are, or absolute"
    )
    bundle: dict[str, Any] = Field(description="an object: the OpenSSF Model Signing bundle over its files")


class Signed(_Part):
    """A version of a registry, with what its signers and approvers said about it."""

    name: Name = Field(description="the version's name in the registry: the deployment's")
    version: VersionNumber = Field(description="the version's number in the registry")
    packages: list[Package] = Field(
        min_length=1,
        max_length=PACKAGES_MAX,
        description=f"a list of 1 to {PACKAGES_MAX} packages: its own, and those that it refers to",
    )
    release: dict[str, Any] = Field(description="an object: the signed release statement, a DSSE envelope")


class Candidate(_Part):
    """A version that is to replace the deployment's, tried on some of its requests."""

    share: Annotated[float, Field(ge=0, le=1), Allowed("a number, 0 to 1")] = Field(
        description="its part of the requests; of those that are run twice where it is a shadow"
    )
    shadow: bool = Field(description="whether it answers nobody, and is only run and recorded")
    decision: dict[str, Any] | None = Field(
        default=None, description="an object: the candidate's whole decision, where the deployment decides"
    )
    signed: Signed | None = Field(default=None, description="an object: what says that it may be served")
    versions: list[ModelVersion] = Field(
        min_length=1, max_length=16, description="a list of 1 to 16 versions; no number stands in the deployment's own list"
    )


class Deployment(FourthDeployment):
    """One deployment: its versions and their terms, what is decided with them, who signed it, and what is tried beside."""

    versions: list[ModelVersion] = Field(
        max_length=16, description="a list of 1 to 16 versions; empty for a decision without a model"
    )
    signed: Signed | None = Field(default=None, description="an object: what says that it may be served; null for nothing")
    candidate: Candidate | None = Field(default=None, description="an object: what is tried beside it; null for nothing")
