"""The steps of the suites of Triton's endpoints: HTTP, gRPC, metadata and cancellation."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from conformance.originals.stand_ins import add_sub, identity, stand_in
from conformance.originals.step import Step

if TYPE_CHECKING:
    from conformance.originals.repository import Repositories

_ONE = "--model-repository models"
_SHARED = f"{_ONE} --allow-shared-memory"
_METADATA = ("libtorch_int32_int32_int32", "onnx_int32_int32_int32")


def _identity(here: Repositories, name: str, kind: str, *, rows: int = 8, seconds: float = 0, width: int = -1) -> None:
    folder = here.here / "models" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.pbtxt").write_text(
        f'name: "{name}"\nmax_batch_size: {rows}\n'
        f'input [{{ name: "INPUT0" data_type: {kind} dims: [ {width} ] }}]\n'
        f'output [{{ name: "OUTPUT0" data_type: {kind} dims: [ {width} ] }}]\n'
    )
    stand_in(folder, identity, seconds=seconds)


def simple(here: Repositories) -> None:
    """The sum and the difference of sixteen whole numbers, as Triton's example model."""
    stand_in(here.fixture("python_models/execute_delayed_model", name="simple"), add_sub)


def _seven(here: Repositories) -> None:
    """As many models as Triton's example repository has for the HTTP suite."""
    simple(here)
    for number in range(6):
        _identity(here, f"simple_{number}", "TYPE_STRING")


def _eight(here: Repositories) -> None:
    """For the gRPC suite, which adds one more."""
    _seven(here)
    _identity(here, "simple_6", "TYPE_STRING")


def _http(here: Repositories) -> None:
    for name in ("onnx_zero_1_float32", "onnx_zero_1_object", "onnx_zero_1_float16", "onnx_zero_3_float32"):
        here.take("qa_identity_model_repository", name)
    models = here.here / "models"
    one = models / "onnx_zero_1_object_1_element"
    shutil.copytree(models / "onnx_zero_1_object", one)
    here.edit(one / "config.pbtxt", r"(?m)^name:.*$", f'name: "{one.name}"')
    text = (one / "config.pbtxt").read_text()
    (one / "config.pbtxt").write_text(text.replace("-1", "1", 1))
    queue = models / "onnx_zero_1_float32_queue"
    shutil.copytree(models / "onnx_zero_1_float32", queue)
    here.edit(queue / "config.pbtxt", r"(?m)^name:.*$", f'name: "{queue.name}"')
    with (queue / "config.pbtxt").open("a") as file:
        file.write(
            "dynamic_batching { max_queue_delay_microseconds: 1000000 preferred_batch_size: [ 8 ]\n"
            "default_queue_policy { max_queue_size: 1 } }\n"
        )
    _identity(here, "simple_identity", "TYPE_STRING")
    _identity(here, "simple_identity_int64", "TYPE_INT64")


def _limits(here: Repositories) -> None:
    here.take("qa_identity_model_repository", "onnx_zero_1_float32")
    _identity(here, "simple_identity", "TYPE_STRING")


def _grpc(here: Repositories) -> None:
    simple(here)
    _identity(here, "string_identity", "TYPE_STRING", rows=0)


def _status(here: Repositories) -> None:
    for backend in ("onnx", "libtorch", "plan"):
        here.take("qa_model_repository", under=backend)


def _status_later(here: Repositories) -> None:
    _status(here)
    for name in _METADATA:
        for version in ("2", "3"):
            shutil.rmtree(here.here / "models" / name / version)
    folder = here.here / "models" / "plan_float16_float32_float32"
    shutil.copytree(folder / "1", folder / "7")


ONE_INSTANCE = {"compute_lanes": 1}
"""The second request of a slow model runs after the first, as on a model of one instance."""

# Its --http-max-input-size; here answers have a limit too.
_LARGE = {"body_bytes_max": 1 << 27, "answer_bytes_max": 1 << 30}


def _restricted(apis: str) -> str:
    return f"{_ONE} --restricted-api model-repository:admin-key=admin-value --restricted-api {apis}:infer-key=infer-value"


def http(version: str) -> tuple[Step, ...]:
    """The HTTP suite; its metadata cases expect a version."""
    limits = "http_input_size_limit_test.py"
    increased = tuple(f"InferSizeLimitTest.test_large_input_{kind}" for kind in ("raw_binary", "json", "compressed"))
    rest = (
        "test_default_limit_raw_binary", "test_default_limit_json", "test_large_string_in_json",
        "test_default_limit_compressed", "test_json_dtype_size_expansion_exceeds_limit_error",
        "test_no_leak_on_invalid_inference_header_length",
    )  # fmt: skip
    return (
        Step("http_test.py", _http, f"{_ONE} --model-control-mode explicit --load-model *"),
        Step("python_http_aio_test.py", _seven, _SHARED, environment={"TRITON_SERVER_VERSION": version}, label="aio"),
        Step("http_client_plugin_test.py", simple, _SHARED, label="plugin"),
        Step(limits, _limits, cases=tuple(f"InferSizeLimitTest.{case}" for case in rest)),
        Step(limits, _limits, cases=increased, settings=_LARGE),
        Step("http_request_many_chunks.py", simple, f"{_ONE} --model-control-mode explicit --load-model simple"),
        Step("http_restricted_api_test.py", simple, _restricted("inference,metadata"), label="restricted"),
        Step("http_basic_auth_test.py", simple, label="nginx"),
    )


def grpc(version: str) -> tuple[Step, ...]:
    """The gRPC suite."""
    return (
        Step("python_unit_test.py", _grpc, cases=("GrpcTest",)),
        Step("python_grpc_aio_test.py", _eight, _SHARED, environment={"TRITON_SERVER_VERSION": version}, label="aio"),
        Step("grpc_client_plugin_test.py", simple, label="plugin"),
        Step(
            "python_unit_test.py",
            simple,
            _restricted("inference,health"),
            ("RestrictedProtocolTest",),
            label="restricted",
        ),
        Step("grpc_basic_auth_test.py", simple, label="nginx"),
    )


def status(version: str) -> tuple[Step, ...]:
    """The metadata suite, before and after versions were removed and added."""
    poll = f"{_ONE} --model-control-mode poll --repository-poll-secs 1"
    environment = {"TRITON_SERVER_VERSION": version}
    return (
        Step("server_status_test.py", _status, poll, ("ServerMetadataTest",), environment),
        Step("server_status_test.py", _status_later, poll, ("ModelMetadataTest",), environment),
    )


def cancellation() -> tuple[Step, ...]:
    """Cancelled calls of a slow model: the cases look at two seconds, and end within five."""

    def models(here: Repositories) -> None:
        _identity(here, "custom_identity_int32", "TYPE_INT32", rows=1024, seconds=6)

    def scheduled(here: Repositories) -> None:
        _identity(here, "dynamic_batch", "TYPE_FP32", rows=2, seconds=6)

    waits = "--queue-wait-ms-max 60000"
    kinds = ("grpc_async", "grpc_stream", "aio_grpc_async", "aio_grpc_stream")
    calls = tuple(f"GrpcCancellationTest.test_{kind}_infer" for kind in kinds)
    cases = tuple(f"TestScheduler.test_{kind}_scheduler_request_cancellation" for kind in ("dynamic_batch", "ensemble"))
    return (
        Step("grpc_cancellation_test.py", models, cases=calls, fresh=True),
        Step("scheduler_test.py", scheduled, f"{_ONE} {waits}", cases, settings=ONE_INSTANCE),
    )
