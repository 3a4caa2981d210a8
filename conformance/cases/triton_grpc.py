"""tritonclient's gRPC client: streams, deadlines, cancellation, keep-alive, Unix sockets, raw stubs."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import tritonclient.grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from conformance.case import case
from conformance.cases.speaking import NAMED, both_outputs, connected, refused, simple_inputs, status_of, tensor
from conformance.cases.tensors import SCORES, A, B, added

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.addresses import Addresses

WAIT_S = 20.0
Came = tuple[Any, Any]


def over_grpc(addresses: Addresses) -> Addresses:
    return addresses.with_flavour("grpc")


def code(call: Callable[[], Any]) -> str:
    """The status that a call of a generated stub is refused with."""
    try:
        call()
    except grpc.RpcError as error:
        return str(error.code().name)
    raise AssertionError("it was not refused")


def streamed(addresses: Addresses, count: int, **more: Any) -> list[Came]:
    """So many requests on one stream, all sent before the first answer is awaited."""
    here = over_grpc(addresses)
    came: queue.Queue[Came] = queue.Queue()
    with connected(here) as client:
        client.start_stream(callback=lambda result, error: came.put((result, error)))
        for n in range(count):
            client.async_stream_infer("simple", simple_inputs(here, A + n), request_id=str(n), **more)
        answers = [came.get(timeout=WAIT_S) for _ in range(count)]
        client.stop_stream()
    return answers


@case()
def a_stream_carries_many_requests_at_once(addresses: Addresses) -> None:
    answers = streamed(addresses, 64)
    assert not [error for _, error in answers if error], f"{answers[0][1]}"
    results = {int(result.get_response().id): result for result, _ in answers}
    assert sorted(results) == list(range(64))
    for n, result in results.items():
        added(both_outputs(result), A + n)


@case()
def a_refused_request_leaves_its_stream_open(addresses: Addresses) -> None:
    here = over_grpc(addresses)
    came: queue.Queue[Came] = queue.Queue()
    with connected(here) as client:
        client.start_stream(callback=lambda result, error: came.put((result, error)))
        client.async_stream_infer("nobody", simple_inputs(here), request_id="bad")
        _, error = came.get(timeout=WAIT_S)
        assert isinstance(error, InferenceServerException)
        assert "nobody" in error.message()
        client.async_stream_infer("simple", simple_inputs(here), request_id="good")
        result, error = came.get(timeout=WAIT_S)
        assert error is None, f"{error}"
        added(both_outputs(result))


@case()
def a_stream_that_asks_for_real_statuses_gets_one_and_ends(addresses: Addresses) -> None:
    here = over_grpc(addresses)
    came: queue.Queue[Came] = queue.Queue()
    with connected(here) as client:
        client.start_stream(callback=lambda result, error: came.put((result, error)), headers={"triton_grpc_error": "true"})
        client.async_stream_infer("nobody", simple_inputs(here))
        _, error = came.get(timeout=WAIT_S)
    assert status_of(error) == "NOT_FOUND", f"{error}"


@case()
def the_last_answer_to_a_streamed_request_is_marked_where_that_is_asked_for(addresses: Addresses) -> None:
    ((result, error),) = streamed(addresses, 1, enable_empty_final_response=True)
    assert error is None, f"{error}"
    assert result.get_response().parameters["triton_final_response"].bool_param


@case()
def a_stream_may_be_closed_and_opened_again(addresses: Addresses) -> None:
    for _ in range(2):
        assert not [error for _, error in streamed(addresses, 2) if error]


@case()
def a_deadline_of_the_call_is_kept(addresses: Addresses) -> None:
    here = over_grpc(addresses)
    with connected(here) as client:
        slow = [tensor(here, "INPUT0", np.ones((1, 1), np.float32))]
        status, _ = refused(lambda: client.infer("slow", slow, client_timeout=0.02))
        assert status == "DEADLINE_EXCEEDED"
        added(both_outputs(client.infer("simple", simple_inputs(here), client_timeout=WAIT_S)))


@case()
def a_call_may_be_cancelled(addresses: Addresses) -> None:
    here = over_grpc(addresses)
    came: queue.Queue[Came] = queue.Queue()
    with connected(here) as client:
        slow = [tensor(here, "INPUT0", np.ones((1, 1), np.float32))]
        call = client.async_infer("slow", slow, callback=lambda result, error: came.put((result, error)))
        call.cancel()
        _, error = came.get(timeout=WAIT_S)
        assert status_of(error) == "CANCELLED", f"{error}"
        added(both_outputs(client.infer("simple", simple_inputs(here))))


@case()
def keep_alive_pings_are_answered(addresses: Addresses) -> None:
    here = over_grpc(addresses)
    often = tritonclient.grpc.KeepAliveOptions(
        keepalive_time_ms=10_000, keepalive_timeout_ms=5_000, keepalive_permit_without_calls=True
    )
    with connected(here, keepalive_options=often) as client:
        added(both_outputs(client.infer("simple", simple_inputs(here))))


@case()
def a_unix_socket_carries_grpc_where_the_channel_names_an_authority(addresses: Addresses) -> None:
    here = over_grpc(addresses)
    with connected(here, f"unix:{addresses.socket}", channel_args=NAMED) as client:
        assert client.is_server_ready()
        added(both_outputs(client.infer("simple", simple_inputs(here))))


@case()
def a_connection_may_be_encrypted(addresses: Addresses) -> None:
    here = over_grpc(addresses)
    with connected(here, addresses.tls, ssl=True, root_certificates=addresses.authority) as client:
        added(both_outputs(client.infer("simple", simple_inputs(here))))


@case()
def a_caller_may_show_a_certificate(addresses: Addresses) -> None:
    here, shown = (
        over_grpc(addresses),
        {"private_key": addresses.caller_key, "certificate_chain": addresses.caller_certificate},
    )
    with connected(here, addresses.mutual_tls, ssl=True, root_certificates=addresses.authority, **shown) as client:
        added(both_outputs(client.infer("simple", simple_inputs(here))))


@case()
def a_caller_without_a_certificate_is_turned_away_where_one_is_required(addresses: Addresses) -> None:
    here = over_grpc(addresses)
    with connected(here, addresses.mutual_tls, ssl=True, root_certificates=addresses.authority) as client:
        assert refused(lambda: client.is_server_live(client_timeout=WAIT_S))[0] == "UNAVAILABLE"


@case()
def tensors_may_be_written_out_as_contents(addresses: Addresses) -> None:
    request = service_pb2.ModelInferRequest(model_name="simple", id="contents")
    for name, array in (("INPUT0", A), ("INPUT1", B)):
        given = request.inputs.add(name=name, datatype="INT32", shape=array.shape)
        given.contents.int_contents.extend(array.ravel().tolist())
    with grpc.insecure_channel(addresses.open) as channel:
        answer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=WAIT_S)
    assert list(answer.raw_output_contents) == [(A + B).tobytes(), (A - B).tobytes()]


@case()
def contents_and_raw_bytes_in_one_request_are_refused(addresses: Addresses) -> None:
    request = service_pb2.ModelInferRequest(model_name="simple")
    for name, array in (("INPUT0", A), ("INPUT1", B)):
        given = request.inputs.add(name=name, datatype="INT32", shape=array.shape)
        given.contents.int_contents.extend(array.ravel().tolist())
        request.raw_input_contents.append(array.tobytes())
    with grpc.insecure_channel(addresses.open) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert code(lambda: stub.ModelInfer(request, timeout=WAIT_S)) == "INVALID_ARGUMENT"


@case()
def grpcs_own_health_service_answers(addresses: Addresses) -> None:
    with grpc.insecure_channel(addresses.open) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check", None, None)
        assert check(b"", timeout=WAIT_S) == b"\x08\x01"  # SERVING


@case()
def the_classes_come_on_a_stream_too(addresses: Addresses) -> None:
    here = over_grpc(addresses)
    came: queue.Queue[Came] = queue.Queue()
    asked = [tritonclient.grpc.InferRequestedOutput("SCORES", class_count=1)]
    with connected(here) as client:
        client.start_stream(callback=lambda result, error: came.put((result, error)))
        client.async_stream_infer("classifier", [tensor(here, "FEATURES", SCORES)], outputs=asked)
        result, error = came.get(timeout=WAIT_S)
    assert error is None, f"{error}"
    assert result.as_numpy("SCORES").ravel().tolist() == [b"0.900000:1:kind-1"]


@case(skipped="sequences: models here keep no state between requests, so there is nothing to route to one instance")
def a_sequence_of_requests_goes_to_one_instance(addresses: Addresses) -> None: ...
