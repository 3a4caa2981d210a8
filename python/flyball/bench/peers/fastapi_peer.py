"""FastAPI + ONNX Runtime as a good engineer would write it: NumPy, one single-threaded session, uvloop, httptools.

Run:  python -m flyball.bench.peers.fastapi_peer NAME=MODEL.onnx --style def|async --port 0
Prints `ready http://127.0.0.1:PORT` once it accepts requests. One worker. The body is V2 JSON, like ours.
"""

from __future__ import annotations

import argparse
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse

_DTYPES: dict[str, Any] = {
    "BOOL": np.bool_,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP32": np.float32,
    "FP64": np.float64,
    "BYTES": np.object_,
}
_DATATYPES = {np.dtype(dtype): name for name, dtype in _DTYPES.items()}


class Model:
    """One session and the names of its outputs."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.outputs = [output.name for output in self.session.get_outputs()]

    def infer(self, body: dict[str, Any]) -> dict[str, Any]:
        """V2 JSON in, V2 JSON out."""
        feed = {
            tensor["name"]: np.array(tensor["data"], dtype=_DTYPES[tensor["datatype"]]).reshape(tensor["shape"])
            for tensor in body["inputs"]
        }
        arrays = self.session.run(self.outputs, feed)
        outputs = [
            {"name": name, "datatype": _DATATYPES[array.dtype], "shape": array.shape, "data": array.ravel().tolist()}
            for name, array in zip(self.outputs, arrays, strict=True)
        ]
        return {"model_name": "model", "id": body.get("id", ""), "outputs": outputs}


def make_app(models: dict[str, Model], style: str) -> FastAPI:
    """The application; `style` selects a `def` (thread pool) or `async def` (event loop) endpoint."""
    app = FastAPI()

    def answer(name: str, body: dict[str, Any]) -> JSONResponse:
        model = models.get(name)
        if model is None:
            raise HTTPException(404, f"no model {name}")
        # JSONResponse instead of a dict: FastAPI would traverse the whole answer once more.
        return JSONResponse(model.infer(body))

    if style == "async":

        @app.post("/v2/models/{name}/infer")
        async def infer_on_the_loop(name: str, request: Request) -> JSONResponse:
            return answer(name, await request.json())

    else:

        @app.post("/v2/models/{name}/infer")
        def infer_in_the_pool(name: str, body: dict[str, Any]) -> JSONResponse:
            return answer(name, body)

    return app


def main() -> None:
    """Serve until terminated."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", help="NAME=MODEL.onnx")
    parser.add_argument("--style", choices=["def", "async"], default="def")
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    name, _, path = arguments.model.partition("=")
    app = make_app({name: Model(Path(path))}, arguments.style)
    listener = socket.create_server(("127.0.0.1", arguments.port), backlog=1024)
    config = uvicorn.Config(app, loop="uvloop", http="httptools", log_level="warning", access_log=False)
    # The backlog holds early connections, so it can report ready now.
    sys.stdout.write(f"ready http://127.0.0.1:{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
