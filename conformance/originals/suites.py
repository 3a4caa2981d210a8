"""The suites, in the order of the page: which models, which flags of the server, which cases.

Each step does what the suite's `test.sh` does for the same cases; only the server's flags are spelt as ours.
"""

from __future__ import annotations

import shutil
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING

import onnx

from conformance.originals import clients, examples, lifecycle, protocols
from conformance.originals.stand_ins import add_sub, constant, identity, stand_in
from conformance.originals.step import Step, Suite

if TYPE_CHECKING:
    from pathlib import Path

    from conformance.originals.repository import Repositories

_VERSION = version_of("flyball")
_SHARED = "--model-repository models --allow-shared-memory"
_EXPLICIT = "--model-repository models --model-control-mode explicit"


def _infer(here: Repositories) -> None:
    here.take("qa_model_repository")


def _zero(here: Repositories) -> None:
    for name in ("onnx", "libtorch", "plan", "simple_zero", "sequence_zero", "fan_zero"):
        here.take("qa_identity_model_repository", under=name)


def _variable(here: Repositories) -> None:
    for name in ("onnx", "libtorch", "plan", "simple_plan", "sequence_plan", "fan_plan"):
        here.take("qa_variable_model_repository", under=name)


def _reshape(here: Repositories) -> None:
    for name in ("onnx", "libtorch", "plan", "simple_reshape", "sequence_reshape", "fan_reshape"):
        here.take("qa_reshape_model_repository", under=name)
    # The two of TensorRT that have no ONNX model: two tensors without a batch, and outputs of more axes.
    for name in ("plan_nobatch_zero_2_float32", "plan_zero_4_float32", "plan_nobatch_zero_4_float32"):
        _tensorrt_reshape(here.here / "models" / name, here)


def _tensorrt_reshape(folder: Path, here: Repositories) -> None:
    if not folder.exists():
        shutil.copytree(here.here / "models" / folder.name.replace("_nobatch", ""), folder)
        here.edit(folder / "config.pbtxt", r"(?m)^name:.*$", f'name: "{folder.name}"')
        here.edit(folder / "config.pbtxt", r"max_batch_size:.*", "max_batch_size: 0")
        model = onnx.load(str(folder / "1" / "model.onnx"))
        for value in [*model.graph.input, *model.graph.output]:
            del value.type.tensor_type.shape.dim[0]
        onnx.save(model, str(folder / "1" / "model.onnx"))
    for output, (dims, shape) in {
        "OUTPUT0": ("2,2,4", "16"),
        "OUTPUT1": ("1,2,1", "1,2"),
        "OUTPUT3": ("1,1,1", "1"),
    }.items():
        if "_4_" in folder.name:
            found = rf'(name: "{output}"\s+data_type: TYPE_FP32\s+dims: )\[[^\]]*\]'
            here.edit(folder / "config.pbtxt", found, rf"\1[ {dims} ] reshape: {{ shape: [ {shape} ] }}")


def _scalar(here: Repositories) -> None:
    here.take("qa_scalar_models", "*")


def _nan_inf(here: Repositories) -> None:
    stand_in(
        here.fixture("L0_nan_inf/models/nan_inf_output"),
        constant(float("nan"), float("inf"), float("-inf"), 1, 2, 3),
    )


def _string_io(here: Repositories) -> None:
    here.take("qa_identity_model_repository", "onnx_zero_1_object")
    folder = here.fixture("python_models/string_identity")
    here.edit(folder / "config.pbtxt", r"\[ 1 \]", "[ 8 ]")
    stand_in(folder, identity)


def _optional_inputs(here: Repositories) -> None:
    for name in ("input_all_optional", "input_all_required", "input_optional"):
        stand_in(here.fixture(f"L0_input_validation/models/{name}"), constant(1))


def _input_shapes(here: Repositories) -> None:
    folder = here.here / "models" / "pt_identity"
    folder.mkdir()
    (folder / "config.pbtxt").write_text(
        'name: "pt_identity"\nmax_batch_size: 8\n'
        'input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [8] }]\n'
        'output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [8] }]\n'
        "dynamic_batching { max_queue_delay_microseconds: 1000000 }\n"
    )
    stand_in(folder, identity)
    here.take("qa_model_repository", "onnx_object_int32_int32")
    # Models of TensorRT; the second has rows, but its shape tensor has none, which only a shape tensor may.
    for name, axes in (("plan_nobatch_zero_1_float32_int32", "-1, -1"), ("plan_zero_1_float32_int32", "-1, -1, -1")):
        _shape_tensor(here.here / "models" / name, axes)


def _shape_tensor(folder: Path, axes: str) -> None:
    folder.mkdir()
    tensors = (("DUMMY_{}0", "TYPE_FP32", axes), ("{}0", "TYPE_INT32", "2"))
    (folder / "config.pbtxt").write_text(
        f'name: "{folder.name}"\nmax_batch_size: 0\n'
        + "".join(
            f'{role} [{{ name: "{name.format(role.upper())}" data_type: {kind} dims: [ {dims} ] }}]\n'
            for role in ("input", "output")
            for name, kind, dims in tensors
        )
    )
    stand_in(folder, identity)


def _slow_simple(here: Repositories) -> None:
    stand_in(here.fixture("python_models/execute_delayed_model", name="simple"), add_sub, seconds=6)


