"""tritonclient's asyncio clients, both protocols."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import tritonclient.grpc.aio
import tritonclient.http.aio
from tritonclient.utils import InferenceServerException

from conformance.case import case
from conformance.cases.speaking import NAMED, both_outputs, listed, outputs, simple_inputs, status_of, tensor, told
from conformance.cases.tensors import BEST, NUMBERS, SCORES, WORDS, A, added, encoded, same

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from conformance.addresses import Addresses


def connected(addresses: Addresses, address: str = "", **more: Any) -> Any:
    module = tritonclient.http.aio if addresses.flavour == "http" else tritonclient.grpc.aio
    return module.InferenceServerClient(address or addresses.open, **more)


async def refused(call: Awaitable[Any]) -> str:
    try:
        await call
    except InferenceServerException as error:
        return status_of(error)
    raise AssertionError("it was not refused")


@case()
async def health_and_readiness_are_told(addresses: Addresses) -> None:
    async with connected(addresses) as client:
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready("simple")
        assert not await client.is_model_ready("nobody")


@case()
async def metadata_and_configuration_are_told(addresses: Addresses) -> None:
    async with connected(addresses) as client:
        assert (await client.get_server_metadata(**told(addresses)))["extensions"]
        assert (await client.get_model_metadata("simple", **told(addresses)))["name"] == "simple"
        answer = await client.get_model_config("simple", **told(addresses))
        assert answer.get("config", answer)["name"] == "simple"
        assert await refused(client.get_model_metadata("nobody")) == "NOT_FOUND"


@case()
async def an_answer_is_right(addresses: Addresses) -> None:
    async with connected(addresses) as client:
        added(both_outputs(await client.infer("simple", simple_inputs(addresses), request_id="mine")))


@case()
async def many_requests_may_be_awaited_at_once(addresses: Addresses) -> None:
    async with connected(addresses) as client:
        answers = await asyncio.gather(*(client.infer("simple", simple_inputs(addresses, A + n)) for n in range(64)))
    for n, answer in enumerate(answers):
        added(both_outputs(answer), A + n)


@case()
async def numbers_of_every_type_and_strings_come_back(addresses: Addresses) -> None:
    async with connected(addresses) as client:
        for datatype, array in NUMBERS.items():
            result = await client.infer(f"identity_{datatype.lower()}", [tensor(addresses, "INPUT0", array, datatype)])
            same(result.as_numpy("OUTPUT0"), array)
        result = await client.infer("identity_bytes", [tensor(addresses, "INPUT0", WORDS)])
        same(encoded(result.as_numpy("OUTPUT0")), encoded(WORDS))


@case()
async def the_best_classes_come_with_their_labels(addresses: Addresses) -> None:
    async with connected(addresses) as client:
        asked = outputs(addresses, "SCORES", class_count=3)
        result = await client.infer("classifier", [tensor(addresses, "FEATURES", SCORES)], outputs=asked)
    assert encoded(result.as_numpy("SCORES")).ravel().tolist() == [text.encode() for text in BEST]


@case()
async def a_wrong_request_is_refused(addresses: Addresses) -> None:
    async with connected(addresses) as client:
        assert await refused(client.infer("simple", simple_inputs(addresses)[:1])) == "INVALID_ARGUMENT"
        assert await refused(client.infer("nobody", simple_inputs(addresses))) == "NOT_FOUND"


@case()
async def statistics_are_told(addresses: Addresses) -> None:
    async with connected(addresses) as client:
        await client.infer("simple", simple_inputs(addresses))
        (found,) = (await client.get_inference_statistics("simple", **told(addresses)))["model_stats"]
    assert int(found["inference_stats"]["success"]["count"]) > 0


@case()
async def a_model_is_listed_unloaded_and_loaded_again(addresses: Addresses) -> None:
    async with connected(addresses) as client:
        index = listed(await client.get_model_repository_index(**told(addresses)), "models")
        assert "spare" in {item["name"] for item in index}
        await client.unload_model("spare")
        assert not await client.is_model_ready("spare")
        await client.load_model("spare")
        added(both_outputs(await client.infer("spare", simple_inputs(addresses))))


@case(only="grpc")
async def a_stream_of_requests_is_a_stream_of_answers(addresses: Addresses) -> None:
    async def asked() -> AsyncIterator[dict[str, Any]]:
        for n in range(16):
            yield {"model_name": "simple", "inputs": simple_inputs(addresses, A + n), "request_id": str(n)}

    seen = {}
    async with connected(addresses) as client:
        async for result, error in client.stream_infer(asked()):
            assert error is None, f"{error}"
            seen[int(result.get_response().id)] = result
    assert sorted(seen) == list(range(16))
    for n, result in seen.items():
        added(both_outputs(result), A + n)


@case(only="grpc")
async def a_stream_may_be_cancelled(addresses: Addresses) -> None:
    async def asked() -> AsyncIterator[dict[str, Any]]:
        yield {"model_name": "simple", "inputs": simple_inputs(addresses)}
        await asyncio.sleep(60)

    async with connected(addresses) as client:
        answers = client.stream_infer(asked())
        async for result, error in answers:
            assert error is None, f"{error}"
            added(both_outputs(result))
            answers.cancel()
            break
        assert await client.is_server_live()


@case(only="grpc")
async def a_unix_socket_carries_grpc_where_the_channel_names_an_authority(addresses: Addresses) -> None:
    async with connected(addresses, f"unix:{addresses.socket}", channel_args=NAMED) as client:
        added(both_outputs(await client.infer("simple", simple_inputs(addresses))))
