"""Equivalents of Triton's gRPC-only client examples, under their names. Written from scratch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import tritonclient.grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

from conformance.case import case
from conformance.cases.examples import NO_STATE
from conformance.cases.speaking import both_outputs, connected, outputs, simple_inputs
from conformance.cases.tensors import SCORES, A, B, added, as_words
from conformance.cases.triton_grpc import WAIT_S, code, over_grpc

if TYPE_CHECKING:
    from conformance.addresses import Addresses
    from conformance.cases.tensors import Array


def asked(model: str, datatype: str, kind: str, a: list[Any], b: list[Any]) -> Any:
    """A request of the generated classes whose tensors are written out."""
    request = service_pb2.ModelInferRequest(model_name=model, id="my request id")
    for name, values in (("INPUT0", a), ("INPUT1", b)):
        given = request.inputs.add(name=name, datatype=datatype, shape=[1, 16])
        getattr(given.contents, kind).extend(values)
    for name in ("OUTPUT0", "OUTPUT1"):
        request.outputs.add(name=name)
    return request


def answered(addresses: Addresses, request: Any) -> list[bytes]:
    with grpc.insecure_channel(addresses.open) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        answer = stub.ModelInfer(request, timeout=WAIT_S)
        # The same with a raw tensor beside the written ones, which no server takes.
        request.raw_input_contents.append(b"\x00" * 64)
        assert code(lambda: stub.ModelInfer(request, timeout=WAIT_S)) == "INVALID_ARGUMENT"
    assert answer.id == "my request id"
    return list(answer.raw_output_contents)


def lengths_and_texts(words: Array) -> bytes:
    return b"".join(len(word).to_bytes(4, "little") + word for word in words.ravel())


@case(of="grpc_client")
def every_call_of_the_generated_stub_answers(addresses: Addresses) -> None:
    with grpc.insecure_channel(addresses.open) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        assert stub.ServerLive(service_pb2.ServerLiveRequest(), timeout=WAIT_S).live
        assert stub.ServerReady(service_pb2.ServerReadyRequest(), timeout=WAIT_S).ready
        assert stub.ModelReady(service_pb2.ModelReadyRequest(name="simple", version="1"), timeout=WAIT_S).ready
        assert stub.ServerMetadata(service_pb2.ServerMetadataRequest(), timeout=WAIT_S).extensions
        named = stub.ModelMetadata(service_pb2.ModelMetadataRequest(name="simple"), timeout=WAIT_S)
        assert named.name == "simple"
        config = stub.ModelConfig(service_pb2.ModelConfigRequest(name="simple"), timeout=WAIT_S).config
        assert config.name == "simple"
        request = service_pb2.ModelInferRequest(model_name="simple", raw_input_contents=[A.tobytes(), B.tobytes()])
        for name in ("INPUT0", "INPUT1"):
            request.inputs.add(name=name, datatype="INT32", shape=[1, 16])
        answer = stub.ModelInfer(request, timeout=WAIT_S)
    assert list(answer.raw_output_contents) == [(A + B).tobytes(), (A - B).tobytes()]


@case(of="grpc_explicit_int_content_client")
def int32_is_written_out(addresses: Addresses) -> None:
    request = asked("simple", "INT32", "int_contents", A.ravel().tolist(), B.ravel().tolist())
    assert answered(addresses, request) == [(A + B).tobytes(), (A - B).tobytes()]


@case(of="grpc_explicit_int8_content_client")
def int8_is_written_out(addresses: Addresses) -> None:
    request = asked("simple_int8", "INT8", "int_contents", A.ravel().tolist(), B.ravel().tolist())
    assert answered(addresses, request) == [numbers.astype(np.int8).tobytes() for numbers in (A + B, A - B)]


@case(of="grpc_explicit_byte_content_client")
def strings_are_written_out(addresses: Addresses) -> None:
    words = [as_words(numbers).ravel().tolist() for numbers in (A, B)]
    request = asked("simple_string", "BYTES", "bytes_contents", *words)
    assert answered(addresses, request) == [lengths_and_texts(as_words(numbers)) for numbers in (A + B, A - B)]


@case(of="grpc_image_client")
def classes_are_asked_for_by_a_parameter(addresses: Addresses) -> None:
    request = service_pb2.ModelInferRequest(model_name="classifier", raw_input_contents=[SCORES.tobytes()])
    request.inputs.add(name="FEATURES", datatype="FP32", shape=[1, 8])
    request.outputs.add(name="SCORES").parameters["classification"].int64_param = 1
    with grpc.insecure_channel(addresses.open) as channel:
        answer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=WAIT_S)
    best = b"0.900000:1:kind-1"
    assert answer.raw_output_contents[0] == len(best).to_bytes(4, "little") + best
    assert answer.outputs[0].datatype == "BYTES"


@case(of="simple_grpc_custom_args_client")
def a_channel_has_arguments_of_its_own(addresses: Addresses) -> None:
    here = over_grpc(addresses)
    arguments = [
        ("grpc.max_send_message_length", 1 << 20),
        ("grpc.max_receive_message_length", 1 << 20),
        ("grpc.keepalive_time_ms", 2**31 - 1),
        ("grpc.http2.max_pings_without_data", 2),
        ("grpc.dns_enable_srv_queries", 1),
    ]
    with connected(here, channel_args=arguments) as client:
        result = client.infer("simple", simple_inputs(here), outputs=outputs(here, "OUTPUT0", "OUTPUT1"))
        added(both_outputs(result))


@case(of="simple_grpc_keepalive_client")
def a_channel_is_kept_alive(addresses: Addresses) -> None:
    here = over_grpc(addresses)
    options = tritonclient.grpc.KeepAliveOptions(
        keepalive_time_ms=2**31 - 1,
        keepalive_timeout_ms=20_000,
        keepalive_permit_without_calls=False,
        http2_max_pings_without_data=2,
    )
    with connected(here, keepalive_options=options) as client:
        added(both_outputs(client.infer("simple", simple_inputs(here))))


@case(of="simple_grpc_sequence_stream_infer_client", skipped=NO_STATE)
def sums_are_kept_between_requests_of_a_stream(addresses: Addresses) -> None: ...


@case(of="simple_grpc_aio_sequence_stream_infer_client", skipped=NO_STATE)
def sums_are_kept_between_awaited_requests_of_a_stream(addresses: Addresses) -> None: ...


@case(
    of="simple_grpc_custom_repeat",
    skipped="decoupled models: an ONNX model gives one answer to one request, never several",
)
def one_request_gets_ten_answers(addresses: Addresses) -> None: ...
