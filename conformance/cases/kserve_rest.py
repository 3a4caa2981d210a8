"""The KServe SDK's REST client."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
from kserve import InferenceRESTClient, InferInput, InferOutput, InferRequest
from kserve.inference_client import RESTConfig
from kserve.protocol.infer_type import RequestedOutput

from conformance.case import case
from conformance.cases.tensors import NUMBERS, WORDS, A, B, added, encoded, same

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from conformance.addresses import Addresses
    from conformance.cases.tensors import Array


def asked(model: str, *arrays: tuple[str, str, Array], binary: bool = False, **more: Any) -> InferRequest:
    tensors = []
    for name, datatype, array in arrays:
        tensors.append(InferInput(name, list(array.shape), datatype))
        tensors[-1].set_data_from_numpy(array, binary_data=binary)
    return InferRequest(model, tensors, request_id="mine", **more)


def simple(**more: Any) -> InferRequest:
    return asked("simple", ("INPUT0", "INT32", A), ("INPUT1", "INT32", B), **more)


def both(answer: Any) -> tuple[Array, Array]:
    found: dict[str, InferOutput] = {output.name: output for output in answer.outputs}
    return found["OUTPUT0"].as_numpy(), found["OUTPUT1"].as_numpy()


@asynccontextmanager
async def connected(**more: Any) -> AsyncIterator[InferenceRESTClient]:
    client = InferenceRESTClient(RESTConfig(protocol="v2", timeout=20, **more))
    try:
        yield client
    finally:
        await client.close()


async def status(call: Any) -> int:
    try:
        await call
    except httpx.HTTPStatusError as error:
        return error.response.status_code
    raise AssertionError("it was not refused")


@case()
async def the_server_is_live_and_ready(addresses: Addresses) -> None:
    async with connected() as client:
        assert await client.is_server_live(f"http://{addresses.open}")
        assert await client.is_server_ready(f"http://{addresses.open}")


@case()
async def a_model_is_ready_and_an_unknown_one_is_not(addresses: Addresses) -> None:
    async with connected() as client:
        assert await client.is_model_ready(f"http://{addresses.open}", "simple")
        assert not await client.is_model_ready(f"http://{addresses.open}", "nobody")


@case()
async def json_is_answered(addresses: Addresses) -> None:
    async with connected() as client:
        answer = await client.infer(f"http://{addresses.open}", simple(), model_name="simple")
    assert (answer.id, answer.model_name) == ("mine", "simple")
    added(both(answer))


@case()
async def a_plain_dictionary_is_answered(addresses: Addresses) -> None:
    async with connected() as client:
        body, _ = simple().to_rest()
        added(both(await client.infer(f"http://{addresses.open}", body, model_name="simple")))


@case()
async def binary_tensors_are_answered(addresses: Addresses) -> None:
    async with connected() as client:
        answer = await client.infer(f"http://{addresses.open}", simple(binary=True), model_name="simple")
    added(both(answer))


@case()
async def binary_outputs_are_answered(addresses: Addresses) -> None:
    chosen = [RequestedOutput("OUTPUT0", {"binary_data": True}), RequestedOutput("OUTPUT1", {"binary_data": False})]
    async with connected() as client:
        request = simple(binary=True, request_outputs=chosen)
        added(both(await client.infer(f"http://{addresses.open}", request, model_name="simple")))


@case()
async def numbers_of_every_type_come_back(addresses: Addresses) -> None:
    async with connected() as client:
        for datatype, array in NUMBERS.items():
            request = asked(f"identity_{datatype.lower()}", ("INPUT0", datatype, array), binary=True)
            request.parameters = {"binary_data_output": True}
            answer = await client.infer(f"http://{addresses.open}", request, model_name=request.model_name)
            same(answer.outputs[0].as_numpy(), array)


@case()
async def strings_come_back(addresses: Addresses) -> None:
    async with connected() as client:
        request = asked("identity_bytes", ("INPUT0", "BYTES", WORDS))
        answer = await client.infer(f"http://{addresses.open}", request, model_name="identity_bytes")
    same(encoded(answer.outputs[0].as_numpy()), encoded(WORDS))


@case()
async def parameters_are_taken(addresses: Addresses) -> None:
    async with connected() as client:
        request = simple(parameters={"priority": 1, "tenant": "a"})
        added(both(await client.infer(f"http://{addresses.open}", request, model_name="simple")))


@case()
async def an_encrypted_connection_is_taken(addresses: Addresses) -> None:
    async with connected(verify=addresses.authority) as client:
        added(both(await client.infer(f"https://{addresses.tls}", simple(), model_name="simple")))


@case()
async def a_unix_socket_is_taken(addresses: Addresses) -> None:
    async with connected(transport=httpx.AsyncHTTPTransport(uds=addresses.socket)) as client:
        added(both(await client.infer("http://localhost", simple(), model_name="simple")))


@case()
async def wrong_requests_are_refused(addresses: Addresses) -> None:
    async with connected() as client:
        url = f"http://{addresses.open}"
        assert await status(client.infer(url, simple(), model_name="nobody")) == 404
        wrong = asked("simple", ("INPUT0", "INT32", A))
        assert await status(client.infer(url, wrong, model_name="simple")) == 400


@case(skipped="the V1 protocol (`:predict`): the promise is the V2 protocol, which KServe recommends")
async def the_v1_protocol_is_answered(addresses: Addresses) -> None: ...
