"""Triton's own Python clients, one function per protocol."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import np_to_triton_dtype

from tests.support.onnx_models import Arrays
from tests.support.serving import Server


@contextlib.contextmanager
def http_client(server: Server) -> Iterator[Any]:
    client = triton_http.InferenceServerClient(server.address, concurrency=1)
    try:
        yield client
    finally:
        client.close()


@contextlib.contextmanager
def grpc_client(server: Server) -> Iterator[Any]:
    client = triton_grpc.InferenceServerClient(server.address)
    try:
        yield client
    finally:
        client.close()


def http_infer(client: Any, model: str, inputs: Arrays, *, binary: bool = True, version: str = "") -> Arrays:
    wanted = []
    for name, array in inputs.items():
        tensor = triton_http.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array, binary_data=binary)
        wanted.append(tensor)
    result = client.infer(model, wanted, model_version=version)
    return _arrays(result, [output["name"] for output in result.get_response()["outputs"]])


def grpc_infer(client: Any, model: str, inputs: Arrays, *, version: str = "", **more: Any) -> Arrays:
    wanted = []
    for name, array in inputs.items():
        tensor = triton_grpc.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array)
        wanted.append(tensor)
    result = client.infer(model, wanted, model_version=version, **more)
    return _arrays(result, [output.name for output in result.get_response().outputs])


def _arrays(result: Any, names: list[str]) -> Arrays:
    return {name: _decoded(result.as_numpy(name)) for name in names}


def _decoded(array: Any) -> Any:
    """The clients give strings as bytes; a server's strings are UTF-8."""
    if array.dtype != np.object_:
        return array
    texts = [element if isinstance(element, str) else element.decode() for element in array.ravel()]
    return np.array(texts, object).reshape(array.shape)
