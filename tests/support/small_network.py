"""A small network, a pipeline run on it, and a copy with different answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flyball.models.optimize.candidate import evaluate_candidate
from flyball.models.optimize.original import Original
from flyball.models.optimize.pipeline import StepResults
from flyball.models.optimize.rows import read_rows
from flyball.models.optimize.run import Run
from flyball.models.optimize.steps.export import EXPORTED, export
from flyball.models.optimize.subject import subject_of
from flyball.models.optimize.work_folder import WorkFolder
from flyball.native.model_runs import Model
from tests.support import onnx_models
from tests.support.silent_progress import Silent


def network(folder: Path, *, spoilt: bool = False, bias_shape: tuple[int, ...] = (32,)) -> Path:
    """Two layers and a sigmoid. `spoilt`: a weight beside small ones that is so large that 8 bits cannot hold both."""
    random = np.random.default_rng(2)
    first, second = (random.normal(size=shape).astype(np.float32) * 0.5 for shape in ((8, 32), (32, 1)))
    nodes = [
        onnx_models.helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]),
        onnx_models.helper.make_node("Relu", ["h"], ["r"]),
        onnx_models.helper.make_node("Gemm", ["r", "w2", "b2"], ["z"]),
        onnx_models.helper.make_node("Sigmoid", ["z"], ["score"]),
        onnx_models.helper.make_node("Cast", ["score"], ["unused"], to=onnx_models.TensorProto.INT64),
    ]
    bias = np.zeros(32, dtype=np.float32)
    if spoilt:
        # A unit that is hardly ever on, whose scale drowns every other.
        first[:, 0], second[0], bias[0] = 0.0, 1e-7, 1e6
    constants = {"w1": first, "b1": bias.reshape(bias_shape), "w2": second, "b2": np.zeros(1, dtype=np.float32)}
    inputs = [onnx_models.value("x", onnx_models.TensorProto.FLOAT, ["n", 8])]
    outputs = [
        onnx_models.value("unused", onnx_models.TensorProto.INT64, ["n", 1]),
        onnx_models.value("score", onnx_models.TensorProto.FLOAT, [1, 1]),
    ]
    return onnx_models.save(folder / "network.onnx", nodes, inputs, outputs, constants)


def run_of(tmp_path: Path, model: Path, **changed: Any) -> Run:
    random = np.random.default_rng(3)
    rows = random.normal(size=(2000, 8)).astype(np.float32)
    subject = subject_of(model, output="score[0]", thresholds=[0.5])
    truth = (Model(model).run({"x": rows})["score"][:, 0] > random.random(2000)).astype(np.float64)
    np.savez(tmp_path / "rows.npz", x=rows, label=truth)
    made = read_rows(tmp_path / "rows.npz", subject, Model(model).facts.inputs, labels="label")
    work = WorkFolder(tmp_path / "work")
    with work.held():
        return Run(subject, made, work, **changed)


def exported(run: Run) -> StepResults:
    found = StepResults()
    found.documents["export"] = export(run, found, Silent())
    return found


def chosen(run: Run, held_out: Sequence[int] = ()) -> StepResults:
    """As after the step that measures; the exported model is the only candidate."""
    found = exported(run)
    candidate = evaluate_candidate(
        Original(run), "float32", "as exported", run.work.models / EXPORTED, None, held_out=held_out
    )
    found.documents |= {
        "graph": {"candidates": [candidate.model_dump()]},
        "quantise": {"candidates": []},
        "batch": {"figures": {"float32": {"1": {"p50_us": 1.0, "p99_us": 2.0}}}, "rows_max": {"float32": 32}},
    }
    return found


def onnx_with_another_bias(path: Path, shift: float) -> bytes:
    model = onnx_models.onnx.load(path)
    for weight in model.graph.initializer:
        if weight.name == "b2":
            shifted = onnx_models.numpy_helper.to_array(weight) + np.float32(shift)
            weight.CopyFrom(onnx_models.numpy_helper.from_array(shifted, "b2"))
    return bytes(model.SerializeToString())
