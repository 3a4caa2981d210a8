"""The gRPC client against a real gRPC server in this process, and beside another client of the same protocol."""

import importlib
import importlib.util
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest

from flyball import Client, errors
from flyball.client import _oip_pb2 as messages

ROOT = Path(__file__).parents[2]
ROW = {"x": np.ones((1, 2), np.float32)}


class Service(grpc.GenericRpcHandler):
    def __init__(self):
        self.failure = None
        self.seen = []
        self.inputs = [("x", "FP32", [-1, 2])]

    def service(self, details):
        method = details.method.rpartition("/")[2]
        request = getattr(messages, f"{method}Request")
        return grpc.unary_unary_rpc_method_handler(
            getattr(self, method), request.FromString, getattr(messages, f"{method}Response").SerializeToString
        )

    def ServerLive(self, request, context):  # noqa: N802 - the protocol's names
        return messages.ServerLiveResponse(live=True)

    def ServerReady(self, request, context):  # noqa: N802
        return messages.ServerReadyResponse(ready=True)

    def ModelReady(self, request, context):  # noqa: N802
        return messages.ModelReadyResponse(ready=request.version == "2")

    def ModelMetadata(self, request, context):  # noqa: N802
        answer = messages.ModelMetadataResponse(name=request.name, versions=["1"], platform="p")
        for name, datatype, shape in self.inputs:
            answer.inputs.add(name=name, datatype=datatype, shape=shape)
        return answer

    def ModelInfer(self, request, context):  # noqa: N802
        self.seen.append((request, context.time_remaining()))
        if self.failure:
            context.abort(*self.failure)
        answer = messages.ModelInferResponse(model_name=request.model_name, id=request.id)
        for tensor in request.inputs:
            answer.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        answer.raw_output_contents.extend(request.raw_input_contents)
        return answer


@pytest.fixture
def service():
    return Service()


@pytest.fixture
def client(service):
    server = grpc.server(ThreadPoolExecutor(2), handlers=[service])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with Client(f"grpc://127.0.0.1:{port}", deadline_ms=5000) as made:
        yield made
    server.stop(None).wait()


def test_arrays_come_back_equal(client, service):
    inputs = {
        "x": np.array([[1.5, np.inf]], np.float32),
        "words": np.array(["ä", ""], dtype=object),
        "h": np.ones(1, np.float16),
    }
    service.inputs += [("words", "BYTES", [-1]), ("h", "FP16", [-1])]
    answer = client.infer("m", inputs, id="7", version="2", outputs=["x"])
    for name, array in inputs.items():
        np.testing.assert_array_equal(answer[name], array)
    request, left_s = service.seen[0]
    assert (request.model_version, request.id, request.outputs[0].name) == ("2", "7", "x")
    assert left_s < 60, "a call without a deadline has years left"


def test_plain_lists_and_metadata_and_health(client):
    assert client.infer("m", {"x": [[1, 2]]})["x"].dtype == np.float32
    assert client.metadata("m").inputs[0].shape == (-1, 2)
    assert client.live()
    assert client.ready()
    assert client.ready("m", version="2")
    assert not client.ready("m")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("INVALID_ARGUMENT", errors.InvalidInputError),
        ("NOT_FOUND", errors.NotFoundError),
        ("RESOURCE_EXHAUSTED", errors.OverloadedError),
        ("INTERNAL", errors.ServerFaultError),
        ("DEADLINE_EXCEEDED", errors.DeadlineError),
    ],
)
def test_a_status_becomes_its_error_with_the_servers_text(client, service, status, kind):
    service.failure = (grpc.StatusCode[status], "the text")
    with pytest.raises(kind, match="the text"):
        client.infer("m", ROW)
    assert len(service.seen) == 1


def test_an_unknown_version_has_a_code_of_its_own(client, service):
    service.failure = (grpc.StatusCode.NOT_FOUND, "Request for unknown model: 'm' version 9 is not found; it has 1")
    with pytest.raises(errors.NotFoundError) as caught:
        client.infer("m", ROW, version=9)
    assert caught.value.code == "version_not_found"
    assert service.seen[0][0].model_version == "9"


def test_nobody_there_is_unreachable():
    with Client("grpc://127.0.0.1:1", deadline_ms=5000) as client:
        with pytest.raises(errors.UnreachableError, match="flyball serve") as caught:
            client.infer("m", ROW)
        assert (caught.value.code, caught.value.maybe_served) == ("unreachable", False)
        assert client.live() is False


def test_without_grpcio_the_error_gives_the_pip_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(errors.MissingExtraError, match=r"pip install 'flyball\[grpc\]'"):
        Client("grpc://h:1")


def test_our_messages_and_tritonclients_live_in_one_process():
    triton = importlib.import_module("tritonclient.grpc")
    theirs = triton.service_pb2.ModelInferRequest(model_name="m", id="7")
    assert messages.ModelInferRequest.FromString(theirs.SerializeToString()).id == "7"


def test_the_generated_files_are_those_of_the_proto():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "proto/generate.py")
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    for name, content in generator.generate().items():
        kept = (ROOT / "python/flyball" / name).read_text()
        assert kept == content, "write them anew:  python proto/generate.py"
