"""A bare ASGI application and ONNX Runtime: uvicorn with uvloop and httptools, orjson, no framework, one process per core.

peers.settings tries it without batches and with batches of the requests that one turn of the event loop has read.
"""

from __future__ import annotations

from bare_asgi import App, serve
from bare_asgi import make_app as make
from onnx_model import OnnxModel
from serving import arguments


def make_app() -> App:
    """The application with its own session."""
    return make(OnnxModel)


if __name__ == "__main__":
    serve(arguments())
