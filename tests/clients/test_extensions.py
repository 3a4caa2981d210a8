"""Triton's extensions, asked with Triton's own clients: the same answers over HTTP and gRPC, and the same refusals."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from tests.support import serving, snapshots
from tests.support.onnx_models import Arrays, row
from tests.support.serving import Server, until
from tests.support.triton_clients import grpc_client, grpc_infer, http_client, http_infer
from tests.support.wire import assert_same, metrics

Model = Callable[[str], Path]
Reference = Callable[[str, Arrays], Arrays]
Started = Callable[..., Server]
REGION_BYTES = 64
ALL_ALLOWED = {"allow_model_control": True, "allow_shared_memory": True}


@dataclass(frozen=True)
class Protocol:
    """One of Triton's clients, and how it shows what came back."""

    name: str
    client: Callable[[Server], contextlib.AbstractContextManager[Any]]
    infer: Callable[..., Arrays]

    def seen(self, answer: Any) -> Any:
        """Answers by attribute, as protobuf messages have them."""
        return json.loads(json.dumps(answer), object_hook=lambda d: SimpleNamespace(**d)) if self.name == "http" else answer

    def statistics(self, client: Any, *model: str) -> list[Any]:
        return list(self.seen(client.get_inference_statistics(*model)).model_stats)

    def config(self, client: Any, model: str) -> Any:
        answer = self.seen(client.get_model_config(model))
        return answer if self.name == "http" else answer.config

    def index(self, client: Any) -> list[tuple[str, str, str, str]]:
        answer = client.get_model_repository_index()
        lines = answer if self.name == "http" else [
            {"name": m.name, "version": m.version, "state": m.state, "reason": m.reason} for m in answer.models
        ]  # fmt: skip
        return [(m["name"], m.get("version", ""), m["state"], m.get("reason", "")) for m in lines]

    def regions(self, client: Any) -> dict[str, tuple[str, int, int]]:
        answer = client.get_system_shared_memory_status()
        if self.name == "http":
            return {r["name"]: (r["key"], r["offset"], r["byte_size"]) for r in answer}
        return {name: (r.key, r.offset, r.byte_size) for name, r in answer.regions.items()}

    def refused(self, status: str, ask: Callable[[], Any]) -> str:
        """The text of a refusal that has this gRPC status, or the HTTP status that stands for it."""
        wanted = {"http": HTTP_OF_GRPC[status], "grpc": f"StatusCode.{status}"}[self.name]
        with pytest.raises(InferenceServerException) as raised:
            ask()
        assert raised.value.status() == wanted, raised.value
        return str(raised.value.message())


HTTP_OF_GRPC = {"INVALID_ARGUMENT": "400", "NOT_FOUND": "404", "UNIMPLEMENTED": "501", "UNAVAILABLE": "503"}
PROTOCOLS = [Protocol("http", http_client, http_infer), Protocol("grpc", grpc_client, grpc_infer)]
each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)


@pytest.fixture
def begin(start: Started, model: Model, tmp_path: Path) -> Started:
    """A server with test models by name, and settings as they are given."""

    def begun(*names: str, documents: list[dict[str, Any]] | None = None, **settings: Any) -> Server:
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"listen": ["127.0.0.1:0"], **settings}))
        deployments = documents or [snapshots.deployment(name, model(name)) for name in names]
        index = snapshots.write(tmp_path / "snapshot", 1, deployments)
        return start(*serving.flyballd(), "--snapshot", index, "--config", config)

    return begun


@pytest.fixture
def memory() -> Iterator[Any]:
    region = shm.create_shared_memory_region("made", "/flyball-extensions", REGION_BYTES)
    try:
        yield region
    finally:
        shm.destroy_shared_memory_region(region)


def rows(model: str, count: int) -> Arrays:
    one = row(model, 1)
    return {name: np.concatenate([array] * count) for name, array in one.items()}


@each_protocol
def test_the_server_s_name_is_a_setting(begin: Started, protocol: Protocol) -> None:
    with protocol.client(begin("linear", server_name="triton")) as client:
        assert protocol.seen(client.get_server_metadata()).name == "triton"


