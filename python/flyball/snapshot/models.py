"""The Snapshot as pydantic models: one index, and one document for each deployment.

The Rust type is `crates/core`'s; golden files hold both to the same faults, and docs/reference/snapshot-v4.schema.json
is exported from here. A new key needs a new FORMAT: readers refuse keys that they do not know. `First…` is format 1,
`Second…` format 2, `Third…` format 3.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from flyball.faults import Allowed

FORMAT = 4
"""The newest format. Readers take it and those before; a document is written as the oldest that can say the same."""
FORMAT_OLDEST = 1

NAME_PATTERN = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$"
TIME_MS_MAX = 600_000
GENERATION_MAX = 9_007_199_254_740_991  # 2^53 - 1: the last integer that every JSON reader keeps exactly

Name = Annotated[str, Field(pattern=NAME_PATTERN), Allowed("1 to 128 of A-Z a-z 0-9 . _ - and not beginning with a dot")]
Version = Annotated[
    str, Field(pattern=r"^[1-9][0-9]{0,8}$"), Allowed('a decimal string, "1" to "999999999", without leading zeros')
]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$"), Allowed('"sha256:" and 64 lower-case hex digits')]
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


class Index(_Part):
    """All deployments of a snapshot, by digest."""

    format: Format = Field(description="the format number")
    generation: Annotated[int, Field(ge=1, le=GENERATION_MAX), Allowed(f"a whole number, 1 to {GENERATION_MAX}")] = Field(
        description="counts up with each compiled snapshot"
    )
    deployments: list[IndexEntry] = Field(max_length=1000, description="a list of 0 to 1000 deployments")


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


class Deployment(ThirdDeployment):
    """One deployment: its versions, the route to them, its terms, what its classes are called, and what is decided."""

    decision: dict[str, Any] | None = Field(
        default=None,
        description="an object: what is decided with its models, which has checks of its own; null to serve models as such",
    )
