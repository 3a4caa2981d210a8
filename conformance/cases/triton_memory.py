"""tritonclient's shared-memory functions: create regions, register them with the server, read them back."""

from __future__ import annotations

import os
import queue
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
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
from conformance.cases.tensors import WORDS, A, B, added, encoded, same
from conformance.cases.triton_sync import NO_CUDA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.addresses import Addresses

BYTES = A.nbytes


@contextmanager
def region(client: Any, name: str, byte_size: int, *, offset: int = 0) -> Iterator[Any]:
    """A region that is registered, then unregistered and removed."""
    key = f"/flyball-conformance-{os.getpid()}-{name}"
    handle = memory.create_shared_memory_region(name, key, byte_size)
    try:
        client.register_system_shared_memory(name, key, byte_size - offset, offset=offset)
        try:
            yield handle
        finally:
            client.unregister_system_shared_memory(name)
    finally:
        memory.destroy_shared_memory_region(handle)


def placed(addresses: Addresses, name: str, shape: tuple[int, ...], datatype: str, *where: Any) -> Any:
    """An input that lies in a region."""
    given = client_of(addresses).InferInput(name, list(shape), datatype)
    given.set_shared_memory(*where)
    return given


def wanted(addresses: Addresses, name: str, *where: Any) -> Any:
    """An output that is to be laid into a region."""
    (asked,) = outputs(addresses, name)
    asked.set_shared_memory(*where)
    return asked


@case()
def inputs_and_outputs_lie_in_regions(addresses: Addresses) -> None:
    with connected(addresses) as client, region(client, "in", 2 * BYTES) as given, region(client, "out", 2 * BYTES) as got:
        memory.set_shared_memory_region(given, [A, B])
        inputs = [
            placed(addresses, "INPUT0", A.shape, "INT32", "in", BYTES),
            placed(addresses, "INPUT1", B.shape, "INT32", "in", BYTES, BYTES),
        ]
        asked = [wanted(addresses, "OUTPUT0", "out", BYTES), wanted(addresses, "OUTPUT1", "out", BYTES, BYTES)]
        result = client.infer("simple", inputs, outputs=asked)
        assert result.get_output("OUTPUT0") is not None
        answers = [memory.get_contents_as_numpy(got, np.int32, [1, 16], at) for at in (0, BYTES)]
        added((answers[0].copy(), answers[1].copy()))


@case()
def one_input_lies_in_a_region_and_the_other_in_the_request(addresses: Addresses) -> None:
    with connected(addresses) as client, region(client, "in", BYTES) as given:
        memory.set_shared_memory_region(given, [A])
        inputs = [placed(addresses, "INPUT0", A.shape, "INT32", "in", BYTES), tensor(addresses, "INPUT1", B)]
        added(both_outputs(client.infer("simple", inputs)))


@case()
def one_output_lies_in_a_region_and_the_other_in_the_answer(addresses: Addresses) -> None:
    with connected(addresses) as client, region(client, "out", BYTES) as got:
        asked = [wanted(addresses, "OUTPUT0", "out", BYTES), *outputs(addresses, "OUTPUT1")]
        result = client.infer("simple", simple_inputs(addresses), outputs=asked)
        same(memory.get_contents_as_numpy(got, np.int32, [1, 16]).copy(), A + B)
        same(result.as_numpy("OUTPUT1"), A - B)


@case()
def strings_lie_in_regions(addresses: Addresses) -> None:
    raw = serialize_byte_tensor(encoded(WORDS))
    size = len(raw.item())
    with connected(addresses) as client, region(client, "in", size) as given, region(client, "out", size) as got:
        memory.set_shared_memory_region(given, [raw])
        inputs = [placed(addresses, "INPUT0", WORDS.shape, "BYTES", "in", size)]
        client.infer("identity_bytes", inputs, outputs=[wanted(addresses, "OUTPUT0", "out", size)])
        same(encoded(memory.get_contents_as_numpy(got, np.object_, list(WORDS.shape))), encoded(WORDS))


