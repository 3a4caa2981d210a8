"""FastAPI and ONNX Runtime by hand: uvicorn with uvloop and httptools, one process per core, no batching.

The endpoint reads the body and writes the answer itself, by orjson or msgspec, on the event loop (`async def`) or in the
thread pool (`def`); peers.settings lists the four styles, and the fastest on the machine is measured.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import uvicorn
from fastapi import Depends, FastAPI, Request, Response
from json_codecs import codec
from onnx_model import OnnxModel
from serving import UVICORN, arguments, say_ready_when

if TYPE_CHECKING:
    from serving import Serving

_MODEL, _STYLE = "PEER_MODEL", "PEER_STYLE"  # each worker process makes the application anew and finds both here
_USUAL = "orjson, async def"


async def body_of(request: Request) -> bytes:
    """The body, for an endpoint in the thread pool, which cannot wait for it."""
    return await request.body()


def make_app() -> FastAPI:
    """The application with its own session."""
    name, _, path = os.environ[_MODEL].partition("=")
    json_of, _, kind = os.environ[_STYLE].partition(", ")
    if kind not in ("def", "async def"):
        raise ValueError(f"unknown style '{os.environ[_STYLE]}'; allowed: a JSON codec, then ', def' or ', async def'")
    loads, dumps = codec(json_of)
    model = OnnxModel(path)
    app = FastAPI()

    @app.get("/v2/health/ready")
    async def ready() -> dict[str, bool]:
        return {"ready": True}

    def answer(body: bytes) -> Response:
        # Bytes rather than a dict: FastAPI would walk the whole document twice more.
        return Response(dumps(model.infer(loads(body))), media_type="application/json")

    path = f"/v2/models/{name}/infer"
    if kind == "def":

        @app.post(path)
        def infer_in_the_pool(body: Annotated[bytes, Depends(body_of)]) -> Response:
            return answer(body)

    else:

        @app.post(path)
        async def infer_on_the_loop(request: Request) -> Response:
            return answer(await request.body())

    return app


def main(serving: Serving) -> None:
    """Serve until terminated."""
    say_ready_when(serving.port, "/v2/health/ready")
    os.environ[_MODEL] = f"{serving.name}={serving.model}"
    os.environ[_STYLE] = serving.style or _USUAL
    uvicorn.run("serve:make_app", port=serving.port, workers=serving.workers, **UVICORN)


if __name__ == "__main__":
    main(arguments())
