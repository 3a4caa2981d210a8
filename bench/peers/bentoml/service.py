"""The service that `bentoml serve` loads; serve.py sets the model and the workers in the environment."""

import os
from typing import Any

import bentoml
from onnx_model import OnnxModel
from pydantic import BaseModel

_NAME, _, _PATH = os.environ["PEER_MODEL"].partition("=")
# BentoML keeps every request's context until its time is over, answered or not: with 60 s, the default, collecting them
# stops the world for 80 ms and more (p99 with one connection 80 ms instead of 1.1 ms).
_TIMEOUT_S = 1


class Request(BaseModel):
    """A V2 request. Models rather than a dict: for a dict BentoML makes a JSON schema anew at every answer."""

    id: str = ""
    inputs: list[dict[str, Any]]


class Answer(BaseModel):
    """A V2 answer."""

    model_name: str
    id: str
    outputs: list[dict[str, Any]]


@bentoml.service(
    workers=int(os.environ["PEER_WORKERS"]),
    logging={"access": {"enabled": False}},
    traffic={"timeout": _TIMEOUT_S},
)
class Onnx:
    """One session in each worker."""

    def __init__(self) -> None:
        self.model = OnnxModel(_PATH)

    @bentoml.api(route=f"/v2/models/{_NAME}/infer")
    async def infer(self, request: Request, /) -> Answer:
        """V2 in, V2 out."""
        return Answer.model_construct(**self.model.infer(request.__dict__))