@case()
def a_region_may_begin_inside_its_memory(addresses: Addresses) -> None:
    page = 4096  # Triton maps regions, so theirs begin where a page does
    with connected(addresses) as client, region(client, "in", page + BYTES, offset=page) as given:
        memory.set_shared_memory_region(given, [A], offset=page)
        inputs = [placed(addresses, "INPUT0", A.shape, "INT32", "in", BYTES), tensor(addresses, "INPUT1", B)]
        added(both_outputs(client.infer("simple", inputs)))


@case()
def the_status_lists_the_regions(addresses: Addresses) -> None:
    with connected(addresses) as client:
        with region(client, "seen", BYTES):
            for status in (
                client.get_system_shared_memory_status(**told(addresses)),
                client.get_system_shared_memory_status("seen", **told(addresses)),
            ):
                found = {item["name"]: item for item in listed(status, "regions")}
                assert found["seen"]["key"].endswith("-seen")
                assert int(found["seen"]["byte_size"]) == BYTES
        assert not listed(client.get_system_shared_memory_status(**told(addresses)), "regions")


@case()
def all_regions_are_unregistered_at_once(addresses: Addresses) -> None:
    with connected(addresses) as client, region(client, "one", BYTES), region(client, "two", BYTES):
        client.unregister_system_shared_memory()
        assert not listed(client.get_system_shared_memory_status(**told(addresses)), "regions")


@case()
def an_unknown_region_is_refused(addresses: Addresses) -> None:
    with connected(addresses) as client:
        inputs = [placed(addresses, "INPUT0", A.shape, "INT32", "nowhere", BYTES), tensor(addresses, "INPUT1", B)]
        status, text = refused(lambda: client.infer("simple", inputs))
    assert status in ("INVALID_ARGUMENT", "NOT_FOUND"), status
    assert "nowhere" in text


@case()
def a_span_beyond_its_region_is_refused(addresses: Addresses) -> None:
    with connected(addresses) as client, region(client, "in", BYTES):
        for size, offset in ((BYTES, 4), (BYTES, 2**40), (2 * BYTES, 0)):
            inputs = [placed(addresses, "INPUT0", A.shape, "INT32", "in", size, offset), tensor(addresses, "INPUT1", B)]
            assert refused(lambda inputs=inputs: client.infer("simple", inputs))[0] == "INVALID_ARGUMENT"  # type: ignore[misc]


@case()
def an_output_that_does_not_fit_its_span_is_refused(addresses: Addresses) -> None:
    with connected(addresses) as client, region(client, "out", BYTES):
        asked = [wanted(addresses, "OUTPUT0", "out", BYTES // 2)]
        assert refused(lambda: client.infer("simple", simple_inputs(addresses), outputs=asked))[0] == "INVALID_ARGUMENT"


@case()
def a_region_larger_than_its_memory_or_registered_twice_is_refused(addresses: Addresses) -> None:
    with connected(addresses) as client, region(client, "in", BYTES):
        key = f"/flyball-conformance-{os.getpid()}-in"
        refused(lambda: client.register_system_shared_memory("large", key, 2**20))
        refused(lambda: client.register_system_shared_memory("in", key, BYTES))
        refused(lambda: client.register_system_shared_memory("absent", "/flyball-conformance-absent", BYTES))


@case()
def a_server_without_shared_memory_refuses_it(addresses: Addresses) -> None:
    with connected(addresses, addresses.closed) as client:
        status, text = refused(lambda: client.register_system_shared_memory("in", "/flyball-conformance", BYTES))
    assert status == "UNIMPLEMENTED", status
    assert "shared" in text


@case(only="grpc")
def regions_serve_a_stream_too(addresses: Addresses) -> None:
    came: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with connected(addresses) as client, region(client, "in", BYTES) as given:
        memory.set_shared_memory_region(given, [A])
        client.start_stream(callback=lambda result, error: came.put((result, error)))
        inputs = [placed(addresses, "INPUT0", A.shape, "INT32", "in", BYTES), tensor(addresses, "INPUT1", B)]
        client.async_stream_infer("simple", inputs)
        result, error = came.get(timeout=20)
        client.stop_stream()
    assert error is None, f"{error}"
    added(both_outputs(result))


@case(skipped=NO_CUDA)
def tensors_lie_in_device_memory(addresses: Addresses) -> None: ...