@each_protocol
def test_statistics_of_an_unknown_version_are_refused_in_triton_s_words(begin: Started, protocol: Protocol) -> None:
    with protocol.client(begin("linear")) as client:
        text = protocol.refused("NOT_FOUND", lambda: protocol.statistics(client, "linear", "9"))
    assert text.startswith("requested model version is not available for model 'linear'")
    assert text.endswith("it has 1")


@each_protocol
def test_statistics_are_what_was_asked_and_answered(begin: Started, protocol: Protocol) -> None:
    server = begin("linear")
    before_ms = time.time_ns() // 1_000_000
    with protocol.client(server) as client:
        for count in (1, 1, 3):
            protocol.infer(client, "linear", rows("linear", count))
        protocol.refused("INVALID_ARGUMENT", lambda: protocol.infer(client, "linear", {"nobody": row("linear", 1)["x"]}))
        [told] = protocol.statistics(client, "linear")
    stats = told.inference_stats
    assert (told.name, told.version, told.inference_count, told.execution_count) == ("linear", "1", 5, 3)
    assert (stats.success.count, stats.fail.count) == (3, 1)
    parts = [stats.queue, stats.compute_input, stats.compute_infer, stats.compute_output]
    assert [part.count for part in parts] == [3] * 4
    assert all(part.ns > 0 for part in parts)
    assert sum(part.ns for part in parts) <= stats.success.ns
    assert {b.batch_size: (b.compute_infer.count, b.compute_infer.ns > 0) for b in told.batch_stats} == {
        1: (2, True),
        3: (1, True),
    }
    assert sum(b.compute_infer.ns for b in told.batch_stats) == stats.compute_infer.ns
    assert (stats.cache_hit.count, stats.cache_miss.count) == (0, 0)
    assert before_ms <= told.last_inference <= time.time_ns() // 1_000_000


@each_protocol
def test_statistics_of_all_models_name_each_version_once(begin: Started, protocol: Protocol) -> None:
    server = begin("linear", "many")
    with protocol.client(server) as client:
        everything = [(told.name, told.version) for told in protocol.statistics(client)]
        one = [(told.name, told.version, told.last_inference) for told in protocol.statistics(client, "many", "1")]
        protocol.refused("NOT_FOUND", lambda: protocol.statistics(client, "nobody"))
        protocol.refused("NOT_FOUND", lambda: protocol.statistics(client, "many", "9"))
    assert everything == [("linear", "1"), ("many", "1")]
    assert one == [("many", "1", 0)]


@each_protocol
def test_a_model_that_is_called_stats_can_be_called(
    begin: Started, protocol: Protocol, model: Model, reference: Reference
) -> None:
    server = begin(documents=[snapshots.deployment("stats", model("linear"))])
    with protocol.client(server) as client:
        inputs = row("linear", 3)
        assert_same(protocol.infer(client, "stats", inputs), reference("linear", inputs))
        assert client.is_model_ready("stats")
        assert [told.inference_count for told in protocol.statistics(client)] == [1]


@each_protocol
def test_the_configuration_says_how_a_model_is_served(begin: Started, protocol: Protocol, model: Model) -> None:
    waiting = snapshots.deployment("many", model("many"), batch={"size": 8, "window_ms": 2})
    server = begin(documents=[waiting, snapshots.deployment("fixed", model("fixed_batch"))], lanes=1)
    with protocol.client(server) as client:
        many, fixed = protocol.config(client, "many"), protocol.config(client, "fixed")
        protocol.refused("NOT_FOUND", lambda: protocol.config(client, "nobody"))
    assert (many.name, many.platform, many.backend) == ("many", "onnxruntime_onnx", "onnxruntime")
    assert many.max_batch_size == 64
    types = {"TYPE_FP32": 11, "TYPE_INT64": 9, "TYPE_BOOL": 1}
    code = (lambda name: name) if protocol.name == "http" else types.__getitem__
    assert [(i.name, i.data_type, list(i.dims)) for i in many.input] == [
        ("amounts", code("TYPE_FP32"), [3]),
        ("count", code("TYPE_INT64"), [1]),
        ("known", code("TYPE_BOOL"), [1]),
    ]
    assert list(many.dynamic_batching.preferred_batch_size) == [8]
    assert many.dynamic_batching.max_queue_delay_microseconds == 2000
    assert [group.count for group in many.instance_group] == [1]
    assert list(many.version_policy.specific.versions) == [1]
    assert many.model_transaction_policy.decoupled is False
    assert fixed.max_batch_size == 0
    batching = hasattr(fixed, "dynamic_batching") if protocol.name == "http" else fixed.HasField("dynamic_batching")
    assert not batching
    assert fixed.input[0].dims[0] > 0


