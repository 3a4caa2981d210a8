"""A folder in Triton's layout, served: three models as a Triton user has them, asked with Triton's own clients."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from onnx import TensorProto, helper, numpy_helper
from tritonclient.utils import InferenceServerException

from tests.support import command_line, model_repositories, onnx_models, serving, triton_clients
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
input [ { name: "x" data_type: TYPE_FP32 format: FORMAT_NCHW dims: [ 1, 2, 2 ] reshape { shape: [ 4 ] } } ]
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
def test_bytes_that_are_not_utf_8_pass_through_a_model_that_only_moves_them(
    start: Callable[..., Server], tmp_path: Path, protocol: str
) -> None:
    path = model_repositories.add(tmp_path, "echo") / "1/model.onnx"
    tensors = [onnx_models.value(name, TensorProto.STRING, ["n"]) for name in "xy"]
    onnx_models.save(path, [helper.make_node("Identity", ["x"], ["y"])], tensors[:1], tensors[1:])
    server = start(*serving.flyball(), "serve", "--model-repository", tmp_path, "--listen", "127.0.0.1:0")
    library, client_of = {
        "http": (triton_http, triton_clients.http_client),
        "grpc": (triton_grpc, triton_clients.grpc_client),
    }[protocol]
    sent = np.array([b"\xff\xfe", b"", b"\x00\x80", "grün".encode()], np.object_)
    tensor = library.InferInput("x", [4], "BYTES")
    tensor.set_data_from_numpy(sent)
    with client_of(server) as client:
        assert client.infer("echo", [tensor]).as_numpy("y").tolist() == sent.tolist()


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_reshaped_tensor_has_the_configured_shape_for_clients(server: Server, protocol: str) -> None:
    client_of, infer = {
        "http": (triton_clients.http_client, triton_clients.http_infer),
        "grpc": (triton_clients.grpc_client, triton_clients.grpc_infer),
    }[protocol]
    want = expected(_repository_of(server), "grid", 1)["y"].reshape(2, 1, 2)
    with client_of(server) as client:
        assert_same(infer(client, "grid", {"x": INPUTS["x"].reshape(2, 1, 2, 2)}), {"y": want})
        with pytest.raises(InferenceServerException, match=r"\[2,4\]|\[2, 4\]"):
            infer(client, "grid", INPUTS)
    with triton_clients.http_client(server) as client:
        metadata, config = client.get_model_metadata("grid"), client.get_model_config("grid")
        top = triton_http.InferRequestedOutput("y", class_count=1)
        tensor = triton_http.InferInput("x", [2, 1, 2, 2], "FP32")
        tensor.set_data_from_numpy(INPUTS["x"].reshape(2, 1, 2, 2))
        classes = client.infer("grid", [tensor], outputs=[top]).as_numpy("y")
    assert (metadata["inputs"][0]["shape"], metadata["outputs"][0]["shape"]) == ([-1, 1, 2, 2], [-1, 1, 2])
    assert (config["input"][0]["dims"], config["output"][0]["dims"]) == ([1, 2, 2], [1, 2])
    assert config["input"][0]["format"] == "FORMAT_NCHW"
    assert (config["input"][0]["reshape"], config["output"][0]["reshape"]) == ({"shape": [4]}, {"shape": [2]})
    with triton_clients.grpc_client(server) as client:
        message = client.get_model_config("grid").config
    assert message.input[0].format == message.input[0].FORMAT_NCHW
    assert (list(message.input[0].reshape.shape), list(message.output[0].reshape.shape)) == ([4], [2])
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


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_client_s_configuration_replaces_the_file_until_the_file_changes(
    start: Callable[..., Server], tmp_path: Path, protocol: str
) -> None:
    model_repositories.add(tmp_path, "fraud", "max_batch_size: 8", versions=(1, 2))
    flags = ["--model-control-mode", "explicit", "--load-model", "fraud", "--listen", "127.0.0.1:0"]
    server = start(*serving.flyball(), "serve", "--model-repository", tmp_path, *flags)
    client_of = {"http": triton_clients.http_client, "grpc": triton_clients.grpc_client}[protocol]

    def rows_max() -> int:
        with triton_clients.http_client(server) as asking:
            return int(asking.get_model_config("fraud")["max_batch_size"])

    with client_of(server) as client:
        client.load_model("fraud", config='{"max_batch_size": 4, "version_policy": {"specific": {"versions": [1]}}}')
        assert rows_max() == 4
        assert not client.is_model_ready("fraud", "2")
        with pytest.raises(InferenceServerException, match="config: not a model configuration in JSON"):
            client.load_model("fraud", config='{"max_batch": 16}')
        client.load_model("fraud")
        assert rows_max() == 4
        client.unload_model("fraud")
        client.load_model("fraud")
        assert rows_max() == 8
        client.load_model("fraud", config='{"max_batch_size": 4}')
        (tmp_path / "fraud/config.pbtxt").write_text("max_batch_size: 2")
        client.load_model("fraud")
        assert rows_max() == 2
        assert client.is_model_ready("fraud", "2")
    assert server.stop().code == 0


def test_an_optional_input_has_the_model_s_constant_where_a_request_leaves_it_out(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    """y = x * scale, with 3 as the scale's default."""
    (tmp_path / "scaled/1").mkdir(parents=True)
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 1]) for name in ("x", "scale", "y")]
    default = numpy_helper.from_array(np.array([[3]], np.float32), "scale")
    graph = helper.make_graph([helper.make_node("Mul", ["x", "scale"], ["y"])], "g", tensors[:2], tensors[2:], [default])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "scaled/1/model.onnx"))
    (tmp_path / "scaled/config.pbtxt").write_text("""
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] }, { name: "scale" data_type: TYPE_FP32 dims: [ 1 ] optional: true } ]
""")
    command = [*serving.flyball(), "serve", "--model-repository", tmp_path, "--listen", "127.0.0.1:0"]
    server = start(*command)
    x, scale = np.array([[1], [2]], np.float32), np.array([[5], [7]], np.float32)
    with triton_clients.grpc_client(server) as client:
        infer = triton_clients.grpc_infer
        assert_same(infer(client, "scaled", {"x": x}), {"y": x * 3})
        assert_same(infer(client, "scaled", {"x": x, "scale": scale}), {"y": x * scale})
        with pytest.raises(InferenceServerException, match="expected number of inputs between 1 and 2 but got 1 inputs"):
            infer(client, "scaled", {"scale": scale})
        config = client.get_model_config("scaled").config
    assert [(tensor.name, tensor.optional) for tensor in config.input] == [("x", False), ("scale", True)]


