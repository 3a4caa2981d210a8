"""A route of an act: authorizes the caller before reading the body, and records every refusal.

FastAPI reads and validates a body before it runs dependencies, so both wrap the whole route. Must not know what the acts do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from flyball.control.admin.context import BEARER, gatekeeper_of, let_in, name_of
from flyball.control.admin.problems import refusal_of, status_of
from flyball.errors import FlyballError
from flyball.registry.acts.interface import Actor

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from fastapi import Response


class ActRoute(APIRoute):
    """A route whose last path segment names the act."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, guarded by authorization."""
        answer, act = super().get_route_handler(), self.path.rpartition("/")[2]

        async def guarded(request: Request) -> Response:
            request.state.asking = actor = await run_in_threadpool(let_in, request, act)
            try:
                return await answer(request)
            except (FlyballError, HTTPException, RequestValidationError) as error:
                refused = refusal_of(error)
                if refused is not None and not refused.recorded and status_of(refused) < 500:
                    await run_in_threadpool(gatekeeper_of(request).keep, refused, actor, act, name_of(request))
                raise

        return guarded


def _asking(request: Request, shown: Annotated[Any, Security(BEARER)]) -> Actor:
    del shown  # only for the OpenAPI document: the gatekeeper reads the header
    actor: Actor = request.state.asking
    return actor


Asking = Annotated[Actor, Depends(_asking)]
"""The authorized actor."""
