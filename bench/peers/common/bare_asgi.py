"""A bare ASGI application and its server: uvicorn with uvloop and httptools, orjson, no framework.

The fastest way to answer in Python that these peers found. With batches the requests that one turn of the event loop has
read are answered by one run of the model, so that none of them waits. Must not know which model it serves.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Protocol

import uvicorn
from json_codecs import codec
from serving import UVICORN, say_ready_when

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from serving import Serving

    Message = dict[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

    class Model(Protocol):
        """What answers V2 documents."""

        def infer(self, document: dict[str, Any]) -> dict[str, Any]:
            """One answer."""

        def infer_many(self, documents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
            """The answers from one run."""


_MODEL, _BATCH = "PEER_MODEL", "PEER_MAX_BATCH"  # each worker process makes the application anew and finds both here
_READY = "/v2/health/ready"
_JSON = (b"content-type", b"application/json")
_loads, _dumps = codec("orjson")


class App:
    """Answers V2 JSON at one path."""

    def __init__(self, model: Model, path: str, max_batch: int) -> None:
        self._model, self._path, self._max_batch = model, path, max_batch
        self._waiting: list[tuple[dict[str, Any], asyncio.Future[dict[str, Any]]]] = []

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["path"] != self._path:
            await _reply(send, 200 if scope["path"] == _READY else 404, b"{}")
            return
        body = await _body(receive)
        if body is None:
            return
        document = _loads(body)
        await _reply(
            send, 200, _dumps(self._model.infer(document) if self._max_batch == 1 else await self._joined(document))
        )

    def _joined(self, document: dict[str, Any]) -> asyncio.Future[dict[str, Any]]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[dict[str, Any]] = loop.create_future()
        self._waiting.append((document, answer))
        if len(self._waiting) == 1:
            loop.call_soon(self._run)
        return answer

    def _run(self) -> None:
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), self._max_batch):
            batch = waiting[start : start + self._max_batch]
            try:
                answers = self._model.infer_many([document for document, _ in batch])
            except Exception as error:
                for _, answer in batch:
                    if not answer.done():  # a caller that was cancelled
                        answer.set_exception(error)
                continue
            for (_, answer), document in zip(batch, answers, strict=True):
                if not answer.done():
                    answer.set_result(document)


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None if the client disconnected before its end."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def _reply(send: Send, status: int, body: bytes) -> None:
    head = [_JSON, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


def make_app(load: Callable[[str], Model]) -> App:
    """The application with a model of its own, in a worker process."""
    name, _, path = os.environ[_MODEL].partition("=")
    return App(load(path), f"/v2/models/{name}/infer", int(os.environ[_BATCH]))


def serve(serving: Serving) -> None:
    """Serve the application that `serve.py` of the peer makes in `make_app`, until terminated."""
    say_ready_when(serving.port, _READY)
    os.environ[_MODEL] = f"{serving.name}={serving.model}"
    os.environ[_BATCH] = str(serving.max_batch or 1)
    bare = {"ws": "none", "lifespan": "off", "interface": "asgi3"}
    uvicorn.run("serve:make_app", port=serving.port, workers=serving.workers, **bare, **UVICORN)
