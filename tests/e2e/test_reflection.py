"""Server reflection, as grpcurl uses it: services are listed, and their descriptors are enough to make a call."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

from tests.support.onnx_models import Arrays, row
from tests.support.serving import REPOSITORY, Server
from tests.support.wire import assert_same

Reference = Callable[[str, Arrays], Arrays]
VERSIONS = ["v1", "v1alpha"]
NOT_FOUND, UNIMPLEMENTED = 5, 12


def compiled(folder: Path) -> Any:
    """The reflection messages of our own proto file, in a pool of their own."""
    target = folder / "reflection.bin"
    arguments = ["protoc", f"-I{REPOSITORY / 'proto'}", f"--descriptor_set_out={target}", "reflection.proto"]
    assert protoc.main(arguments) == 0
    return pool_of(descriptor_pb2.FileDescriptorSet.FromString(target.read_bytes()).file)


def pool_of(files: Any) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.Add(file)
    return pool


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    pool = compiled(tmp_path_factory.mktemp("reflection"))

    def named(name: str) -> Any:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"grpc.reflection.v1.{name}"))

    return named


def ask(server: Server, messages: Callable[[str], Any], version: str, *requests: dict[str, Any]) -> list[Any]:
    request, response = messages("ServerReflectionRequest"), messages("ServerReflectionResponse")
    with grpc.insecure_channel(server.address) as channel:
        call = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        return list(call(iter([request(**one) for one in requests]), timeout=10))


@pytest.mark.parametrize("version", VERSIONS)
def test_services_are_listed_and_each_is_described(strict: Server, messages: Callable[[str], Any], version: str) -> None:
    [listed] = ask(strict, messages, version, {"list_services": ""})
    names = [service.name for service in listed.list_services_response.service]
    assert {"inference.GRPCInferenceService", "grpc.health.v1.Health"} <= set(names)
    answers = ask(strict, messages, version, *({"file_containing_symbol": name} for name in names))
    for name, answer in zip(names, answers, strict=True):
        files = [
            descriptor_pb2.FileDescriptorProto.FromString(file)
            for file in answer.file_descriptor_response.file_descriptor_proto
        ]
        pool = pool_of(reversed(files))  # what is imported comes after what imports it
        assert pool.FindServiceByName(name).methods, name


def test_a_call_can_be_made_from_the_descriptors_alone(
    strict: Server, messages: Callable[[str], Any], reference: Reference
) -> None:
    [answer] = ask(strict, messages, "v1", {"file_containing_symbol": "inference.GRPCInferenceService.ModelInfer"})
    files = answer.file_descriptor_response.file_descriptor_proto
    pool = pool_of(reversed([descriptor_pb2.FileDescriptorProto.FromString(file) for file in files]))
    method = pool.FindServiceByName("inference.GRPCInferenceService").FindMethodByName("ModelInfer")
    asked, answered = map(message_factory.GetMessageClass, (method.input_type, method.output_type))
    inputs = row("linear", 5)
    tensor = {"name": "x", "datatype": "FP32", "shape": list(inputs["x"].shape)}
    request = asked(model_name="linear", inputs=[tensor], raw_input_contents=[inputs["x"].tobytes()])
    with grpc.insecure_channel(strict.address) as channel:
        call = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelInfer",
            request_serializer=asked.SerializeToString,
            response_deserializer=answered.FromString,
        )
        response = call(request, timeout=10)
    shapes = {output.name: list(output.shape) for output in response.outputs}
    raws = zip(shapes.items(), response.raw_output_contents, strict=True)
    got = {name: np.frombuffer(raw, np.float32).reshape(shape) for (name, shape), raw in raws}
    assert_same(got, reference("linear", inputs))


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_not_there_is_an_error_and_the_stream_goes_on(
    strict: Server, messages: Callable[[str], Any], version: str
) -> None:
    asked = [
        {"file_containing_symbol": "no.such.Thing"},
        {"file_by_filename": "no.proto"},
        {"all_extension_numbers_of_type": "inference.ModelInferRequest"},
        {},
        {"list_services": ""},
    ]
    answers = ask(strict, messages, version, *asked)
    codes = [answer.error_response.error_code for answer in answers]
    assert codes == [NOT_FOUND, NOT_FOUND, NOT_FOUND, UNIMPLEMENTED, 0]
