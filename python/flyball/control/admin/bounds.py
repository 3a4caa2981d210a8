"""Limits of a request before routing: request id, body size, and upload time.

An ASGI layer, because a body must be counted while it is read, and an act is logged once, with its response. Must not know
routes, keys or the registry.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException

from flyball.documents.log import log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES_MAX = 64 << 10
_CHUNK_WAIT_S = 30.0
_QUESTIONS = frozenset({"GET", "HEAD", "OPTIONS"})
_ID = re.compile(r"^[A-Za-z0-9._-]{1,64}$")


class Bounds:
    """Wraps the application. `larger`: body limits by path; None if the route itself counts.

    `failed` makes the response after an unexpected exception.
    """

    def __init__(
        self,
        app: ASGIApp,
        larger: Mapping[re.Pattern[str], int | None],
        failed: Callable[[Exception, str], ASGIApp],
        chunk_wait_s: float = _CHUNK_WAIT_S,
    ) -> None:
        self._app, self._larger, self._failed, self._chunk_wait_s = app, larger, failed, chunk_wait_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {key.lower(): value for key, value in scope["headers"]}
        request_id = _request_id(headers.get(b"x-request-id", b""))
        scope.setdefault("state", {})["request_id"] = request_id
        left = self._bytes_max(scope["path"])
        whole, answered, began = False, False, time.monotonic()

        async def bounded() -> Message:
            nonlocal left, whole
            if whole:
                return await receive()  # waits for a disconnect while the response is made
            try:
                message = await asyncio.wait_for(receive(), self._chunk_wait_s)
            except TimeoutError:
                raise HTTPException(408) from None
            whole = not message.get("more_body", False)
            if left is not None:
                left -= len(message.get("body", b""))
                if left < 0:
                    raise HTTPException(413)
            return message

        async def named(message: Any) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                _log_request(scope, request_id, message["status"], began)
                message["headers"] = [
                    *(pair for pair in message["headers"] if pair[0] != b"x-request-id"),
                    (b"x-request-id", request_id.encode()),
                ]
            await send(message)

        try:
            await self._app(scope, bounded, named)
        except Exception as error:
            if answered:
                raise
            await self._failed(error, request_id)(scope, bounded, named)

    def _bytes_max(self, path: str) -> int | None:
        for pattern, bytes_max in self._larger.items():
            if pattern.match(path):
                return bytes_max
        return BODY_BYTES_MAX


def _log_request(scope: Scope, request_id: str, status: int, began: float) -> None:
    """Log every act, and every refused read."""
    if scope["method"] in _QUESTIONS and status < 400:
        return
    log(
        "INFO" if status < 500 else "ERROR",
        "admin request",
        request_id=request_id,
        method=scope["method"],
        path=scope["path"][:200],
        status=status,
        actor=scope["state"].get("actor"),
        ms=round((time.monotonic() - began) * 1000),
    )


def _request_id(sent: bytes) -> str:
    """The caller's request id if valid, so that both logs can be joined."""
    text = sent.decode("latin-1")
    return text if _ID.match(text) else uuid.uuid4().hex