@each_protocol
def test_an_unloaded_model_is_listed_refused_and_served_again_when_it_is_loaded(
    begin: Started, protocol: Protocol, reference: Reference
) -> None:
    server = begin("linear", "many", **ALL_ALLOWED)
    inputs = row("linear", 5)
    with protocol.client(server) as client:
        assert protocol.index(client) == [("linear", "1", "READY", ""), ("many", "1", "READY", "")]
        client.unload_model("linear")
        gone = ("linear", "1", "UNAVAILABLE", "unloaded")
        until("the last of it has left", lambda: protocol.index(client) == [gone, ("many", "1", "READY", "")] or None)
        assert not client.is_model_ready("linear")
        text = protocol.refused("UNAVAILABLE", lambda: protocol.infer(client, "linear", inputs))
        assert text == "Request for unknown model: 'linear' has no available versions: unloaded"
        client.unload_model("linear", unload_dependents=True)  # again, which is nothing to complain about
        client.load_model("linear")
        assert protocol.index(client)[0] == ("linear", "1", "READY", "")
        assert_same(protocol.infer(client, "linear", inputs), reference("linear", inputs))
        client.load_model("linear")  # what serves and has not changed stays


@each_protocol
def test_a_request_in_flight_ends_well_when_its_model_is_unloaded(
    begin: Started, protocol: Protocol, reference: Reference
) -> None:
    server = begin("slow", **ALL_ALLOWED)
    inputs = row("slow", 1)
    got: list[Arrays] = []
    refused: list[InferenceServerException] = []
    stop = threading.Event()

    def ask() -> None:
        with http_client(server) as own:
            while not stop.is_set() and not refused:
                try:
                    got.append(http_infer(own, "slow", inputs))
                except InferenceServerException as error:
                    refused.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        until("it answers", lambda: len(got) > 1 or None)
        with protocol.client(server) as client:
            client.unload_model("slow")
            until("it has left", lambda: protocol.index(client) == [("slow", "1", "UNAVAILABLE", "unloaded")] or None)
        until("a later request is refused", lambda: refused or None)
    finally:
        stop.set()
        asking.join(10)
    for answer in got:
        assert_same(answer, reference("slow", inputs))
    unloaded = "Request for unknown model: 'slow' has no available versions: unloaded"
    assert [(error.status(), error.message()) for error in refused] == [("503", unloaded)]
    ended = metrics(server)
    assert [ended.sum("flyball_requests_total", outcome=outcome) for outcome in ("failed", "abandoned")] == [0, 0]