@pytest.mark.parametrize(("protocol", "prefix"), [("http", ""), ("grpc", "triton-grpc-protocol-")])
def test_a_restricted_api_needs_its_header(
    repository: Path, start: Callable[..., Server], protocol: str, prefix: str
) -> None:
    flags = ["--restricted-api", "inference,metadata:key=secret", "--listen", "127.0.0.1:0"]
    server = start(*serving.flyball(), "serve", "--model-repository", repository, *flags)
    client_of = {"http": triton_clients.http_client, "grpc": triton_clients.grpc_client}[protocol]
    with client_of(server) as client:
        assert client.is_server_ready()
        with pytest.raises(InferenceServerException, match=f"is restricted, expecting header '{prefix}key'"):
            client.get_server_metadata(headers={f"{prefix}key": "wrong"})
        client.get_server_metadata(headers={f"{prefix}key": "secret"})


def listed(client: triton_http.InferenceServerClient) -> dict[str, tuple[str | None, str]]:
    return {line["name"]: (line.get("state"), line.get("reason", "")) for line in client.get_model_repository_index()}


def test_a_refused_model_is_listed_with_its_reason_and_only_strict_readiness_minds(
    server: Server, start: Callable[..., Server]
) -> None:
    with triton_clients.http_client(server) as client:
        assert client.is_server_ready()
        state, reason = listed(client)["vision"]
    assert (state, reason.split(":")[0]) == ("UNAVAILABLE", 'platform "tensorrt_plan"')
    with Http(server) as connection:
        answer = connection.get("/v2/models/vision/ready")
        assert answer.status == 400
        assert 'platform "tensorrt_plan"' in answer.json["error"]
    command = [*serving.flyball(), "serve", "--model-repository", str(_repository_of(server)), "--listen", "127.0.0.1:0"]
    strict = start(*command, "--strict-readiness")
    with triton_clients.http_client(strict) as client:
        assert not client.is_server_ready()
        assert client.is_model_ready("fraud")


