"""Equivalents of Triton's client examples for both protocols, under their names. Written from scratch."""

from __future__ import annotations

import asyncio
import queue
from typing import TYPE_CHECKING, Any

import numpy as np
import tritonclient.grpc.aio
import tritonclient.http.aio
import tritonclient.utils.shared_memory as memory
from tritonclient.utils import serialize_byte_tensor

from conformance.case import case
from conformance.cases.speaking import (
    both_outputs,
    client_of,
    connected,
    listed,
    outputs,
    refused,
    simple_inputs,
    tensor,
    told,
)
from conformance.cases.tensors import SCORES, A, B, added, as_words, encoded, same
from conformance.cases.triton_memory import BYTES, placed, region, wanted
from conformance.cases.triton_sync import NO_CUDA

if TYPE_CHECKING:
    from conformance.addresses import Addresses

NO_STATE = "sequences: models here keep no state between requests, so there is nothing to route to one instance"


@case(of="simple_{flavour}_health_metadata")
def health_then_metadata_then_a_wrong_name(addresses: Addresses) -> None:
    with connected(addresses) as client:
        assert client.is_server_live(headers={"test": "1", "dummy": "2"})
        assert client.is_server_ready()
        assert client.is_model_ready("simple")
        assert client.get_server_metadata(**told(addresses))["name"]
        assert client.get_model_metadata("simple", **told(addresses))["name"] == "simple"
        status, text = refused(lambda: client.get_model_metadata("wrong_model_name"))
        assert status == "NOT_FOUND"
        assert "wrong_model_name" in text
        config = client.get_model_config("simple", **told(addresses))
        assert config.get("config", config)["name"] == "simple"


@case(of="simple_{flavour}_infer_client")
def sums_and_differences_then_statistics(addresses: Addresses) -> None:
    with connected(addresses) as client:
        asked = outputs(addresses, "OUTPUT0", "OUTPUT1")
        added(both_outputs(client.infer("simple", simple_inputs(addresses), outputs=asked, headers={"test": "1"})))
        added(both_outputs(client.infer("simple", simple_inputs(addresses), outputs=None)))
        assert len(client.get_inference_statistics("simple", **told(addresses))["model_stats"]) == 1
        refused(lambda: client.get_inference_statistics("wrong_model_name"))


@case(of="simple_{flavour}_async_infer_client")
def many_requests_are_sent_before_the_first_answer_is_read(addresses: Addresses) -> None:
    inputs = simple_inputs(addresses)
    with connected(addresses) as client:
        if addresses.flavour == "http":
            for sent in [client.async_infer("simple", inputs) for _ in range(8)]:
                added(both_outputs(sent.get_result()))
            return
        came: queue.Queue[tuple[Any, Any]] = queue.Queue()
        for _ in range(8):
            client.async_infer("simple", inputs, callback=lambda result, error: came.put((result, error)))
        for result, error in [came.get(timeout=20) for _ in range(8)]:
            assert error is None, f"{error}"
            added(both_outputs(result))


@case(of="simple_{flavour}_string_infer_client")
def numbers_written_as_strings_are_added(addresses: Addresses) -> None:
    inputs = simple_inputs(addresses, as_words(A), as_words(B))
    with connected(addresses) as client:
        result = client.infer("simple_string", inputs, outputs=outputs(addresses, "OUTPUT0", "OUTPUT1"))
        for got, numbers in zip(both_outputs(result), (A + B, A - B), strict=True):
            same(encoded(got), as_words(numbers))
        for odd in (b"he\x00llo", b"\x00\x01\x02\x03"):  # a zero inside a string is no end of it
            array = np.array([[odd] * 16], object)
            same(encoded(client.infer("simple_identity", [tensor(addresses, "INPUT0", array)]).as_numpy("OUTPUT0")), array)


@case(of="simple_{flavour}_model_control")
def the_index_is_read_and_a_model_is_loaded_and_unloaded(addresses: Addresses) -> None:
    with connected(addresses) as client:
        assert "spare" in {item["name"] for item in listed(client.get_model_repository_index(**told(addresses)), "models")}
        client.load_model("spare")
        assert client.is_model_ready("spare")
        refused(lambda: client.load_model("spare", config='"parameters": {{"max_batch_size": "16"}}'))
        client.unload_model("spare")
        assert not client.is_model_ready("spare")
        assert "wrong_model_name" in refused(lambda: client.load_model("wrong_model_name"))[1]
        client.load_model("spare")


@case(
    of="simple_{flavour}_model_control",
    skipped="loads with a configuration in the request: what is served comes from files whose digests were checked; "
    "change the files and load again",
)
def a_model_is_loaded_with_another_configuration(addresses: Addresses) -> None: ...