def _large_offset(here: Repositories) -> None:
    for backend in ("onnx", "python", "libtorch", "plan", "openvino"):
        here.take("qa_model_repository", "onnx_int32_int32_int32", under=backend)
        for version in (2, 3):
            shutil.rmtree(here.here / "models" / f"{backend}_int32_int32_int32" / str(version))


def _parameter(here: Repositories) -> None:
    """Triton's model returns a request's parameters, which only a Python backend can read; this one returns its input."""
    folder = here.here / "models" / "parameter"
    folder.mkdir()
    (folder / "config.pbtxt").write_text(
        'name: "parameter"\nmax_batch_size: 0\n'
        'input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] }]\n'
        'output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] }]\n'
    )
    stand_in(folder, identity)


def _class_count(here: Repositories) -> None:
    stand_in(here.fixture("python_models/identity_fp32"), identity)
    folder = here.fixture("python_models/identity_fp32", name="identity_bytes")
    here.edit(folder / "config.pbtxt", "identity_fp32", "identity_bytes")
    here.edit(folder / "config.pbtxt", "TYPE_FP32", "TYPE_STRING")
    stand_in(folder, identity)


_WAITS = "--queue-wait-ms-max 60000"
_BACKENDS = {"BACKENDS": "onnx", "ENSEMBLES": "0", "TRITON_SERVER_CPU_ONLY": "1"}
_SHM_AFTER = (
    "TestSharedMemoryUnregister.test_unregister_shm_during_inference_single_req",
    "TestSharedMemoryUnregister.test_unregister_shm_during_inference_multiple_req",
    "TestSharedMemoryUnregister.test_unregister_shm_after_inference",
)
_SHM_OTHERS = (
    "test_invalid_create_shm", "test_valid_create_set_register", "test_unregister_before_register",
    "test_unregister_after_register", "test_reregister_after_register", "test_unregister_after_inference",
    "test_register_after_inference", "test_too_big_shm", "test_mixed_raw_shm", "test_unregisterall",
    "test_infer_offset_out_of_bound", "test_infer_byte_size_out_of_bound", "test_infer_integer_overflow",
    "test_register_out_of_bound", "test_register_reserved_names", "test_register_invalid_shm_key",
    "test_python_client_leak",
)  # fmt: skip


def _shared_memory() -> tuple[Step, ...]:
    file = "shared_memory_test.py"
    steps = []
    for client in ("http", "grpc"):
        environment = {"CLIENT_TYPE": client}
        others = tuple(f"SharedMemoryTest.{case}" for case in _SHM_OTHERS)
        off = ("SharedMemoryTest.test_client_shm_disabled_by_default",)
        slow = tuple(f"{case}_{client}" for case in _SHM_AFTER)
        large = ("SharedMemoryTest.test_large_shm_register_offset",)
        steps += [
            Step(file, protocols.simple, cases=off, environment=environment, label=client),
            Step(file, protocols.simple, _SHARED, others, environment, fresh=True, label=client),
            Step(file, _slow_simple, f"{_SHARED} {_WAITS}", slow, environment, fresh=True, settings=protocols.ONE_INSTANCE),
            Step(file, _large_offset, _SHARED, large, environment, label=client),
        ]
    return tuple(steps)


SUITES = (
    Suite("infer", "L0_infer", (Step("infer_test.py", _infer, environment=_BACKENDS),)),
    Suite("zero", "L0_infer_zero", (Step("infer_zero_test.py", _zero),)),
    Suite("variable", "L0_infer_variable", (Step("infer_variable_test.py", _variable, environment=_BACKENDS),)),
    Suite("reshape", "L0_infer_reshape", (Step("infer_reshape_test.py", _reshape),)),
    Suite("scalar", "L0_scalar_io", (Step("scalar_test.py", _scalar),)),
    Suite("nan_inf", "L0_nan_inf", (Step("nan_inf_test.py", _nan_inf),)),
    Suite("string_io", "L0_string_io", (Step("string_client_test.py", _string_io),)),
    Suite(
        "input_validation",
        "L0_input_validation",
        (
            Step("input_validation_test.py", _optional_inputs, cases=("InputValTest",)),
            Step("input_validation_test.py", _input_shapes, _SHARED, ("InputShapeTest",)),
            Step("input_validation_test.py", lambda _: None, _EXPLICIT, ("ModelNameValidationTest",)),
        ),
    ),
    Suite("shared_memory", "L0_shared_memory", _shared_memory()),
    Suite("http", "L0_http", protocols.http(_VERSION)),
    Suite("grpc", "L0_grpc", protocols.grpc(_VERSION)),
    Suite("server_status", "L0_server_status", protocols.status(_VERSION)),
    Suite("lifecycle", "L0_lifecycle", lifecycle.steps()),
    Suite(
        "client_timeout",
        "L0_client_timeout",
        (Step("client_infer_timeout_test.py", clients.delayed_identity),),
    ),
    Suite(
        "parameters",
        "L0_parameters",
        (
            Step("parameters_test.py", _parameter),
            *(
                Step("class_count_test.py", _class_count, environment={"CLIENT_TYPE": client}, label=client)
                for client in ("http", "grpc")
            ),
        ),
    ),
    Suite("request_cancellation", "L0_request_cancellation", protocols.cancellation()),
    Suite("data_compression", "L0_data_compression", examples.compression()),
    Suite("examples", "images", examples.examples()),
    *clients.CLIENTS,
)
EXAMPLES = ("data_compression", "examples", *(suite.name for suite in clients.CLIENTS))
"""The suites that need Triton's client repository."""
