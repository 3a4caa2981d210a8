"""The reads of the admin API: names, versions, status, time travel, history, verification.

Each makes one call of the registry. Every key may read, except the whole log and its verification, which need an auditor.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query
from fastapi.responses import FileResponse, Response
from pydantic import BaseModel, Field
from starlette.background import BackgroundTask

from flyball.control.admin.context import (
    Bodies,
    NameInPath,
    Registry,
    VersionInPath,
    admitted,
    may,
    one_of,
    problems,
)
from flyball.control.admin.uploads import PREFIX
from flyball.documents.names import NAME_PATTERN
from flyball.registry.acts.interface import Actor
from flyball.registry.packages import tar
from flyball.registry.views import (
    EventView,
    Head,
    MomentView,
    NameView,
    StatementView,
    StatusView,
    VerifiedView,
    VersionDetail,
    VersionView,
)

PAGE_MAX = 1000
_SEQUENCE_MAX = 2**53
_NUMBER_MAX = 2**31 - 1

_Handler = TypeVar("_Handler", bound=Callable[..., Any])

reads = APIRouter(prefix="/v1", tags=["questions"])

_Limit = Annotated[int, Query(ge=1, le=PAGE_MAX, description="maximum number of results")]
_OneName = Annotated[str | None, Query(min_length=1, max_length=128, pattern=NAME_PATTERN, description="only this name")]


def _question(
    path: str, summary: str, *statuses: int, act: str = "read", answer: dict[str, Any] | None = None, **more: Any
) -> Callable[[_Handler], _Handler]:
    """The decorator of a read; `answer` describes a 200 response that is no JSON model."""
    responses = problems(*statuses) | ({200: answer} if answer else {})
    return reads.get(path, responses=responses, dependencies=[may(act)], summary=summary, **more)


class Names(BaseModel):
    """A page of names; pass the last name as `after` for the next page."""

    names: list[NameView]


class Versions(BaseModel):
    """A page of versions, newest first; pass the last number as `before` for the next page."""

    versions: list[VersionView]


class Events(BaseModel):
    """A page of events, oldest first; pass the last sequence as `after` for the next page."""

    events: list[EventView]


class Caller(BaseModel):
    """The owner of the API key."""

    name: str = Field(examples=["ada"])
    roles: list[str] = Field(examples=[["deployer"]])


@reads.get("/whoami", responses=problems(), summary="The owner and roles of the API key")
def whoami(actor: Annotated[Actor, Depends(admitted("read"))]) -> Caller:
    """Use it to test a new key."""
    return Caller(name=actor.name, roles=sorted(actor.roles))


@_question("/head", "The last event")
def head(registry: Registry) -> Head:
    """Store it elsewhere, to detect later whether the log was changed or truncated."""
    return registry.head()


@_question("/registry", "All names")
def names(
    registry: Registry,
    after: Annotated[str | None, Query(max_length=128, pattern=NAME_PATTERN, description="names after this one")] = None,
    limit: _Limit = 100,
) -> Names:
    """Each with its newest version and placements, sorted by name."""
    return Names(names=registry.names(after=after, limit=limit))


@_question("/registry/{name}", "The versions of a name", 404)
def versions(
    registry: Registry,
    name: NameInPath,
    before: Annotated[int | None, Query(ge=1, le=_NUMBER_MAX, description="older than this number")] = None,
    limit: _Limit = 100,
) -> Versions:
    """Newest first, with state, signer and approvals."""
    return Versions(versions=registry.versions(name, before=before, limit=limit))


# A signed document is answered as its exact bytes, so the schema says only that it is an object.
_DOCUMENT: Any = {
    "answer": {"description": "the document", "content": {"application/json": {"schema": {"type": "object"}}}},
    "response_class": Response,
}
_VERSION = "/registry/{name}/versions/{version}"


@_question(_VERSION, "One version", 404)
def version(registry: Registry, name: NameInPath, version: VersionInPath) -> VersionDetail:
    """With its card, files and digests: everything that a signer or approver should review."""
    return registry.show(f"{name}@{version}")


@_question(_VERSION + "/release", "The release statement of a version", 404, **_DOCUMENT)
def release(registry: Registry, name: NameInPath, version: VersionInPath) -> Response:
    """A DSSE envelope. Approvers sign its payload on their own machine, and send the signature to `approve`."""
    return Response(registry.release(f"{name}@{version}"), media_type="application/json")


@_question(_VERSION + "/statement", "The required content of a release", 404)
def statement(registry: Registry, name: NameInPath, version: VersionInPath) -> StatementView:
    """For signers: they add environments and validity, and sign on their own machine."""
    return registry.statement(f"{name}@{version}")


@_question(_VERSION + "/bundle", "The signature over a version's files", 404, **_DOCUMENT)
def bundle(registry: Registry, name: NameInPath, version: VersionInPath) -> Response:
    """An OpenSSF Model Signing bundle, which the public `model-signing` tool verifies, too."""
    return Response(registry.bundle(f"{name}@{version}"), media_type="application/json")


@_question(
    _VERSION + "/package",
    "The files of a version",
    404,
    answer={"description": "the files", "content": {tar.MEDIA_TYPE: {}}},
    response_class=FileResponse,
)
def package(registry: Registry, bodies: Bodies, name: NameInPath, version: VersionInPath) -> FileResponse:
    """A plain tar without owners and times; `flyball registry fetch` verifies every byte."""
    made = tempfile.TemporaryDirectory(prefix=PREFIX, dir=bodies.folder)
    out = Path(made.name, "package.tar")
    try:
        registry.fetch(f"{name}@{version}", Path(made.name, "files"))
        with out.open("xb") as file:
            tar.write(Path(made.name, "files"), file)
    except BaseException:
        made.cleanup()
        raise
    return FileResponse(out, media_type=tar.MEDIA_TYPE, background=BackgroundTask(made.cleanup))


@_question("/registry/{name}/history", "The history of a name", 404)
def history(
    registry: Registry,
    name: NameInPath,
    after: Annotated[int, Query(ge=0, le=_SEQUENCE_MAX, description="events after this sequence number")] = 0,
    limit: _Limit = PAGE_MAX,
) -> Events:
    """Every event of a name, including refused acts."""
    return Events(events=registry.history(name, after=after, limit=limit))


@_question("/events", "The whole log", act="events")
def events(
    registry: Registry,
    after: Annotated[int, Query(ge=0, le=_SEQUENCE_MAX, description="events after this sequence number")] = 0,
    limit: _Limit = PAGE_MAX,
) -> Events:
    """Every event of every name, including keys and snapshots. For auditors."""
    return Events(events=registry.history(None, after=after, limit=limit))


@_question("/at", "What served at a time", 404)
def at(
    registry: Registry,
    time: Annotated[
        datetime | None,
        Query(description="RFC 3339, UTC without a zone; by default now", examples=["2026-03-01T12:00:00Z"]),
    ] = None,
    name: _OneName = None,
) -> MomentView:
    """Placements with actor, reason and approvals at that time."""
    return registry.at(time, name)


@_question("/status", "The current status", 404)
def status(registry: Registry, name: _OneName = None) -> StatusView:
    """Placements, servers' reports, and versions that wait for a signature or approvals."""
    return registry.status(name)


@_question("/verify", "Verify the registry", act="verify")
def verify(
    registry: Registry,
    _: Annotated[None, one_of(2, "checks of the whole log")],
    quick: Annotated[bool, Query(description="check only that artifacts exist, without reading them")] = False,
) -> VerifiedView:
    """Checks every link of the chain, every table against the events, and every artifact. For auditors."""
    return registry.verify(quick=quick)
