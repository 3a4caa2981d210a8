"""The acts of the admin API: `POST /v1/registry/NAME/ACT`, each one act of the registry by whoever the key says.

Private keys do not come here: `sign` and `approve` take what was signed elsewhere.
"""

from __future__ import annotations

import json
from typing import Annotated

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
from flyball.control.admin.reads import BUNDLE_TYPE, Versions
from flyball.registry.acts.interface import Candidate
from flyball.registry.packages import tar
from flyball.registry.views import ReceiptView

acts = APIRouter(prefix="/v1", tags=["acts"], route_class=ActRoute)

_NAMED = "/registry/{name}/"
_REFUSED = problems(400, 404, 408, 409, 413)
_UPLOAD_REFUSED = problems(404, 408, 409, 413, 415)
_Reason = Annotated[str, Query(max_length=4096, description="why, for whoever reads the history later")]


@acts.post(
    _NAMED + "register",
    responses=_UPLOAD_REFUSED,
    summary="Register a package as the next version",
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "a tar of the package's folder: plain files, meta.json among them",
            "content": {tar.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def register(  # noqa: PLR0917 - FastAPI reads a route's parts from its parameters
    request: Request,
    registry: Registry,
    bodies: Bodies,
    name: NameInPath,
    actor: Asking,
    reason: _Reason = "",
) -> ReceiptView:
    """The files are scanned and kept by their digests. `flyball register` makes the folder and sends it."""
    async with bodies.received(request, tar.MEDIA_TYPE) as (body, folder):

        def kept() -> ReceiptView:
            with body.open("rb") as file:
                tar.read(file, folder, bodies.bytes_max)
            return registry.register(folder, name, actor=actor, reason=reason)

        return await run_in_threadpool(kept)


@acts.post(
    "/import",
    responses=_UPLOAD_REFUSED,
    summary="Import a version from a signed file",
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "a file that `flyball registry export` wrote",
            "content": {BUNDLE_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def import_file(
    request: Request,
    registry: Registry,
    bodies: Bodies,
    actor: Asking,
    reason: _Reason = "",
) -> Versions:
    """Everything in it is verified before anything is kept. Answers with the versions that are new here."""
    async with bodies.received(request, BUNDLE_TYPE) as (body, _):
        taken = await run_in_threadpool(lambda: registry.import_file(body, actor=actor, reason=reason))
    return Versions(versions=taken)


@acts.post(_NAMED + "sign", responses=_REFUSED, summary="Hand over the signatures of a version")
def sign(registry: Registry, name: NameInPath, body: SignBody, actor: Asking) -> ReceiptView:
    """Both were made where the key is; both are verified here against the trust policy and the files that are kept."""
    bundle, release = json.dumps(body.bundle).encode(), json.dumps(body.release).encode()
    return registry.sign(f"{name}@{body.version}", bundle=bundle, release=release, actor=actor, reason=body.reason)


@acts.post(_NAMED + "approve", responses=_REFUSED, summary="Approve a version")
def approve(registry: Registry, name: NameInPath, body: ApproveBody, actor: Asking) -> ReceiptView:
    """Takes an approver's own signature over the release. The author of a version cannot approve it."""
    ref = f"{name}@{body.version}"
    return registry.approve(ref, signature=body.signature, key=body.key, actor=actor, reason=body.reason)


@acts.post(_NAMED + "reject", responses=_REFUSED, summary="Reject a version")
def reject(registry: Registry, name: NameInPath, body: ReasonedBody, actor: Asking) -> ReceiptView:
    """It is placed nowhere from then on; its author may sign it again once what was wrong is settled."""
    return registry.reject(f"{name}@{body.version}", actor=actor, reason=body.reason)


@acts.post(_NAMED + "promote", responses=_REFUSED, summary="Place a version in an environment")
def promote(
    registry: Registry,
    name: NameInPath,
    body: PromoteBody,
    actor: Asking,
    _: Annotated[None, one_of(4, "promotions")],
) -> ReceiptView:
    """Runs the gates first, and answers with what each of them found. With `candidate`, beside what is placed."""
    tried = None if body.candidate is None else Candidate(body.candidate.share, body.candidate.shadow)
    return registry.promote(
        f"{name}@{body.version}",
        body.environment,
        actor=actor,
        reason=body.reason,
        candidate=tried,
        break_glass=body.break_glass,
    )


@acts.post(_NAMED + "rollback", responses=_REFUSED, summary="Put back what was served before")
def rollback(registry: Registry, name: NameInPath, body: RollbackBody, actor: Asking) -> ReceiptView:
    """One event. Servers keep the version before warm, so that it answers again within a second."""
    return registry.rollback(name, body.environment, actor=actor, reason=body.reason, to=body.to)


@acts.post(_NAMED + "alias", responses=_REFUSED, summary="Move an alias")
def alias(registry: Registry, name: NameInPath, body: AliasBody, actor: Asking) -> ReceiptView:
    """Its history is kept. Names of environments are not aliases: what is placed there is promoted."""
    return registry.alias(name, body.alias, body.version, actor=actor, reason=body.reason)


@acts.post(_NAMED + "revoke", responses=_REFUSED, summary="Take a version back for good")
def revoke(registry: Registry, name: NameInPath, body: RevokeBody, actor: Asking) -> ReceiptView:
    """Nothing serves it again. Where it serves now, `stop` must say that this is meant."""
    return registry.revoke(f"{name}@{body.version}", actor=actor, reason=body.reason, stop=body.stop)


@acts.post(_NAMED + "retire", responses=_REFUSED, summary="End a version that nothing serves")
def retire(registry: Registry, name: NameInPath, body: VersionBody, actor: Asking) -> ReceiptView:
    """Its history stays."""
    return registry.retire(f"{name}@{body.version}", actor=actor, reason=body.reason)


@acts.post("/nodes/forget", responses=_REFUSED, summary="Forget a server that is gone")
def forget(registry: Registry, body: ForgetBody, actor: Asking) -> ReceiptView:
    """One that was not heard of for five minutes. What it served while it was there stays in the history."""
    return registry.forget(body.node, actor=actor, reason=body.reason)