@case(of="simple_{flavour}_shm_client")
def tensors_lie_in_shared_memory(addresses: Addresses) -> None:
    with connected(addresses) as client:
        client.unregister_system_shared_memory()
        client.unregister_cuda_shared_memory()  # the example tidies up both, whether or not there is a device
        with region(client, "input_data", 2 * BYTES) as given, region(client, "output_data", 2 * BYTES) as got:
            memory.set_shared_memory_region(given, [A])
            memory.set_shared_memory_region(given, [B], offset=BYTES)
            inputs = [
                placed(addresses, "INPUT0", A.shape, "INT32", "input_data", BYTES),
                placed(addresses, "INPUT1", B.shape, "INT32", "input_data", BYTES, BYTES),
            ]
            asked = [
                wanted(addresses, "OUTPUT0", "output_data", BYTES),
                wanted(addresses, "OUTPUT1", "output_data", BYTES, BYTES),
            ]
            client.infer("simple", inputs, outputs=asked)
            sums, differences = (memory.get_contents_as_numpy(got, np.int32, [1, 16], at).copy() for at in (0, BYTES))
            added((sums, differences))
            assert len(listed(client.get_system_shared_memory_status(**told(addresses)), "regions")) == 2
            client.unregister_system_shared_memory()
            assert not listed(client.get_system_shared_memory_status(**told(addresses)), "regions")


@case(of="simple_{flavour}_shm_string_client")
def strings_lie_in_shared_memory(addresses: Addresses) -> None:
    given, sums = (serialize_byte_tensor(as_words(numbers)) for numbers in (A, A + B))
    sizes = len(given.item()), len(sums.item())
    with connected(addresses) as client:
        client.unregister_system_shared_memory()
        client.unregister_cuda_shared_memory()
        with region(client, "input0_data", sizes[0]) as source, region(client, "output0_data", sizes[1]) as got:
            memory.set_shared_memory_region(source, [given])
            inputs = [
                placed(addresses, "INPUT0", A.shape, "BYTES", "input0_data", sizes[0]),
                tensor(addresses, "INPUT1", as_words(B)),
            ]
            client.infer("simple_string", inputs, outputs=[wanted(addresses, "OUTPUT0", "output0_data", sizes[1])])
            same(encoded(memory.get_contents_as_numpy(got, np.object_, [1, 16])), as_words(A + B))


@case(of="simple_{flavour}_aio_infer_client")
async def one_request_then_two_at_once(addresses: Addresses) -> None:
    module = tritonclient.http.aio if addresses.flavour == "http" else tritonclient.grpc.aio
    async with module.InferenceServerClient(addresses.open) as client:
        added(
            both_outputs(
                await client.infer("simple", simple_inputs(addresses), outputs=outputs(addresses, "OUTPUT0", "OUTPUT1"))
            )
        )
        assert len((await client.get_inference_statistics("simple", **told(addresses)))["model_stats"]) == 1
        for result in await asyncio.gather(*(client.infer("simple", simple_inputs(addresses)) for _ in range(2))):
            added(both_outputs(result))


@case(of="reuse_infer_objects_client")
def the_same_objects_carry_values_then_regions_then_values(addresses: Addresses) -> None:
    inputs = [client_of(addresses).InferInput(name, [1, 16], "INT32") for name in ("INPUT0", "INPUT1")]
    asked = outputs(addresses, "OUTPUT0", "OUTPUT1")
    with (
        connected(addresses) as client,
        region(client, "reused_in", 2 * BYTES) as given,
        region(client, "reused", 2 * BYTES) as got,
    ):
        memory.set_shared_memory_region(given, [A, B])
        for turn in ("values", "regions", "values"):
            for number, (each, out, array) in enumerate(zip(inputs, asked, (A, B), strict=True)):
                if turn == "values":
                    each.set_data_from_numpy(array)
                    out.unset_shared_memory()
                else:
                    each.set_shared_memory("reused_in", BYTES, number * BYTES)
                    out.set_shared_memory("reused", BYTES, number * BYTES)
            result = client.infer("simple", inputs, outputs=asked)
            if turn == "values":
                added(both_outputs(result))
            else:
                first, second = (memory.get_contents_as_numpy(got, np.int32, [1, 16], at).copy() for at in (0, BYTES))
                added((first, second))


@case(of="image_client")
def a_picture_gets_its_best_classes_in_a_batch(addresses: Addresses) -> None:
    both = np.concatenate([SCORES, SCORES[:, ::-1]])
    with connected(addresses) as client:
        asked = outputs(addresses, "SCORES", class_count=1)
        found = client.infer("classifier", [tensor(addresses, "FEATURES", both)], outputs=asked).as_numpy("SCORES")
    assert encoded(found).tolist() == [[b"0.900000:1:kind-1"], [b"0.900000:6:kind-6"]], f"{found.tolist()}"


@case(of="memory_growth_test")
def the_same_request_is_asked_a_thousand_times(addresses: Addresses) -> None:
    inputs = simple_inputs(addresses)
    with connected(addresses) as client:
        for _ in range(1000):
            added(both_outputs(client.infer("simple", inputs)))


@case(of="simple_{flavour}_sequence_sync_infer_client", skipped=NO_STATE)
def sums_are_kept_between_requests(addresses: Addresses) -> None: ...


@case(of="simple_{flavour}_cudashm_client", skipped=NO_CUDA)
def tensors_lie_in_device_memory(addresses: Addresses) -> None: ...
