"""The pipeline that makes models faster: how candidates are asked and judged, and what ends a run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flyball.errors import (
    FlyballError,
    InvalidInputError,
    MissingExtraError,
    ModelRefusedError,
    ServerFaultError,
    UsageError,
)
from flyball.models.equivalence.gate import Bars
from flyball.models.optimize.answers import table_of
from flyball.models.optimize.candidate import Candidate, evaluate_candidate
from flyball.models.optimize.operators import operators_of
from flyball.models.optimize.original import Original
from flyball.models.optimize.pipeline import StepResults
from flyball.models.optimize.rewrite import Graph, RewriteRefusedError, StaticInt8, Trim, rewrite
from flyball.models.optimize.rows import Rows, read_rows
from flyball.models.optimize.run import Run
from flyball.models.optimize.steps.equal import NotEqualError, equal
from flyball.models.optimize.steps.export import EXPORTED, export
from flyball.models.optimize.steps.graph import attempt, graphs
from flyball.models.optimize.steps.served import AfterLoadError, retest, same_served
from flyball.models.optimize.subject import subject_of
from flyball.models.optimize.work_folder import WorkFolder
from flyball.native.model_documents import Batching
from flyball.native.model_runs import Model
from tests.support import onnx_models
from tests.support.silent_progress import Silent
from tests.support.small_network import chosen, exported, network, onnx_with_another_bias, run_of


@pytest.mark.parametrize("labelled", [True, False])
def test_a_candidate_that_loses_the_answer_to_one_given_row_is_refused(tmp_path: Path, labelled: bool) -> None:
    run = run_of(tmp_path, network(tmp_path))
    original = Original(run if labelled else replace(run, rows=replace(run.rows, labels=None)))
    told = evaluate_candidate(
        original, "losing", "", losing(run.subject.model, float(np.sort(run.rows.inputs["x"][:, 0])[-2:].mean())), None
    )
    assert told.comparison is not None
    assert (told.comparison.by_kind["given"].beyond, told.comparison.flips[0].flips) == (1, 1)
    assert not told.accepted
    assert "1 row lost the numeric answer" in told.why_not
    json.dumps(told.model_dump(), allow_nan=False)


@pytest.mark.parametrize("labelled", [True, False])
def test_a_segment_in_which_a_candidate_decides_otherwise_refuses_it(tmp_path: Path, labelled: bool) -> None:
    run = run_of(tmp_path, network(tmp_path), bars=Bars(auc=1, logloss=1, accuracy=1, flips=0.05))
    other = tmp_path / "other.onnx"
    other.write_bytes(onnx_with_another_bias(run.subject.model, 0.2))
    before, after = (Model(path).run(run.rows.inputs)["score"][:, 0] >= 0.5 for path in (run.subject.model, other))
    segments = np.where((before != after) | (np.arange(run.rows.count) < 80), "hit", "other")
    labels = run.rows.labels if labelled else None
    original = Original(replace(run, rows=replace(run.rows, segments=segments, labels=labels)))
    told = evaluate_candidate(original, "other", "", other, None)
    assert told.verdict is not None
    assert told.verdict.findings[0].passed  # over all rows
    assert {(one.what, one.segment) for one in told.verdict.findings if not one.passed} == {("flips", "hit")}
    assert not told.accepted


def losing(path: Path, limit: float) -> Path:
    """The same answers, but none where the first column is above the limit: what is left below it has no logarithm."""
    model = onnx_models.onnx.load(path)
    next(node for node in model.graph.node if node.op_type == "Sigmoid").output[0] = "sound"
    next(node for node in model.graph.node if node.op_type == "Cast").input[0] = "sound"
    first = np.eye(8, 1, dtype=np.float32) * -1
    constants = {"first": first, "limit": np.array([limit], np.float32), "nothing": np.zeros(1, np.float32)}
    model.graph.initializer.extend(onnx_models.numpy_helper.from_array(value, name) for name, value in constants.items())
    for op, inputs, output in (
        ("Gemm", ["x", "first", "limit"], "left"),
        ("Log", ["left"], "log"),
        ("Mul", ["log", "nothing"], "zero"),
        ("Add", ["zero", "sound"], "score"),
    ):
        model.graph.node.append(onnx_models.helper.make_node(op, inputs, [output]))
    onnx_models.onnx.save(model, path.with_name("losing.onnx"))
    return path.with_name("losing.onnx")


def test_labels_that_name_another_class_than_the_score_are_turned_round(tmp_path: Path) -> None:
    """A score that is the chance of class 0 is right where the label is 0."""
    model = two_classes(tmp_path)
    rows = np.random.default_rng(3).normal(size=(500, 4)).astype(np.float32)
    truth = (rows[:, 0] > 0).astype(np.float64)
    np.savez(tmp_path / "rows.npz", x=rows, label=truth)
    for element, told in ((0, 1 - truth), (1, truth)):
        subject = subject_of(model, output=f"chances[{element}]", thresholds=[0.5])
        made = read_rows(tmp_path / "rows.npz", subject, Model(model).facts.inputs, labels="label")
        labels = Original(Run(subject, made, WorkFolder(tmp_path / "work"))).labels
        assert labels is not None
        assert labels.task == "two_classes"
        assert labels.truth.tolist() == told.tolist()


def two_classes(folder: Path) -> Path:
    nodes = [
        onnx_models.helper.make_node("Gemm", ["x", "w"], ["z"]),
        onnx_models.helper.make_node("Softmax", ["z"], ["chances"]),
    ]
    weights = np.zeros((4, 2), dtype=np.float32)
    weights[0] = (-2, 2)
    inputs = [onnx_models.value("x", onnx_models.TensorProto.FLOAT, ["n", 4])]
    outputs = [onnx_models.value("chances", onnx_models.TensorProto.FLOAT, ["n", 2])]
    return onnx_models.save(folder / "two.onnx", nodes, inputs, outputs, {"w": weights})


def test_a_threshold_of_an_output_with_several_scores_asks_which_one_is_meant(tmp_path: Path) -> None:
    model = two_classes(tmp_path)
    for named in ("chances", None):
        with pytest.raises(UsageError, match=r"(?s)several elements per row.*--score 'chances\[1\]'"):
            subject_of(model, output=named, thresholds=[0.5])
    assert subject_of(model, output="chances").thresholds == []
    silent = onnx_models.onnx.load(model)
    silent.graph.output[0].type.tensor_type.ClearField("shape")
    onnx_models.onnx.save(silent, model)
    subject = subject_of(model, thresholds=[0.5])
    rows = Rows({"x": np.zeros((3, 4), np.float32)}, None, None, "sha256:0")
    with pytest.raises(UsageError, match="several elements per row"):
        _ = Original(Run(subject, rows, WorkFolder(tmp_path / "work"))).answers


def test_labels_that_cannot_be_the_truth_end_the_run_and_not_each_candidate(tmp_path: Path) -> None:
    run = run_of(tmp_path, network(tmp_path))
    one_class = replace(run, rows=replace(run.rows, labels=np.ones(run.rows.count)))
    with pytest.raises(InvalidInputError, match="at least 2 rows"):
        graphs(Original(one_class), StepResults({"export": {"columns": None}}), Silent())


@pytest.mark.parametrize("error", [ModelRefusedError("no"), ServerFaultError("no"), RewriteRefusedError("no")])
def test_a_candidate_that_cannot_be_made_loaded_or_run_is_not_the_end_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: FlyballError
) -> None:
    assert attempted(tmp_path, monkeypatch, error, Graph(level="basic")).failed == "no"
    with pytest.raises(type(error)):  # of the exported model itself it is
        attempted(tmp_path, monkeypatch, error, None)


def test_what_no_candidate_can_help_ends_the_run_and_is_not_told_as_a_candidate_s_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error in (InvalidInputError("labels"), MissingExtraError("scipy")):
        with pytest.raises(type(error)):
            attempted(tmp_path, monkeypatch, error, Graph(level="basic"))


def attempted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: FlyballError, request: Graph | None) -> Candidate:
    """One whose judging fails."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("flyball.models.optimize.steps.graph.rewrite", lambda *_: "sha256:0")
    monkeypatch.setattr("flyball.models.optimize.steps.graph.evaluate_candidate", fail)
    original = SimpleNamespace(run=SimpleNamespace(work=WorkFolder(tmp_path)))
    return attempt(original, StepResults({"export": {"columns": None}}), "basic", how="", request=request)