@each_protocol
def test_what_cannot_be_loaded_is_refused_with_its_reason(begin: Started, protocol: Protocol, model: Model) -> None:
    broken = snapshots.deployment("broken", model("linear"), artifact_digest="sha256:" + "0" * 64)
    server = begin(documents=[snapshots.deployment("linear", model("linear")), broken], **ALL_ALLOWED)
    with protocol.client(server) as client:
        [listed, _] = protocol.index(client)
        assert listed[:3] == ("broken", "", "UNAVAILABLE")
        assert "0" * 64 in listed[3]
        text = protocol.refused("UNAVAILABLE", lambda: client.load_model("broken"))
        assert text.startswith("load failed for model 'broken': version 1: ")
        text = protocol.refused("NOT_FOUND", lambda: client.load_model("nobody"))
        assert text == "failed to load 'nobody', failed to poll from model repository"
        text = protocol.refused("NOT_FOUND", lambda: client.unload_model("nobody"))
        assert text == "Request for unknown model: 'nobody' is not found"
        text = protocol.refused("UNIMPLEMENTED", lambda: client.load_model("linear", config="{}"))
        assert "a load with 'config' is offered by `flyball serve --model-repository` alone" in text
        text = protocol.refused("UNIMPLEMENTED", lambda: client.load_model("linear", files={"file:1/model.onnx": b"x"}))
        assert "a load with 'file:1/model.onnx' is not offered" in text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (" ", "Model name cannot be empty. Please enter a valid name to deploy."),
        (" .. ", "model name must not contain path traversal characters"),
        ("a/../b", "model name must not contain path traversal characters"),
        ("..b", "failed to load '..b', failed to poll from model repository"),
    ],
)
def test_a_name_that_cannot_be_a_folder_s_is_refused(begin: Started, name: str, said: str) -> None:
    with grpc_client(begin("linear", **ALL_ALLOWED)) as client, pytest.raises(InferenceServerException) as raised:
        client.load_model(name)
    assert raised.value.message() == said


@each_protocol
def test_without_leave_models_cannot_be_loaded_and_memory_cannot_be_registered(begin: Started, protocol: Protocol) -> None:
    server = begin("linear")
    with protocol.client(server) as client:
        for ask in (lambda: client.load_model("linear"), lambda: client.unload_model("linear")):
            assert "--allow-model-control" in protocol.refused("UNAVAILABLE", ask)
        for ask in (
            lambda: client.register_system_shared_memory("r", "/k", 8),
            client.unregister_system_shared_memory,
        ):
            assert "--allow-shared-memory" in protocol.refused("UNIMPLEMENTED", ask)
        assert protocol.regions(client) == {}
        assert protocol.index(client) == [("linear", "1", "READY", "")]
        extensions = list(protocol.seen(client.get_server_metadata()).extensions)
    assert "system_shared_memory" not in extensions
    assert {"binary_tensor_data", "statistics", "model_configuration", "model_repository"} <= set(extensions)


@each_protocol
def test_regions_are_registered_listed_and_forgotten(begin: Started, protocol: Protocol, memory: Any) -> None:
    server = begin("linear", **ALL_ALLOWED)
    key = "/flyball-extensions"
    with protocol.client(server) as client:
        assert "system_shared_memory" in list(protocol.seen(client.get_server_metadata()).extensions)
        client.register_system_shared_memory("whole", key, REGION_BYTES)
        client.register_system_shared_memory("half", key, REGION_BYTES // 2, offset=REGION_BYTES // 2)
        wanted = {"whole": (key, 0, 64), "half": (key, 32, 32)}
        assert protocol.regions(client) == wanted
        for name, size in (("whole", REGION_BYTES), ("beyond", REGION_BYTES + 1)):
            again = partial(client.register_system_shared_memory, name, key, size)
            text = protocol.refused("INVALID_ARGUMENT", again)
            assert f"shared memory region '{name}'" in text
        client.unregister_system_shared_memory("half")
        assert protocol.regions(client) == {"whole": wanted["whole"]}
        client.unregister_system_shared_memory()
        assert protocol.regions(client) == {}


@each_protocol
def test_what_is_not_offered_says_so(begin: Started, protocol: Protocol) -> None:
    server = begin("linear", **ALL_ALLOWED)
    with protocol.client(server) as client:
        assert "trace settings are not offered" in protocol.refused("UNIMPLEMENTED", client.get_trace_settings)
        assert "trace" in protocol.refused("UNIMPLEMENTED", lambda: client.get_trace_settings("linear"))
        assert "log settings" in protocol.refused("UNIMPLEMENTED", client.get_log_settings)
        assert "log settings" in protocol.refused("UNIMPLEMENTED", lambda: client.update_log_settings({"log_info": True}))
        text = protocol.refused("UNIMPLEMENTED", lambda: client.register_cuda_shared_memory("r", b"aGFuZGxl", 0, 8))
        assert text.startswith("CUDA shared memory is not offered")
        assert not list(client.get_cuda_shared_memory_status() if protocol.name == "http" else [])