def test_in_explicit_mode_clients_load_what_was_not_named(start: Callable[..., Server], tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    model_repositories.add(one, "fraud")
    model_repositories.add(two, "churn")
    flags = ["--model-control-mode", "explicit", "--load-model", "fraud", "--strict-readiness", "--listen", "127.0.0.1:0"]
    server = start(*serving.flyball(), "serve", "--model-repository", one, "--model-repository", two, *flags)
    with triton_clients.http_client(server) as client:
        assert listed(client) == {"churn": (None, ""), "fraud": ("READY", "")}
        assert client.is_server_ready(), "nobody asked for churn"
        with pytest.raises(InferenceServerException, match="'churn' is not found; it is not loaded"):
            client.get_model_metadata("churn")
        client.load_model("churn")
        client.unload_model("fraud")
        until("fraud is gone", lambda: listed(client)["fraud"] == ("UNAVAILABLE", "unloaded") or None)
        assert listed(client)["churn"] == ("READY", "")
        assert client.is_server_ready()
    assert server.stop().code == 0


def test_in_poll_mode_the_repository_is_followed(start: Callable[..., Server], tmp_path: Path) -> None:
    model_repositories.add(tmp_path, "fraud")
    flags = ["--model-control-mode", "poll", "--repository-poll-secs", "0.1", "--listen", "127.0.0.1:0"]
    server = start(*serving.flyball(), "serve", "--model-repository", tmp_path, *flags)
    model_repositories.add(tmp_path, "fresh")
    model_repositories.add(tmp_path, "fraud", versions=(2,))
    with triton_clients.http_client(server) as client:
        until("the new model", lambda: client.is_model_ready("fresh") or None)
        until("the new version", lambda: client.is_model_ready("fraud", "2") or None)
        with pytest.raises(InferenceServerException, match="is not allowed if polling is enabled"):
            client.load_model("fraud")
        (tmp_path / "fresh").rename(tmp_path / ".fresh")
        until("the removed model", lambda: not client.is_model_ready("fresh") or None)
    assert server.stop().code == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--model-control-mode", "manual"], "'manual' is not one of none, poll, explicit"),
        (["--load-model", "fraud"], "--load-model needs --model-control-mode explicit"),
        (["--repository-poll-secs", "1"], "--repository-poll-secs needs --model-control-mode poll"),
        (["--model-control-mode", "poll", "--repository-poll-secs", "0"], "not between 0.1 and 86400 seconds"),
        (["--model-control-mode", "poll", "--allow-model-control"], "exclude each other"),
        (["--model-control-mode", "explicit", "--load-model", "no"], "has no model 'no'"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(repository: Path, flags: list[str], said: str) -> None:
    ended = command_line.flyball("serve", "--model-repository", repository, *flags)
    assert ended.code == 2
    assert said in " ".join(ended.stderr)


def test_tritons_metrics_count_what_its_clients_sent(server: Server) -> None:
    def series(name: str) -> float:
        with Http(server) as connection:
            page = connection.get("/metrics/triton").body.decode()
        label = f'{name}{{model="fraud",version="1"'
        return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(label))

    before = {name: series(f"nv_inference_{name}") for name in ("request_success", "count", "request_failure")}
    with triton_clients.http_client(server) as client:
        triton_clients.http_infer(client, "fraud", INPUTS)
        with pytest.raises(InferenceServerException):
            triton_clients.http_infer(client, "fraud", {"x": INPUTS["x"].astype(np.float64)})
    after = {name: series(f"nv_inference_{name}") for name in before}
    assert {name: after[name] - before[name] for name in before} == {"request_success": 1, "count": 2, "request_failure": 1}
    assert series("nv_inference_pending_request_count") == 0


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
