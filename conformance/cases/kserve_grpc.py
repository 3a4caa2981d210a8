"""The KServe SDK's gRPC client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from kserve import InferenceGRPCClient

from conformance.case import case
from conformance.cases.kserve_rest import asked, both, simple
from conformance.cases.tensors import NUMBERS, WORDS, A, added, encoded, same

if TYPE_CHECKING:
    from conformance.addresses import Addresses


def connected(address: str, **more: Any) -> InferenceGRPCClient:
    return InferenceGRPCClient(address, timeout=20, **more)


async def status(call: Any) -> str:
    try:
        await call
    except grpc.RpcError as error:
        return str(error.code().name)
    raise AssertionError("it was not refused")


@case()
async def the_server_is_live_and_ready(addresses: Addresses) -> None:
    async with connected(addresses.open) as client:
        assert await client.is_server_live()
        assert await client.is_server_ready()


@case()
async def a_model_is_ready(addresses: Addresses) -> None:
    async with connected(addresses.open) as client:
        assert await client.is_model_ready("simple")


@case()
async def written_tensors_are_answered(addresses: Addresses) -> None:
    async with connected(addresses.open) as client:
        answer = await client.infer(simple())
    assert (answer.id, answer.model_name) == ("mine", "simple")
    added(both(answer))


@case()
async def raw_tensors_are_answered(addresses: Addresses) -> None:
    async with connected(addresses.open) as client:
        added(both(await client.infer(simple(binary=True))))


@case()
async def numbers_of_every_type_come_back(addresses: Addresses) -> None:
    async with connected(addresses.open) as client:
        for datatype, array in NUMBERS.items():
            request = asked(f"identity_{datatype.lower()}", ("INPUT0", datatype, array), binary=True)
            same((await client.infer(request)).outputs[0].as_numpy(), array)


@case()
async def strings_come_back(addresses: Addresses) -> None:
    async with connected(addresses.open) as client:
        answer = await client.infer(asked("identity_bytes", ("INPUT0", "BYTES", WORDS)))
    same(encoded(answer.outputs[0].as_numpy()), encoded(WORDS))


@case()
async def headers_and_a_timeout_are_taken(addresses: Addresses) -> None:
    async with connected(addresses.open) as client:
        added(both(await client.infer(simple(), timeout=20, headers=(("x-trace", "1"),))))


@case()
async def an_encrypted_connection_is_taken(addresses: Addresses) -> None:
    async with connected(addresses.tls, use_ssl=True, root_certificates=addresses.authority) as client:
        added(both(await client.infer(simple())))


@case()
async def a_caller_may_show_a_certificate(addresses: Addresses) -> None:
    shown = {"private_key": addresses.caller_key, "certificate_chain": addresses.caller_certificate}
    async with connected(addresses.mutual_tls, use_ssl=True, root_certificates=addresses.authority, **shown) as client:
        added(both(await client.infer(simple())))


@case()
async def a_unix_socket_is_taken_where_the_channel_names_an_authority(addresses: Addresses) -> None:
    named = [("grpc.default_authority", "localhost")]
    async with connected(f"unix:{addresses.socket}", channel_args=named) as client:
        added(both(await client.infer(simple())))


@case()
async def wrong_requests_are_refused(addresses: Addresses) -> None:
    async with connected(addresses.open) as client:
        request = simple()
        request.model_name = "nobody"
        assert await status(client.infer(request)) == "NOT_FOUND"
        assert await status(client.infer(asked("simple", ("INPUT0", "INT32", A)))) == "INVALID_ARGUMENT"
