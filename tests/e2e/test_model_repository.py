"""A folder in Triton's layout, served: three models as a Triton user has them, asked with Triton's own clients."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.support import command_line, model_repositories, serving, triton_clients
from tests.support.serving import Server, until
from tests.support.wire import Http, assert_same

INPUTS = {"x": np.arange(8, dtype=np.float32).reshape(2, 4)}
CONFIG = """
name: "fraud"
platform: "onnxruntime_onnx"
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 2 ] label_filename: "labels.txt" } ]
dynamic_batching { preferred_batch_size: [ 4 ] max_queue_delay_microseconds: 2000 }
instance_group [ { count: 2 kind: KIND_GPU } ]
"""
GRID = """
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 2, 2 ] reshape { shape: [ 4 ] } } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 1, 2 ] reshape { shape: [ 2 ] } } ]
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    (model_repositories.add(folder, "fraud", CONFIG) / "labels.txt").write_text("good\nbad\n")
    model_repositories.add(folder, "churn", "version_policy { latest { num_versions: 2 } }", versions=(1, 2, 3))
    model_repositories.add(folder, "grid", GRID)
    model_repositories.add_other(folder, "vision", "model.plan", 'platform: "tensorrt_plan"')
    return folder


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Server]:
    command = [*serving.flyball(), "serve", "--model-repository", str(repository), "--listen", "127.0.0.1:0"]
    with serving.serving(command) as running:
        yield running


def expected(repository: Path, name: str, version: int) -> dict[str, np.ndarray]:
    path = repository / name / str(version) / "model.onnx"
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return {"y": session.run(["y"], INPUTS)[0]}


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize(
    ("model", "version", "file"), [("fraud", "", 1), ("fraud", "1", 1), ("churn", "", 3), ("churn", "2", 2)]
)
def test_a_version_answers_as_its_file_does(server: Server, protocol: str, model: str, version: str, file: int) -> None:
    client_of, infer = {
        "http": (triton_clients.http_client, triton_clients.http_infer),
        "grpc": (triton_clients.grpc_client, triton_clients.grpc_infer),
    }[protocol]
    with client_of(server) as client:
        assert_same(infer(client, model, INPUTS, version=version), expected(_repository_of(server), model, file))


def _repository_of(server: Server) -> Path:
    words = [str(word) for word in server.process.args]
    return Path(words[words.index("--model-repository") + 1])


def test_what_the_policy_leaves_out_and_what_is_not_ours_is_not_there(server: Server) -> None:
    with triton_clients.http_client(server) as client:
        assert client.is_server_ready()
        assert client.is_model_ready("churn", "3")
        assert not client.is_model_ready("churn", "1")
        assert not client.is_model_ready("vision")
        assert client.get_model_metadata("churn")["versions"] == ["2", "3"]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_reshaped_tensor_has_the_configured_shape_for_clients(server: Server, protocol: str) -> None:
    client_of, infer = {
        "http": (triton_clients.http_client, triton_clients.http_infer),
        "grpc": (triton_clients.grpc_client, triton_clients.grpc_infer),
    }[protocol]
    want = expected(_repository_of(server), "grid", 1)["y"].reshape(2, 1, 2)
    with client_of(server) as client:
        assert_same(infer(client, "grid", {"x": INPUTS["x"].reshape(2, 2, 2)}), {"y": want})
        with pytest.raises(InferenceServerException, match=r"\[2,4\]|\[2, 4\]"):
            infer(client, "grid", INPUTS)
    with triton_clients.http_client(server) as client:
        metadata, config = client.get_model_metadata("grid"), client.get_model_config("grid")
        top = triton_http.InferRequestedOutput("y", class_count=1)
        tensor = triton_http.InferInput("x", [2, 2, 2], "FP32")
        tensor.set_data_from_numpy(INPUTS["x"].reshape(2, 2, 2))
        classes = client.infer("grid", [tensor], outputs=[top]).as_numpy("y")
    assert (metadata["inputs"][0]["shape"], metadata["outputs"][0]["shape"]) == ([-1, 2, 2], [-1, 1, 2])
    assert (config["input"][0]["dims"], config["output"][0]["dims"]) == ([2, 2], [1, 2])
    assert [int(text.split(b":")[1]) for text in classes.ravel()] == list(want.reshape(2, 2).argmax(axis=1))


