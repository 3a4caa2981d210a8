"""The acts of the admin API: `POST /v1/registry/NAME/ACT`, each by the API key's owner.

Private keys are never sent: `sign` and `approve` take signatures that were made elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool

from flyball.control.admin.act_route import ActRoute, Asking
from flyball.control.admin.bodies import (
    AliasBody,
    ApproveBody,
    ForgetBody,
    PromoteBody,
    ReasonedBody,
    RevokeBody,
    RollbackBody,
    SignBody,
    VersionBody,
)
from flyball.control.admin.context import Bodies, NameInPath, Registry, one_of, problems
from flyball.control.admin.reads import Versions
from flyball.registry.acts.interface import Candidate
from flyball.registry.packages import tar
from flyball.registry.remote.registry import BUNDLE_TYPE
from flyball.registry.views import ReceiptView

_Handler = TypeVar("_Handler", bound=Callable[..., Any])

acts = APIRouter(prefix="/v1", tags=["acts"], route_class=ActRoute)

_NAMED = "/registry/{name}/"
_Reason = Annotated[str, Query(max_length=4096, description="why, for later readers of the history")]


def _act(path: str, summary: str) -> Callable[[_Handler], _Handler]:
    return acts.post(path, responses=problems(400, 404, 408, 409, 413), summary=summary)


def _upload(path: str, summary: str, media_type: str, description: str) -> Callable[[_Handler], _Handler]:
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    body = {"requestBody": {"required": True, "description": description, "content": content}}
    return acts.post(path, responses=problems(404, 408, 409, 413, 415), summary=summary, openapi_extra=body)


@_upload(
    _NAMED + "register",
    "Register a package as the next version",
    tar.MEDIA_TYPE,
    "a tar of the package's folder: plain files, including meta.json",
)
async def register(  # noqa: PLR0917 - FastAPI reads a route's parts from its parameters
    request: Request,
    registry: Registry,
    bodies: Bodies,
    name: NameInPath,
    actor: Asking,
    reason: _Reason = "",
) -> ReceiptView:
    """Scans the files and stores them by digest. `flyball register` makes the folder and sends it."""
    async with bodies.received(request, tar.MEDIA_TYPE) as (body, folder):

        def kept() -> ReceiptView:
            with body.open("rb") as file:
                tar.read(file, folder, bodies.bytes_max)
            return registry.register(folder, name, actor=actor, reason=reason)

        return await run_in_threadpool(kept)


@_upload("/import", "Import a version from a signed file", BUNDLE_TYPE, "a file that `flyball registry export` wrote")
async def import_file(
    request: Request,
    registry: Registry,
    bodies: Bodies,
    actor: Asking,
    reason: _Reason = "",
) -> Versions:
    """Verifies everything before storing anything. Returns the new versions."""
    async with bodies.received(request, BUNDLE_TYPE) as (body, _):
        taken = await run_in_threadpool(lambda: registry.import_file(body, actor=actor, reason=reason))
    return Versions(versions=taken)


@_act(_NAMED + "sign", "Submit the signatures of a version")
def sign(registry: Registry, name: NameInPath, body: SignBody, actor: Asking) -> ReceiptView:
    """Verifies both signatures, made on the signer's machine, against the trust policy and the stored files."""
    bundle, release = json.dumps(body.bundle).encode(), json.dumps(body.release).encode()
    return registry.sign(f"{name}@{body.version}", bundle=bundle, release=release, actor=actor, reason=body.reason)


@_act(_NAMED + "approve", "Approve a version")
def approve(registry: Registry, name: NameInPath, body: ApproveBody, actor: Asking) -> ReceiptView:
    """Takes an approver's signature over the release. Authors cannot approve their own versions."""
    ref = f"{name}@{body.version}"
    return registry.approve(ref, signature=body.signature, key=body.key, actor=actor, reason=body.reason)


@_act(_NAMED + "reject", "Reject a version")
def reject(registry: Registry, name: NameInPath, body: ReasonedBody, actor: Asking) -> ReceiptView:
    """It can no longer be promoted, until its author signs it again."""
    return registry.reject(f"{name}@{body.version}", actor=actor, reason=body.reason)


@_act(_NAMED + "promote", "Place a version in an environment")
def promote(
    registry: Registry,
    name: NameInPath,
    body: PromoteBody,
    actor: Asking,
    _: Annotated[None, one_of(4, "promotions")],
) -> ReceiptView:
    """Runs the gates first and returns their results. With `candidate`, the champion stays."""
    tried = None if body.candidate is None else Candidate(body.candidate.share, body.candidate.shadow)
    return registry.promote(
        f"{name}@{body.version}",
        body.environment,
        actor=actor,
        reason=body.reason,
        candidate=tried,
        break_glass=body.break_glass,
    )


@_act(_NAMED + "rollback", "Roll an environment back")
def rollback(registry: Registry, name: NameInPath, body: RollbackBody, actor: Asking) -> ReceiptView:
    """One event. Servers keep the previous version warm, so that it serves again within a second."""
    return registry.rollback(name, body.environment, actor=actor, reason=body.reason, to=body.to)


@_act(_NAMED + "alias", "Move an alias")
def alias(registry: Registry, name: NameInPath, body: AliasBody, actor: Asking) -> ReceiptView:
    """Its history stays. Names of environments cannot be aliases: use promote."""
    return registry.alias(name, body.alias, body.version, actor=actor, reason=body.reason)


@_act(_NAMED + "revoke", "Revoke a version permanently")
def revoke(registry: Registry, name: NameInPath, body: RevokeBody, actor: Asking) -> ReceiptView:
    """It never serves again. If it serves now, `stop` is required."""
    return registry.revoke(f"{name}@{body.version}", actor=actor, reason=body.reason, stop=body.stop)


@_act(_NAMED + "retire", "Retire a version that nothing serves")
def retire(registry: Registry, name: NameInPath, body: VersionBody, actor: Asking) -> ReceiptView:
    """Its history stays."""
    return registry.retire(f"{name}@{body.version}", actor=actor, reason=body.reason)


@_act("/nodes/forget", "Forget a server that is gone")
def forget(registry: Registry, body: ForgetBody, actor: Asking) -> ReceiptView:
    """It must have been silent for five minutes. Its history stays."""
    return registry.forget(body.node, actor=actor, reason=body.reason)