def test_an_element_that_the_output_does_not_have_is_told(tmp_path: Path) -> None:
    run = run_of(tmp_path, network(tmp_path))
    with pytest.raises(InvalidInputError, match="no element 3"):
        _ = Original(replace(run, subject=replace(run.subject, element=3))).answers


def test_a_model_of_one_row_is_never_batched_and_is_asked_row_by_row(tmp_path: Path) -> None:
    run = run_of(tmp_path, network(tmp_path))
    found = exported(run)
    document = graphs(Original(run), found, Silent())
    one_row = next(one for one in document["candidates"] if one["name"] == "one-row")
    assert one_row["failed"] is None
    assert not one_row["batching"]
    assert "fixed first axis of 1" in one_row["batching_reason"]


def test_the_export_cuts_what_nobody_asked_for_and_leaves_rows_free(tmp_path: Path) -> None:
    run = run_of(tmp_path, network(tmp_path))
    found = StepResults()
    document = export(run, found, Silent())
    assert document["outputs_cut"] == ["unused"]
    assert "Cast" not in operators_of(run.work.models / EXPORTED)
    made = Model(run.work.models / EXPORTED)
    assert len(made.run(run.rows.some(slice(0, 7)))["score"]) == 7


def test_an_export_that_changes_answers_ends_the_run_with_the_rows_that_show_it(tmp_path: Path) -> None:
    run = run_of(tmp_path, network(tmp_path))
    found = exported(run)
    other = onnx_with_another_bias(run.work.models / EXPORTED, 0.2)
    (run.work.models / EXPORTED).write_bytes(other)
    with pytest.raises(NotEqualError, match="rows changed by more than 1e-05") as error:
        equal(Original(run), found, Silent())
    assert "became" in str(error.value)


