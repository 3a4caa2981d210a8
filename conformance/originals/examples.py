"""Triton's client examples as steps: each script is a case, run as its own suites run it.

`TRITON_CLIENT_DIR` is a checkout of Triton's client repository.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from conformance.models import make_models
from conformance.originals.step import Step

if TYPE_CHECKING:
    from conformance.originals.repository import Repositories

_SCRIPTS = "src/python/examples"
_SHARED = "--model-repository models --allow-shared-memory"
_EXPLICIT = "--model-repository models --model-control-mode explicit"
_SIMPLE = (
    "simple_http_health_metadata", "simple_grpc_health_metadata", "simple_http_infer_client", "simple_grpc_infer_client",
    "simple_http_async_infer_client", "simple_grpc_async_infer_client", "simple_http_aio_infer_client",
    "simple_grpc_aio_infer_client", "simple_http_string_infer_client", "simple_grpc_string_infer_client",
    "simple_http_shm_client", "simple_grpc_shm_client", "simple_http_shm_string_client", "simple_grpc_shm_string_client",
    "simple_grpc_custom_args_client", "simple_grpc_keepalive_client", "grpc_client", "grpc_explicit_byte_content_client",
    "grpc_explicit_int8_content_client", "grpc_explicit_int_content_client", "reuse_infer_objects_client",
    "simple_http_sequence_sync_infer_client", "simple_grpc_sequence_sync_infer_client",
    "simple_grpc_sequence_stream_infer_client", "simple_grpc_aio_sequence_stream_infer_client",
    "simple_http_cudashm_client", "simple_grpc_cudashm_client", "simple_grpc_custom_repeat",
)  # fmt: skip
_COMPRESSED = ("simple_http_infer_client", "simple_http_aio_infer_client")
_CODINGS = ("deflate", "gzip", "")
CODED = [(asked, wanted) for asked in _CODINGS for wanted in _CODINGS if asked != wanted]
"""The codings of a request and of its answer that the compression suite tries."""


def models(here: Repositories) -> None:
    """Stand-ins of Triton's example models, and of its quickstart's."""
    for name, path in make_models(here.here / "made").items():
        if name.startswith("simple"):
            version = here.here / "models" / name / "1"
            version.mkdir(parents=True)
            shutil.copyfile(path, version / "model.onnx")
    _densenet(here)


def controlled(here: Repositories) -> None:
    """The seven models that the HTTP example of loads counts; those with sequences are only listed."""
    models(here)
    shutil.rmtree(here.here / "models" / "densenet_onnx")
    for name in ("simple_sequence", "simple_dyna_sequence"):
        here.fixture(f"../docs/examples/model_repository/{name}")
    folder = here.fixture("../docs/examples/model_repository/simple_dyna_sequence", name="simple_string_dyna_sequence")
    here.edit(folder / "config.pbtxt", "simple_dyna_sequence", folder.name)


def controlled_over_grpc(here: Repositories) -> None:
    """The eight of the gRPC example: one more, of a custom backend."""
    controlled(here)
    here.fixture("../src/test/models/repeat_int32")


def _densenet(here: Repositories) -> None:
    """The quickstart's configuration and labels, and a model of its shapes: the highest class is always the same."""
    folder = here.fixture("../docs/examples/model_repository/densenet_onnx")
    (folder / "1").mkdir(exist_ok=True)
    weights = np.arange(1000, dtype=np.float32).reshape(1000, 1, 1)
    nodes = [
        helper.make_node("ReduceMean", ["data_0"], ["mean"], keepdims=1, axes=[1, 2, 3]),
        helper.make_node("Mul", ["mean", "none"], ["nothing"]),
        helper.make_node("Add", ["nothing", "weights"], ["fc6_1"]),
    ]
    constants = [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(np.zeros(1, np.float32), "none")]
    inputs = [helper.make_tensor_value_info("data_0", TensorProto.FLOAT, [1, 3, 224, 224])]
    outputs = [helper.make_tensor_value_info("fc6_1", TensorProto.FLOAT, [1, 1000, 1, 1])]
    graph = helper.make_graph(nodes, "densenet_onnx", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "1" / "model.onnx").write_bytes(model.SerializeToString())


def _script(name: str, arguments: str, label: str = "") -> Step:
    return Step(f"{_SCRIPTS}/{name}.py", models, _SHARED, arguments=arguments, label=label)


def examples() -> tuple[Step, ...]:
    """Every example that needs no other backend and no download."""
    image = "-m densenet_onnx -s INCEPTION -c 1 -b 1 ../images/vulture.jpeg"
    return (
        *(_script(name, "-v") for name in _SIMPLE),
        _script("image_client", image),
        _script("image_client", f"-a {image}", label="async"),
        _script("image_client", f"-i grpc -u localhost:8001 {image}", label="grpc"),
        _script("grpc_image_client", image),
        Step(f"{_SCRIPTS}/simple_http_model_control.py", controlled, _EXPLICIT, arguments="-v"),
        Step(f"{_SCRIPTS}/simple_grpc_model_control.py", controlled_over_grpc, _EXPLICIT, arguments="-v"),
    )


def compression() -> tuple[Step, ...]:
    """The example clients with every coding of requests and answers, as the suite has them."""
    steps = []
    for name in _COMPRESSED:
        for request, response in CODED:
            asked = f" --request-compression-algorithm {request}" if request else ""
            wanted = f" --response-compression-algorithm {response}" if response else ""
            label = f"{request or 'plain'} to {response or 'plain'}"
            steps.append(_script(name, f"-v{asked}{wanted}", label=label))
    return tuple(steps)
