"""One interface over tritonclient's two clients, which differ in small ways."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from conformance.cases.tensors import A, B

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from conformance.addresses import Addresses
    from conformance.cases.tensors import Array

GRPC_OF_HTTP = {
    "400": "INVALID_ARGUMENT",
    "404": "NOT_FOUND",
    "501": "UNIMPLEMENTED",
    "503": "UNAVAILABLE",
    "504": "DEADLINE_EXCEEDED",
}


# gRPC's own library sends a socket's path as the authority unless it is given one, and a path is none.
NAMED = [("grpc.default_authority", "localhost")]


def client_of(addresses: Addresses) -> Any:
    """The module of the protocol."""
    return tritonclient.http if addresses.flavour == "http" else tritonclient.grpc


@contextmanager
def connected(addresses: Addresses, address: str = "", **more: Any) -> Iterator[Any]:
    """A client of the open server, unless another is named."""
    with client_of(addresses).InferenceServerClient(address or addresses.open, **more) as client:
        yield client


def told(addresses: Addresses) -> dict[str, Any]:
    """What makes gRPC answer in the shape that HTTP has."""
    return {"as_json": True} if addresses.flavour == "grpc" else {}


def tensor(addresses: Addresses, name: str, array: Array, datatype: str = "") -> Any:
    """An input with its values."""
    given = client_of(addresses).InferInput(name, list(array.shape), datatype or np_to_triton_dtype(array.dtype))
    return given.set_data_from_numpy(array)


def simple_inputs(addresses: Addresses, a: Array = A, b: Array = B) -> list[Any]:
    """The two inputs of `simple`."""
    return [tensor(addresses, "INPUT0", a), tensor(addresses, "INPUT1", b)]


def both_outputs(result: Any) -> tuple[Any, Any]:
    """Sum and difference."""
    return result.as_numpy("OUTPUT0"), result.as_numpy("OUTPUT1")


def outputs(addresses: Addresses, *names: str, **more: Any) -> list[Any]:
    """Outputs that are asked for."""
    return [client_of(addresses).InferRequestedOutput(name, **more) for name in names]


def listed(answer: Any, key: str) -> list[dict[str, Any]]:
    """HTTP gives a list where gRPC gives a message with one."""
    found = answer.get(key, []) if isinstance(answer, dict) else answer
    return list(found.values()) if isinstance(found, dict) else found


def refused(call: Callable[[], Any]) -> tuple[str, str]:
    """The gRPC name of the status that a call is refused with, and its text."""
    try:
        call()
    except InferenceServerException as error:
        return status_of(error), error.message()
    raise AssertionError("it was not refused")


def status_of(error: InferenceServerException) -> str:
    """The gRPC name of a status, whichever protocol carried it."""
    status = str(error.status()).removeprefix("StatusCode.")
    return GRPC_OF_HTTP.get(status, status)
