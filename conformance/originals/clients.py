"""Triton's clients in other languages as suites: each example is a case, each test of a test program is one.

They run as Triton's own suites run them. Must not know how they are built.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from conformance.originals import examples, protocols
from conformance.originals.stand_ins import identity, stand_in
from conformance.originals.step import Step, Suite

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.originals.repository import Repositories

_SHARED = "--model-repository models --allow-shared-memory"
_EXPLICIT = "--model-repository models --model-control-mode explicit"
_LOADED = "--model-repository unit_test_models --model-control-mode explicit --load-model onnx_int32_int32_int32"
_URL = {"TRITON_TEST_URL": "http://127.0.0.1:8001"}
_HEADER = "-v -H test:1"
_CPP = (
    "simple_http_health_metadata", "simple_grpc_health_metadata", "simple_http_infer_client", "simple_grpc_infer_client",
    "simple_http_async_infer_client", "simple_grpc_async_infer_client", "simple_http_string_infer_client",
    "simple_grpc_string_infer_client", "simple_http_shm_client", "simple_grpc_shm_client",
    "simple_grpc_custom_args_client", "simple_grpc_keepalive_client", "simple_http_sequence_sync_infer_client",
    "simple_grpc_sequence_sync_infer_client", "simple_grpc_sequence_stream_infer_client", "simple_grpc_custom_repeat",
)  # fmt: skip
_WITHOUT_LOADS = ("*.Infer*", "*.AsyncInfer*", "HTTPTraceTest.*", "GRPCTraceTest.*", "HTTPJSONDataTest.*")
_LIMITS = {"grpc": "-i grpc", "grpc async": "-i grpc -a", "grpc stream": "-i grpc -s", "http": "", "http async": "-a"}
"""What the timeout test calls: its arguments, by label."""
_SAYS = {"grpc stream": "Stream has been closed"}
_SHORT_US, _LONG_US = 1_000, 100_000_000
_DELAY_S = 3.0


def delayed_identity(here: Repositories, folder: str = "L0_client_timeout", *, seconds: float = _DELAY_S) -> None:
    """The identity whose answer takes longer than the short time limits of the suite."""
    stand_in(here.fixture(f"{folder}/models/custom_identity_int32"), identity, seconds=seconds)


_identity_at_once = partial(delayed_identity, folder="L0_client_memory_growth", seconds=0)


def _with_identity(here: Repositories) -> None:
    """The examples' models, and an identity without a batch axis."""
    examples.models(here)
    folder = here.here / "models" / "identity_fp32"
    folder.mkdir()
    (folder / "config.pbtxt").write_text(
        'name: "identity_fp32"\ninput [{ name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }]\n'
        'output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }]\n'
    )
    stand_in(folder, identity)


def _unit_tests(here: Repositories) -> None:
    here.take("qa_model_repository", "onnx_int32_int32_int32")
    protocols.simple(here)


def _to_be_loaded(here: Repositories) -> None:
    """In the folder from which the test itself reads a model; version 1 is absent, as in the suite."""
    here.empty("unit_test_models")
    here.take("qa_model_repository", "onnx_int32_int32_int32", "unit_test_models")
    here.empty("unit_test_models/onnx_int32_int32_int32/1")
    (here.here / "unit_test_models/onnx_int32_int32_int32/1").rmdir()


def _program(
    name: str,
    arguments: str,
    models: Callable[[Repositories], None] = examples.models,
    *,
    flags: str = _SHARED,
    label: str = "",
    says: str = "",
) -> Step:
    return Step(name, models, flags, arguments=arguments, label=label, built=True, says=says)


def _cpp() -> tuple[Step, ...]:
    image = "-m densenet_onnx -s INCEPTION -c 1 -b 1"
    file, grpc, http = "../images/vulture.jpeg", "-i grpc -u localhost:8001", "simple_http_infer_client"
    tests = Step("cc_client_test", _unit_tests, cases=_WITHOUT_LOADS, built=True)
    loads = Step("cc_client_test", _to_be_loaded, _LOADED, ("*.LoadWith*",), fresh=True, built=True)
    steps = [
        *(_program(name, _HEADER) for name in _CPP),
        _program("simple_http_string_infer_client", "--json-input-data --json-output-data", label="json"),
        _program("simple_grpc_infer_client", "-v -C deflate", label="deflate"),
        _program("reuse_infer_objects_client", "-v"),
        _program("reuse_infer_objects_client", f"-v {grpc}", label="grpc"),
        _program("image_client", f"{image} {file}"),
        _program("image_client", f"{image} -a {file}", label="async"),
        _program("image_client", f"{image} {grpc} {file}", label="grpc"),
        _program("image_client", f"{image} -a {grpc} {file}", label="grpc async"),
        _program("image_client", f"{image} -a --streaming {grpc} {file}", label="grpc stream"),
        _program("ensemble_image_client", "-c 1 ../images"),
        _program("simple_http_model_control", "-v", examples.controlled, flags=_EXPLICIT),
        _program("simple_grpc_model_control", "-v", examples.controlled_over_grpc, flags=_EXPLICIT),
    ]
    for asked, wanted in examples.CODED:
        given = f"{f' -i {asked}' if asked else ''}{f' -o {wanted}' if wanted else ''}"
        steps.append(_program(http, f"-v{given}", label=f"{asked or 'plain'} to {wanted or 'plain'}"))
    for label, given in _LIMITS.items():
        short, long = (f"-t {limit} -v {given}" for limit in (_SHORT_US, _LONG_US))
        test = partial(_program, "client_timeout_test", models=delayed_identity)
        steps.append(test(short, label=f"{label}, too short", says=_SAYS.get(label, "Deadline Exceeded")))
        steps.append(test(long, label=label))
    for label, given in {"http": "", "http reuse": "-R", "grpc": "-i grpc", "grpc reuse": "-i grpc -R"}.items():
        steps.append(_program("memory_leak_test", given, _identity_at_once, label=label))
    return (*steps, tests, loads)


CLIENTS = (
    Suite(
        "rust_client",
        "images",
        (
            Step("triton_client", _with_identity, environment=_URL, built=True),
            Step("integration", _with_identity, environment=_URL, built=True),
            _program("simple_grpc_infer", ""),
        ),
    ),
    Suite("go_client", "L0_simple_go_client", (_program("grpc_simple_client", ""),)),
    Suite(
        "java_client",
        "L0_client_java",
        (
            _program("SimpleInferClient", ""),
            _program("MemoryGrowthTest", "", _identity_at_once),
            _program("SimpleJavaClient", "localhost 8001"),
            _program("SimpleClient", "localhost 8001", label="scala"),
        ),
    ),
    Suite("cpp_client", "L0_grpc", _cpp()),
    Suite("nodejs_client", "L0_simple_nodejs_client", (_program("client", ""),)),
)
"""The suites of `languages.LANGUAGES`."""