def test_the_labels_of_the_repository_name_the_classes(server: Server) -> None:
    tensor = triton_http.InferInput("x", [2, 4], "FP32")
    tensor.set_data_from_numpy(INPUTS["x"])
    with triton_clients.http_client(server) as client:
        result = client.infer("fraud", [tensor], outputs=[triton_http.InferRequestedOutput("y", class_count=1)])
    highest = expected(_repository_of(server), "fraud", 1)["y"].argmax(axis=1)
    named = [text.decode().split(":")[1:] for text in result.as_numpy("y").ravel()]
    assert named == [[str(place), ("good", "bad")[place]] for place in highest]


def test_a_load_takes_up_what_is_new_in_the_repository(start: Callable[..., Server], tmp_path: Path) -> None:
    model_repositories.add(tmp_path, "fraud")
    command = [*serving.flyball(), "serve", "--model-repository", str(tmp_path), "--listen", "127.0.0.1:0"]
    server = start(*command, "--allow-model-control")
    model_repositories.add(tmp_path, "fraud", versions=(2,))
    model_repositories.add(tmp_path, "fresh")
    with triton_clients.http_client(server) as client:
        for name in ("fraud", "fresh"):
            client.load_model(name)
        assert client.is_model_ready("fraud", "2")
        assert client.is_model_ready("fresh")
        (tmp_path / "fraud/config.pbtxt").write_text("name: {")
        with pytest.raises(InferenceServerException, match=r"cannot parse config\.pbtxt"):
            client.load_model("fraud")
        assert client.is_model_ready("fraud", "2")
    assert server.stop().code == 0


def test_the_log_tells_of_the_refused_model_and_of_the_field_that_does_not_map(server: Server) -> None:
    refused = server.log_line(lambda fields: fields.get("message") == "model refused")
    assert (refused["model"], refused["reason"].split(":")[0]) == ("vision", 'platform "tensorrt_plan"')
    differs = server.log_line(lambda fields: fields.get("message") == "model configuration does not map")
    assert (differs["level"], differs["model"], differs["field"]) == ("WARN", "fraud", "instance_group(count, kind)")


def test_sighup_reads_the_repository_again(start: Callable[..., Server], tmp_path: Path) -> None:
    model_repositories.add(tmp_path, "fraud")
    server = start(*serving.flyball(), "serve", "--model-repository", tmp_path, "--listen", "127.0.0.1:0")
    assert server.models == {"fraud:1"}
    model_repositories.add(tmp_path, "fraud", versions=(2,))
    model_repositories.add(tmp_path, "fresh")
    server.signal(signal.SIGHUP)
    with Http(server) as connection:
        until("the new model is ready", lambda: connection.get("/v2/models/fresh/ready").status == 200 or None)
        until("the new version is ready", lambda: connection.get("/v2/models/fraud/versions/2/ready").status == 200 or None)
        assert connection.get("/v2/models/fraud/versions/1/ready").status != 200
        (tmp_path / "fraud/config.pbtxt").write_text("name: {")
        server.signal(signal.SIGHUP)
        server.log_line(lambda fields: fields.get("message") == "model refused" and fields.get("model") == "fraud")
        assert connection.get("/v2/models/fraud/versions/2/ready").status == 200
    assert server.stop().code == 0


def test_a_repository_packed_to_a_snapshot_is_served_without_python(
    start: Callable[..., Server], repository: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    packed = command_line.flyball("snapshot", "--model-repository", repository, "--out", out)
    assert packed.code == 0, packed.text
    server = start(*serving.flyballd(), "--snapshot", out / "index.json", "--listen", "127.0.0.1:0")
    with triton_clients.grpc_client(server) as client:
        assert_same(triton_clients.grpc_infer(client, "churn", INPUTS), expected(repository, "churn", 3))
    assert server.stop().code == 0