def test_a_threshold_that_moved_between_two_floats_is_found_although_no_given_row_shows_it(tmp_path: Path) -> None:
    model = onnx_models.gbdt(tmp_path)
    name = Model(model).facts.inputs[0].name
    np.savez(tmp_path / "rows.npz", **{name: np.random.default_rng(1).normal(size=(50, 8)).astype(np.float32)})
    subject = subject_of(model)
    rows = read_rows(tmp_path / "rows.npz", subject, Model(model).facts.inputs)
    original = Original(Run(subject, rows, WorkFolder(tmp_path / "work")))
    assert np.array_equal(
        original.comparison_rows.inputs[name][:50], rows.inputs[name]
    )  # labels are of the given rows, in their order
    told = evaluate_candidate(original, "moved", "a converter's rounding", moved(model), None)
    assert not told.accepted
    assert told.comparison is not None
    assert told.comparison.by_kind["given"].beyond == 0
    assert told.comparison.by_kind["edge"].beyond > 0


def moved(path: Path) -> Path:
    """The first split of the first tree, one float lower."""
    model = onnx_models.onnx.load(path)
    trees = next(node for node in model.graph.node if node.op_type.startswith("TreeEnsemble"))
    values = next(one for one in trees.attribute if one.name == "nodes_values").floats
    values[0] = float(np.nextafter(np.float32(values[0]), np.float32(-np.inf)))
    onnx_models.onnx.save(model, path.with_name("moved.onnx"))
    return path.with_name("moved.onnx")


def test_every_given_row_is_asked_before_anything_is_made_of_the_export(tmp_path: Path) -> None:
    run = run_of(tmp_path, network(tmp_path))
    wide = {name: np.concatenate([array] * 4) for name, array in run.rows.inputs.items()}
    told = equal(Original(replace(run, rows=replace(run.rows, inputs=wide, labels=None))), exported(run), Silent())
    assert told["by_kind"]["given"]["rows"] == 8000
    assert told["all"]["rows"] == 16000


def test_a_rewrite_that_fails_leaves_no_file_and_says_why(tmp_path: Path) -> None:
    model = network(tmp_path)
    (tmp_path / "work").mkdir()
    with pytest.raises(RewriteRefusedError, match=r"(?s)static_int8 of network\.onnx failed.*serve the original model"):
        rewrite(StaticInt8(per_channel=False), model, tmp_path / "work" / "made.onnx", {"wrong": np.zeros((4, 8))})
    assert list((tmp_path / "work").iterdir()) == []


def test_rewrites_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    model = network(tmp_path)
    for how in (Trim(outputs=["score"], name="n"), Graph(level="basic")):
        digests = {rewrite(how, model, tmp_path / f"{turn}.onnx") for turn in range(2)}
        assert len(digests) == 1


def test_a_model_that_is_another_after_the_load_ends_the_run(tmp_path: Path) -> None:
    run = run_of(tmp_path, network(tmp_path))
    found = chosen(run)
    assert retest(Original(run), found, Silent())["rollback"] == run.subject.digest
    (run.work.models / EXPORTED).write_bytes(onnx_with_another_bias(run.work.models / EXPORTED, 0.2))
    with pytest.raises(AfterLoadError, match="changed since its evaluation"):
        retest(Original(run), found, Silent())


def test_a_server_that_answers_otherwise_after_its_load_ends_the_run() -> None:
    inputs, engine = {"x": np.ones((4, 1))}, Counting(rows_max=9)
    same_served(Drifted(0.0), inputs, "score", engine)
    assert engine.runs == [1, 1, 1, 1]  # the server is asked row by row, and so is the engine
    with pytest.raises(AfterLoadError, match="answers differently under load"):
        same_served(Drifted(1e-7), inputs, "score", engine)


class Drifted:
    """A server whose answers are its inputs, or a little more."""

    def __init__(self, by: float) -> None:
        self._by = by

    def answers(self, inputs: Any, output: str) -> Any:
        return inputs["x"] + self._by


class Counting:
    """A model whose answers are its inputs, with the rows of each run."""

    def __init__(self, rows_max: int) -> None:
        self.facts = SimpleNamespace(batching=Batching(on=rows_max > 1, rows_max=rows_max))
        self.runs: list[int] = []

    def run(self, inputs: Any) -> Any:
        self.runs.append(len(inputs["x"]))
        return {"score": inputs["x"][:, :1]}


def test_no_run_has_more_rows_than_a_server_would_take_nor_more_bytes_than_a_run_may() -> None:
    few, pictures = Counting(rows_max=9), Counting(rows_max=64)
    assert table_of(few, "score", {"x": np.arange(20.0)[:, None]})[:, 0].tolist() == list(range(20))
    assert few.runs == [9, 9, 2]
    table_of(pictures, "score", {"x": np.lib.stride_tricks.as_strided(np.zeros(1), (7, 3 << 20), (0, 0))})
    assert pictures.runs == [2, 2, 2, 1]


def test_what_the_probe_found_is_what_python_reads(tmp_path: Path) -> None:
    facts = Model(network(tmp_path)).facts
    assert facts.batching.on
    assert 2 <= facts.batching.rows_max <= 64
