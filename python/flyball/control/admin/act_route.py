"""A route of an act: who asks is settled before the body is read, and whatever is refused leaves an event.

FastAPI reads and judges a body before it asks any dependency, so both stand around the whole route. Must not know what the
acts do.
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
    """The act's name is the end of its path."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's own, with somebody at the door."""
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
    del shown  # only for the OpenAPI document: the gatekeeper reads the header itself
    actor: Actor = request.state.asking
    return actor


Asking = Annotated[Actor, Depends(_asking)]
"""Whoever was let in."""
