"""Dependencies of all routes: the registry, the caller, and problems in the OpenAPI document.

Must not know single routes.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Path, Request, Security
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

from flyball.control.admin.bodies import NAME, VERSION
from flyball.control.admin.callers import Gatekeeper
from flyball.control.admin.problems import MEDIA_TYPE
from flyball.control.admin.uploads import Uploads, slot
from flyball.registry.acts.interface import Actor
from flyball.registry.local import LocalRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_RETRY_AFTER_S = 10.0
BEARER = HTTPBearer(
    auto_error=False, description="an API key, made on the registry's machine:  flyball registry key add NAME --role ROLE"
)


class ProblemFault(BaseModel):
    """One invalid part of a request."""

    path: str = Field(description="its path", examples=["body.environment"])
    found: Any = Field(alias="is", description="the value found")
    allowed: str = Field(description="the allowed values")


class Problem(BaseModel):
    """A refusal (RFC 9457): what was wrong, its stable code, and the next step."""

    model_config = ConfigDict(extra="forbid")

    type: str = Field(
        description="ends with the code; about:blank for plain HTTP errors", examples=["urn:flyball:fault:forbidden"]
    )
    title: str = Field(examples=["forbidden"])
    status: int = Field(examples=[403])
    detail: str = Field(examples=["grace may not promote: that needs the role deployer, and the key has approver"])
    request_id: str = Field(description="the request's id in the server's log")
    code: str | None = Field(
        default=None, description="stable; the same as in the command line's --json", examples=["forbidden"]
    )
    exit_code: int | None = Field(default=None, description="exit code of the command line", examples=[3])
    reason: str | None = Field(default=None, description="why a signature is refused, from a closed list")
    next: str | None = Field(default=None, description="the next step")
    faults: list[ProblemFault] | None = Field(default=None, description="all invalid parts of the request")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI responses for these statuses, and for those that every route has."""
    shown = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    return {status: {"description": _MEANINGS[status], **shown} for status in sorted({401, 403, 422, 500, 503, *statuses})}


_MEANINGS = {
    400: "the body is not JSON",
    401: "the API key is missing or unknown",
    403: "the key's roles do not allow this",
    404: "unknown name, version, alias or environment",
    408: "the body was not complete in time",
    409: "the registry's rules do not allow it now, or the name was changed concurrently",
    413: "the body is too large",
    415: "unsupported media type",
    422: "a field is invalid, or a signature does not verify",
    500: "an internal error; the server's log has the request's id",
    503: "the registry's database or artifacts are unreachable, or too many requests are in progress",
}


def _registry(request: Request) -> LocalRegistry:
    registry: LocalRegistry = request.app.state.registry
    return registry


def _uploads(request: Request) -> Uploads:
    uploads: Uploads = request.app.state.uploads
    return uploads


def admitted(act: str) -> Callable[..., Actor]:
    """A dependency that authorizes a read and returns the actor; acts use `ActRoute`."""

    def admit(request: Request, shown: Annotated[Any, Security(BEARER)]) -> Actor:
        del shown  # only for the OpenAPI document: the gatekeeper reads the header
        return let_in(request, act)

    return admit


def let_in(request: Request, act: str) -> Actor:
    """Authenticate and authorize the caller."""
    gatekeeper, name = gatekeeper_of(request), name_of(request)
    actor = gatekeeper.known(request.headers.get("authorization"), act, name)
    request.state.actor = actor.name  # for the log
    gatekeeper.check(actor, act, name)
    return actor


def gatekeeper_of(request: Request) -> Gatekeeper:
    """The application's gatekeeper."""
    gatekeeper: Gatekeeper = request.app.state.gatekeeper
    return gatekeeper


def name_of(request: Request) -> str:
    """The name in the path as sent; empty if there is none."""
    return str(request.path_params.get("name", ""))


def may(act: str) -> Any:
    """A dependency that authorizes, for routes that need no actor."""
    return Depends(admitted(act))


def one_of(most: int, what: str) -> Any:
    """A concurrency limit: long requests must leave threads for urgent rollbacks."""
    places = threading.Semaphore(most)

    def held() -> Iterator[None]:
        with slot(places, f"{most} {what} are in progress already", _RETRY_AFTER_S):
            yield

    return Depends(held)


Registry = Annotated[LocalRegistry, Depends(_registry)]
Bodies = Annotated[Uploads, Depends(_uploads)]
NameInPath = Annotated[str, Path(**NAME, examples=["fraud"])]
VersionInPath = Annotated[str, Path(**VERSION)]
