"""Triton from the nvidia-pytriton wheel: the ONNX Runtime backend of TRITON_BACKEND_DIR, or else the wheel's Python backend.

Tried on one core with fraud-gbdt; answers a second and p99 with 32 connections, p50 with one: Python backend
with dynamic batching 9,000, 6 ms, 0.32 ms (kept), without 3,900, 10 ms, 0.30 ms, bound by PyTriton 2,300, 22 ms, 2.0 ms;
ONNX Runtime backend with dynamic batching 13,700, 7 ms, 0.18 ms, without 14,600, 5 ms, 0.17 ms (peers.settings has both).
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytriton
from onnx_model import OnnxModel
from serving import arguments, become, free_port, say_ready_when

if TYPE_CHECKING:
    from serving import Serving

_WHEEL = Path(pytriton.__file__).parent / "tritonserver"
_HERE = Path(__file__).resolve().parent
_MAX_BATCH = 32
_TYPES = {"tensor(float)": "TYPE_FP32", "tensor(double)": "TYPE_FP64"}


def main(serving: Serving) -> None:
    """Lay out a model repository and become Triton's own command."""
    folder = serving.scratch()
    given = os.environ["TRITON_BACKEND_DIR"]  # empty unless the ONNX Runtime backend is in it: peers.py looked
    onnx = bool(given)
    backends = Path(given) if onnx else _python_backend(folder / "backends")
    version = folder / "models" / serving.name / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(_config(serving, onnx))
    if onnx:
        (version / "model.onnx").symlink_to(serving.model)
        _name_server_library(folder / "lib")
    else:
        shutil.copy(_HERE / "model.py", version)
        shutil.copy(_HERE.parent / "common" / "onnx_model.py", version)
    # The backend's stub finds its packages through the first python3 of the path.
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    http, grpc = serving.ports
    say_ready_when(http, f"/v2/models/{serving.name}/ready", serving.port)
    become(
        _WHEEL / "bin" / "tritonserver",
        f"--model-repository={version.parent.parent}",
        f"--backend-directory={backends}",
        "--http-address=127.0.0.1",
        f"--http-port={http}",
        f"--metrics-port={free_port()}",
        f"--allow-grpc={'true' if serving.grpc else 'false'}",
        "--grpc-address=127.0.0.1",
        f"--grpc-port={grpc}",
        "--log-info=false",
    )


def _python_backend(folder: Path) -> Path:
    """The wheel keeps a stub for each Python apart from the backend."""
    (folder / "python").mkdir(parents=True)
    stubs = _WHEEL / "python_backend_stubs" / f"{sys.version_info.major}.{sys.version_info.minor}"
    for part in [*(_WHEEL / "backends" / "python").iterdir(), *stubs.iterdir()]:
        (folder / "python" / part.name).symlink_to(part)
    return folder


def _name_server_library(folder: Path) -> None:
    """Built backends need libtritonserver.so; the wheel has it under a name with a hash. A link keeps it one library."""
    folder.mkdir()
    (library,) = (_WHEEL.parents[1] / "nvidia_pytriton.libs").glob("libtritonserver*.so")
    (folder / "libtritonserver.so").symlink_to(library)
    os.environ["LD_LIBRARY_PATH"] = f"{folder}:{os.environ['LD_LIBRARY_PATH']}"


def _config(serving: Serving, onnx: bool) -> str:
    model = OnnxModel(serving.model)
    wanted = serving.max_batch or _MAX_BATCH
    batches = model.takes_batches
    lines = [
        f'name: "{serving.name}"',
        f'backend: "{"onnxruntime" if onnx else "python"}"',
        f"max_batch_size: {wanted if batches else 0}",
        f"instance_group [ {{ kind: KIND_CPU count: {serving.workers} }} ]",
        *(f"input [ {_tensor(tensor, batches, onnx)} ]" for tensor in model.inputs),
        *(f"output [ {_tensor(tensor, batches, onnx)} ]" for tensor in model.outputs),
    ]
    if batches and wanted > 1:
        lines.append(f"dynamic_batching {{ max_queue_delay_microseconds: {serving.delay_us} }}")
    parameters = {"intra_op_thread_count": "1", "inter_op_thread_count": "1"} if onnx else {"model": serving.model}
    lines += [f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}' for key, value in parameters.items()]
    return "\n".join(lines) + "\n"


def _tensor(tensor: Any, batches: bool, onnx: bool) -> str:
    sizes = [size if isinstance(size, int) else -1 for size in tensor.shape[1 if batches else 0 :]]
    kind = _TYPES.get(tensor.type) or f"TYPE_{tensor.type[len('tensor(') : -1].upper()}"
    # A batched tensor of one dimension is told as a column; the ONNX Runtime backend must take the column away again.
    reshape = "reshape { shape: [ ] }" if onnx and not sizes else ""
    return f'{{ name: "{tensor.name}" data_type: {kind} dims: {sizes or [1]} {reshape} }}'


if __name__ == "__main__":
    main(arguments())
