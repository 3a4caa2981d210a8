"""The pipeline that makes models faster: what it refuses, and what it chooses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import models
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from silent import Silent

from flyball.equivalence.gate import Bars
from flyball.errors import (
    FlyballError,
    InvalidInputError,
    MissingExtraError,
    ModelRefusedError,
    RefusedError,
    ServerFaultError,
    UsageError,
)
from flyball.model_documents import Batching
from flyball.model_runs import Model
from flyball.optimize.asking import table_of
from flyball.optimize.candidate import Candidate, judged
from flyball.optimize.choice import choose
from flyball.optimize.operators import columns_asked, operators_of, thresholds_of
from flyball.optimize.original import Original
from flyball.optimize.pipeline import Found
from flyball.optimize.rewriting import Graph, RewriteRefusedError, StaticInt8, Trim, rewrite
from flyball.optimize.rows import ROWS_MAX, Rows, read_rows
from flyball.optimize.run import Budget, Run
from flyball.optimize.steps.batch import rows_max
from flyball.optimize.steps.equal import Equal, NotEqualError
from flyball.optimize.steps.export import EXPORTED, Export
from flyball.optimize.steps.graph import Graphs, attempt
from flyball.optimize.steps.quantise import Quantise, calibration_places, held_out_of, unbatched, ways_on
from flyball.optimize.steps.served import AfterLoadError, Retest, same_served
from flyball.optimize.subject import subject_of
from flyball.optimize.work import Work

# A run on a small network.


def network(folder: Path, *, spoilt: bool = False, bias_shape: tuple[int, ...] = (32,)) -> Path:
    """Two layers and a sigmoid. `spoilt`: a weight beside small ones that is so large that 8 bits cannot hold both."""
    random = np.random.default_rng(2)
    first, second = (random.normal(size=shape).astype(np.float32) * 0.5 for shape in ((8, 32), (32, 1)))
    nodes = [
        models.helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]),
        models.helper.make_node("Relu", ["h"], ["r"]),
        models.helper.make_node("Gemm", ["r", "w2", "b2"], ["z"]),
        models.helper.make_node("Sigmoid", ["z"], ["score"]),
        models.helper.make_node("Cast", ["score"], ["unused"], to=models.TensorProto.INT64),
    ]
    bias = np.zeros(32, dtype=np.float32)
    if spoilt:
        # A unit that is hardly ever on, whose scale drowns every other.
        first[:, 0], second[0], bias[0] = 0.0, 1e-7, 1e6
    constants = {"w1": first, "b1": bias.reshape(bias_shape), "w2": second, "b2": np.zeros(1, dtype=np.float32)}
    inputs = [models.value("x", models.TensorProto.FLOAT, ["n", 8])]
    outputs = [
        models.value("unused", models.TensorProto.INT64, ["n", 1]),
        models.value("score", models.TensorProto.FLOAT, [1, 1]),
    ]
    return models.save(folder / "network.onnx", nodes, inputs, outputs, constants)


def run_of(tmp_path: Path, model: Path, **changed: Any) -> Run:
    random = np.random.default_rng(3)
    rows = random.normal(size=(2000, 8)).astype(np.float32)
    subject = subject_of(model, output="score[0]", thresholds=[0.5])
    truth = (Model(model).run({"x": rows})["score"][:, 0] > random.random(2000)).astype(np.float64)
    np.savez(tmp_path / "rows.npz", x=rows, label=truth)
    made = read_rows(tmp_path / "rows.npz", subject, Model(model).facts.inputs, labels="label")
    work = Work(tmp_path / "work")
    with work.held():
        return Run(subject, made, work, **changed)


def exported(run: Run) -> Found:
    found = Found()
    found.documents["export"] = Export(run).run(found, Silent())
    return found


def quantised(run: Run) -> list[Candidate]:
    document = Quantise(Original(run)).run(exported(run), Silent())
    return [Candidate.model_validate(one) for one in document["candidates"]]


BARS = Bars(auc=0.02, logloss=0.02, accuracy=0.02, flips=0.03)


def test_eight_bits_are_taken_where_the_gate_passes_and_refused_where_they_hurt(tmp_path: Path) -> None:
    (tmp_path / "sound").mkdir()
    (tmp_path / "spoilt").mkdir()
    sound = quantised(run_of(tmp_path / "sound", network(tmp_path / "sound"), bars=BARS))
    assert any(one.accepted and one.outcome == "within_gate" for one in sound), [one.why_not for one in sound]
    static, dynamic = (one.comparison for one in (sound[0], sound[-1]))
    assert static is not None
    assert dynamic is not None
    # By the rows that its ranges were taken from, no candidate is judged.
    assert (static.by_kind["calibration"].rows, static.by_kind["given"].rows, static.flips[0].rows) == (500, 1500, 1500)
    assert (dynamic.by_kind["given"].rows, dynamic.flips[0].rows) == (2000, 2000)
    hurt = quantised(run_of(tmp_path / "spoilt", network(tmp_path / "spoilt", spoilt=True), bars=BARS))
    spoilt = next(one for one in hurt if one.name == "static-int8")
    assert spoilt.failed is None
    assert not spoilt.accepted
    assert "may be lost" in spoilt.why_not or "rows change" in spoilt.why_not


def test_calibration_rows_are_held_out_where_enough_others_are_left_of_each_class(tmp_path: Path) -> None:
    original = Original(run_of(tmp_path, network(tmp_path)))
    assert held_out_of(original) == calibration_places(original.run.rows)
    few = replace(original.run, rows=replace(original.run.rows, inputs=original.run.rows.some(slice(0, 127)), labels=None))
    assert len(calibration_places(few.rows)) == 32
    assert held_out_of(Original(few)) == []
    rare = np.zeros(original.run.rows.count)
    rare[calibration_places(original.run.rows)[:40]] = 1.0
    assert held_out_of(Original(replace(original.run, rows=replace(original.run.rows, labels=rare)))) == []


def test_a_candidate_is_judged_again_by_the_rows_by_which_it_was_judged(tmp_path: Path) -> None:
    run = run_of(tmp_path, network(tmp_path))
    found = chosen(run, held_out=held_out_of(Original(run)))
    assert Retest(Original(run)).run(found, Silent())["rollback"] == run.subject.digest


def test_a_network_without_some_columns_is_calibrated_without_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def attempt(_: Any, __: Any, name: str, **how: Any) -> Candidate:
        asked[name] = how
        return Candidate(name=name, how="", failed="not made")

    run = run_of(tmp_path, network(tmp_path))
    found = exported(run)
    found.documents["export"]["columns"] = [1, 4]
    monkeypatch.setattr("flyball.optimize.steps.quantise.attempt", attempt)
    Quantise(Original(run)).run(found, Silent())
    wanted = run.rows.inputs["x"][calibration_places(run.rows)][:, [1, 4]]
    assert np.array_equal(asked["static-int8"]["calibration"]["x"], wanted)
    assert "calibration" not in asked["dynamic-int8"]


@pytest.mark.parametrize(
    ("arch", "features", "reduced"),
    [
        ("x86_64", ["avx2", "avx512f"], True),
        ("x86_64", ["avx2", "avxvnni"], False),
        ("x86_64", ["avx512vnni"], False),
        ("aarch64", ["neon"], False),
    ],
)
def test_weights_take_seven_bits_where_products_of_eight_would_saturate(
    arch: str, features: list[str], reduced: bool
) -> None:
    ways = ways_on({"arch": arch, "cpu_features": features})
    assert {name for name, (_, way) in ways.items() if getattr(way, "reduce_range", False)} == (
        {"static-int8-channel", "static-int8-percentile"} if reduced else set()
    )
    assert all(("7 bits" in how) == getattr(way, "reduce_range", False) for how, way in ways.values())


def test_a_reduced_range_leaves_a_bit_of_every_weight_unused(tmp_path: Path) -> None:
    model = network(tmp_path)
    rows = {"x": np.random.default_rng(1).normal(size=(32, 8)).astype(np.float32)}
    rewrite(StaticInt8(per_channel=True, reduce_range=True), model, tmp_path / "made.onnx", rows)
    made = models.onnx.load(tmp_path / "made.onnx")
    weights = [
        models.numpy_helper.to_array(one) for one in made.graph.initializer if one.data_type == models.TensorProto.INT8
    ]
    largest = max(int(np.abs(one.astype(np.int32)).max()) for one in weights if one.ndim == 2)
    assert 60 <= largest <= 64


def test_a_dynamically_quantised_model_serves_only_where_servers_find_out_not_to_batch_it(tmp_path: Path) -> None:
    (dynamic,) = (one for one in quantised(run_of(tmp_path, network(tmp_path), bars=BARS)) if one.name == "dynamic-int8")
    assert not dynamic.batching
    assert "neighbours" in dynamic.batching_reason
    assert dynamic.accepted
    batched = unbatched(dynamic.model_copy(update={"batching": True}))
    assert not batched.accepted
    assert "it would batch it" in batched.why_not


def test_a_bias_of_one_row_does_not_keep_a_network_from_a_scale_for_each_channel(tmp_path: Path) -> None:
    made = {one.name: one for one in quantised(run_of(tmp_path, network(tmp_path, bias_shape=(1, 32)), bars=BARS))}
    assert made["static-int8-channel"].failed is None


def test_without_labels_and_thresholds_a_difference_cannot_be_judged_and_says_so(tmp_path: Path) -> None:
    run = run_of(tmp_path, network(tmp_path))
    blind = replace(run, subject=replace(run.subject, thresholds=[]), rows=replace(run.rows, labels=None))
    static = next(one for one in quantised(blind) if one.name == "static-int8")
    assert not static.accepted
    assert "neither labels nor thresholds" in static.why_not


@pytest.mark.parametrize("labelled", [True, False])
def test_a_candidate_that_loses_the_answer_to_one_given_row_is_refused(tmp_path: Path, labelled: bool) -> None:
    run = run_of(tmp_path, network(tmp_path))
    original = Original(run if labelled else replace(run, rows=replace(run.rows, labels=None)))
    told = judged(
        original, "losing", "", losing(run.subject.model, float(np.sort(run.rows.inputs["x"][:, 0])[-2:].mean())), None
    )
    assert told.comparison is not None
    assert (told.comparison.by_kind["given"].beyond, told.comparison.flips[0].flips) == (1, 1)
    assert not told.accepted
    assert "1 row that had an answer has none" in told.why_not
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
    told = judged(original, "other", "", other, None)
    assert told.verdict is not None
    assert told.verdict.findings[0].passed  # over all rows
    assert {(one.what, one.segment) for one in told.verdict.findings if not one.passed} == {("flips", "hit")}
    assert not told.accepted


def losing(path: Path, limit: float) -> Path:
    """The same answers, but none where the first column is above the limit: what is left below it has no logarithm."""
    model = models.onnx.load(path)
    next(node for node in model.graph.node if node.op_type == "Sigmoid").output[0] = "sound"
    next(node for node in model.graph.node if node.op_type == "Cast").input[0] = "sound"
    first = np.eye(8, 1, dtype=np.float32) * -1
    constants = {"first": first, "limit": np.array([limit], np.float32), "nothing": np.zeros(1, np.float32)}
    model.graph.initializer.extend(models.numpy_helper.from_array(value, name) for name, value in constants.items())
    for op, inputs, output in (
        ("Gemm", ["x", "first", "limit"], "left"),
        ("Log", ["left"], "log"),
        ("Mul", ["log", "nothing"], "zero"),
        ("Add", ["zero", "sound"], "score"),
    ):
        model.graph.node.append(models.helper.make_node(op, inputs, [output]))
    models.onnx.save(model, path.with_name("losing.onnx"))
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
        labels = Original(Run(subject, made, Work(tmp_path / "work"))).labels
        assert labels is not None
        assert labels.task == "two_classes"
        assert labels.truth.tolist() == told.tolist()


def two_classes(folder: Path) -> Path:
    nodes = [models.helper.make_node("Gemm", ["x", "w"], ["z"]), models.helper.make_node("Softmax", ["z"], ["chances"])]
    weights = np.zeros((4, 2), dtype=np.float32)
    weights[0] = (-2, 2)
    inputs = [models.value("x", models.TensorProto.FLOAT, ["n", 4])]
    outputs = [models.value("chances", models.TensorProto.FLOAT, ["n", 2])]
    return models.save(folder / "two.onnx", nodes, inputs, outputs, {"w": weights})


def test_a_threshold_of_an_output_with_several_scores_asks_which_one_is_meant(tmp_path: Path) -> None:
    model = two_classes(tmp_path)
    for named in ("chances", None):
        with pytest.raises(UsageError, match=r"(?s)several elements a row.*--output 'chances\[1\]'"):
            subject_of(model, output=named, thresholds=[0.5])
    assert subject_of(model, output="chances").thresholds == []
    silent = models.onnx.load(model)
    silent.graph.output[0].type.tensor_type.ClearField("shape")
    models.onnx.save(silent, model)
    subject = subject_of(model, thresholds=[0.5])
    rows = Rows({"x": np.zeros((3, 4), np.float32)}, None, None, "sha256:0")
    with pytest.raises(UsageError, match="several elements a row"):
        _ = Original(Run(subject, rows, Work(tmp_path / "work"))).answers


def test_labels_that_cannot_be_the_truth_end_the_run_and_not_each_candidate(tmp_path: Path) -> None:
    run = run_of(tmp_path, network(tmp_path))
    one_class = replace(run, rows=replace(run.rows, labels=np.ones(run.rows.count)))
    with pytest.raises(InvalidInputError, match="fewer than 2 rows of a class"):
        Graphs(Original(one_class)).run(Found({"export": {"columns": None}}), Silent())


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


def attempted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: FlyballError, way: Graph | None) -> Candidate:
    """One whose judging fails."""

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("flyball.optimize.steps.graph.rewrite", lambda *_: "sha256:0")
    monkeypatch.setattr("flyball.optimize.steps.graph.judged", fail)
    original = SimpleNamespace(run=SimpleNamespace(work=Work(tmp_path)))
    return attempt(original, Found({"export": {"columns": None}}), "basic", how="", way=way)


def test_an_element_that_the_output_does_not_have_is_told(tmp_path: Path) -> None:
    run = run_of(tmp_path, network(tmp_path))
    with pytest.raises(InvalidInputError, match="none with the number 3"):
        _ = Original(replace(run, subject=replace(run.subject, element=3))).answers


def test_a_model_of_one_row_is_never_batched_and_is_asked_row_by_row(tmp_path: Path) -> None:
    run = run_of(tmp_path, network(tmp_path))
    found = exported(run)
    document = Graphs(Original(run)).run(found, Silent())
    one_row = next(one for one in document["candidates"] if one["name"] == "one-row")
    assert one_row["failed"] is None
    assert not one_row["batching"]
    assert "fixed first axis of 1" in one_row["batching_reason"]


def test_trees_have_nothing_to_quantise_and_tell_their_columns_and_thresholds(tmp_path: Path) -> None:
    model = models.gbdt(tmp_path)
    asked, thresholds = columns_asked(model), thresholds_of(model)
    assert asked
    assert {int(column) for column in thresholds} == asked
    width = Model(model).facts.inputs[0].shape[1]
    rows = np.random.default_rng(1).normal(size=(300, width)).astype(np.float32)
    np.savez(tmp_path / "rows.npz", **{Model(model).facts.inputs[0].name: rows})
    subject = subject_of(model)
    run = Run(subject, read_rows(tmp_path / "rows.npz", subject, Model(model).facts.inputs), Work(tmp_path / "work"))
    with run.work.held():
        document = Quantise(Original(run)).run(exported(run), Silent())
    assert document["candidates"] == []
    assert "TreeEnsemble" in document["does_nothing"]


def test_the_export_cuts_what_nobody_asked_for_and_leaves_rows_free(tmp_path: Path) -> None:
    run = run_of(tmp_path, network(tmp_path))
    found = Found()
    document = Export(run).run(found, Silent())
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
        Equal(Original(run)).run(found, Silent())
    assert "became" in str(error.value)


def test_a_threshold_that_moved_between_two_floats_is_found_although_no_given_row_shows_it(tmp_path: Path) -> None:
    model = models.gbdt(tmp_path)
    name = Model(model).facts.inputs[0].name
    np.savez(tmp_path / "rows.npz", **{name: np.random.default_rng(1).normal(size=(50, 8)).astype(np.float32)})
    subject = subject_of(model)
    rows = read_rows(tmp_path / "rows.npz", subject, Model(model).facts.inputs)
    original = Original(Run(subject, rows, Work(tmp_path / "work")))
    assert np.array_equal(
        original.asked.inputs[name][:50], rows.inputs[name]
    )  # labels are of the given rows, in their order
    told = judged(original, "moved", "a converter's rounding", moved(model), None)
    assert not told.accepted
    assert told.comparison is not None
    assert told.comparison.by_kind["given"].beyond == 0
    assert told.comparison.by_kind["edge"].beyond > 0


def moved(path: Path) -> Path:
    """The first split of the first tree, one float lower."""
    model = models.onnx.load(path)
    trees = next(node for node in model.graph.node if node.op_type.startswith("TreeEnsemble"))
    values = next(one for one in trees.attribute if one.name == "nodes_values").floats
    values[0] = float(np.nextafter(np.float32(values[0]), np.float32(-np.inf)))
    models.onnx.save(model, path.with_name("moved.onnx"))
    return path.with_name("moved.onnx")


def test_every_given_row_is_asked_before_anything_is_made_of_the_export(tmp_path: Path) -> None:
    run = run_of(tmp_path, network(tmp_path))
    wide = {name: np.concatenate([array] * 4) for name, array in run.rows.inputs.items()}
    told = Equal(Original(replace(run, rows=replace(run.rows, inputs=wide, labels=None)))).run(exported(run), Silent())
    assert told["by_kind"]["given"]["rows"] == 8000
    assert told["all"]["rows"] == 16000


def onnx_with_another_bias(path: Path, shift: float) -> bytes:
    model = models.onnx.load(path)
    for weight in model.graph.initializer:
        if weight.name == "b2":
            shifted = models.numpy_helper.to_array(weight) + np.float32(shift)
            weight.CopyFrom(models.numpy_helper.from_array(shifted, "b2"))
    return bytes(model.SerializeToString())


def test_a_rewrite_that_fails_leaves_no_file_and_says_why(tmp_path: Path) -> None:
    model = network(tmp_path)
    (tmp_path / "work").mkdir()
    with pytest.raises(RewriteRefusedError, match=r"(?s)static_int8 of network\.onnx failed.*serve the model as it is"):
        rewrite(StaticInt8(per_channel=False), model, tmp_path / "work" / "made.onnx", {"wrong": np.zeros((4, 8))})
    assert list((tmp_path / "work").iterdir()) == []


def test_rewrites_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    model = network(tmp_path)
    for how in (Trim(outputs=["score"], name="n"), Graph(level="basic")):
        digests = {rewrite(how, model, tmp_path / f"{turn}.onnx") for turn in range(2)}
        assert len(digests) == 1


def chosen(run: Run, held_out: Sequence[int] = ()) -> Found:
    """As after the step that measures; the exported model is the only candidate."""
    found = exported(run)
    candidate = judged(Original(run), "float32", "as exported", run.work.models / EXPORTED, None, held_out=held_out)
    found.documents |= {
        "graph": {"candidates": [candidate.model_dump()]},
        "quantise": {"candidates": []},
        "batch": {"figures": {"float32": {"1": {"p50_us": 1.0, "p99_us": 2.0}}}, "rows_max": {"float32": 32}},
    }
    return found


def test_a_model_that_is_another_after_the_load_ends_the_run(tmp_path: Path) -> None:
    run = run_of(tmp_path, network(tmp_path))
    found = chosen(run)
    assert Retest(Original(run)).run(found, Silent())["rollback"] == run.subject.digest
    (run.work.models / EXPORTED).write_bytes(onnx_with_another_bias(run.work.models / EXPORTED, 0.2))
    with pytest.raises(AfterLoadError, match="no longer the file that was judged"):
        Retest(Original(run)).run(found, Silent())


def test_a_server_that_answers_otherwise_after_its_load_ends_the_run() -> None:
    inputs, engine = {"x": np.ones((4, 1))}, Counting(rows_max=9)
    same_served(Drifted(0.0), inputs, "score", engine)
    assert engine.runs == [1, 1, 1, 1]  # the server is asked row by row, and so is the engine
    with pytest.raises(AfterLoadError, match="served under load"):
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


# Rows.


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"y": np.zeros((3, 8))}, "lacks x, label"),
        ({"x": np.zeros((3, 8)), "label": np.zeros(2)}, "the same number"),
        ({"x": np.zeros((0, 8)), "label": np.zeros(0)}, "one row or more"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, arrays: dict[str, Any], words: str) -> None:
    model = network(tmp_path)
    np.savez(tmp_path / "rows.npz", **arrays)
    with pytest.raises(RefusedError, match=words):
        read_rows(tmp_path / "rows.npz", subject_of(model), Model(model).facts.inputs, labels="label")


def test_labels_of_words_and_of_gaps_are_refused_with_the_way_forward(tmp_path: Path) -> None:
    model = network(tmp_path)
    for labels, words in ((np.array(["yes", "no", "no"]), "not all numbers"), (np.array([0, 1, np.nan]), "is missing")):
        np.savez(tmp_path / "rows.npz", x=np.zeros((3, 8), dtype=np.float32), label=labels)
        with pytest.raises(RefusedError, match=words):
            read_rows(tmp_path / "rows.npz", subject_of(model), Model(model).facts.inputs, labels="label")


def test_of_too_many_rows_some_are_taken_from_all_over_the_file(tmp_path: Path) -> None:
    model = network(tmp_path)
    rows = np.repeat(np.arange(ROWS_MAX * 2, dtype=np.float32)[:, None], 8, axis=1)
    np.savez(tmp_path / "rows.npz", x=rows)
    taken = read_rows(tmp_path / "rows.npz", subject_of(model), Model(model).facts.inputs).inputs["x"][:, 0]
    assert (len(taken), taken[0], taken[-1]) == (ROWS_MAX, 0.0, ROWS_MAX * 2 - 1)


def test_a_pickle_inside_an_array_file_is_not_opened(tmp_path: Path) -> None:
    model = network(tmp_path)
    np.savez(tmp_path / "rows.npz", x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(RefusedError, match="cannot read"):
        read_rows(tmp_path / "rows.npz", subject_of(model), Model(model).facts.inputs)


def test_a_file_of_columns_feeds_a_model_without_the_label_and_the_segment(tmp_path: Path) -> None:
    model = network(tmp_path)
    head = [*(f"c{place}" for place in range(8)), "label", "where"]
    lines = [",".join(head)] + [
        ",".join([*(str(place + row) for place in range(8)), str(row % 2), "north"]) for row in range(5)
    ]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    inputs = Model(model).facts.inputs
    rows = read_rows(tmp_path / "rows.csv", subject_of(model), inputs, labels="label", segments="where")
    assert rows.inputs["x"].shape == (5, 8)
    assert rows.names == head[:8]
    assert rows.labels is not None
    assert rows.labels.tolist() == [0, 1, 0, 1, 0]
    with pytest.raises(RefusedError, match="has no column 'lable'"):
        read_rows(tmp_path / "rows.csv", subject_of(model), inputs, labels="lable")


def test_a_folder_without_a_decision_is_told_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no decision\.yaml"):
        subject_of(tmp_path)


# The choice.


def candidate(name: str, *, accepted: bool = True, size: int = 100) -> Candidate:
    return Candidate(name=name, how="", size_bytes=size, outcome="equal" if accepted else "refused")


def figures(**p50: float) -> dict[str, dict[str, dict[str, float]]]:
    return {name: {"1": {"p50_us": value, "p99_us": value * 2}} for name, value in p50.items()}


def test_the_fastest_that_may_serve_is_chosen_and_a_refused_one_never() -> None:
    made = [candidate("plain"), candidate("quick"), candidate("wrong", accepted=False)]
    told = choose(made, figures(plain=100, quick=40, wrong=1), Budget())
    assert told.chosen == "quick"
    assert "2.50 times as fast as plain" in told.reason
    assert {line.name: line.front for line in told.lines} == {"plain": False, "quick": True, "wrong": False}


def test_a_gain_that_is_hardly_there_leaves_the_simplest() -> None:
    told = choose([candidate("plain"), candidate("quick")], figures(plain=100, quick=97), Budget())
    assert told.chosen == "plain"


def test_a_budget_is_kept_before_speed_counts() -> None:
    made = [candidate("plain"), candidate("quick", size=5_000_000)]
    told = choose(made, figures(plain=100, quick=40), Budget(size_mb=1))
    assert told.chosen == "plain"
    assert "none is within the budget" in choose(made, figures(plain=100, quick=40), Budget(p99_ms=0.001)).reason


@given(st.lists(st.tuples(st.floats(1, 1000), st.integers(1, 1000), st.booleans()), min_size=1, max_size=8))
def test_whatever_is_chosen_may_serve_and_lies_on_the_front_or_is_the_simplest(drawn: list[tuple[float, int, bool]]) -> None:
    made = [candidate(f"c{place}", accepted=ok or not place, size=size) for place, (_, size, ok) in enumerate(drawn)]
    told = choose(made, figures(**{f"c{place}": p50 for place, (p50, _, _) in enumerate(drawn)}), Budget())
    line = next(line for line in told.lines if line.name == told.chosen)
    assert line.accepted
    assert line.front or line.name == "c0"
    json.dumps(told.model_dump())


def test_a_larger_batch_is_taken_as_long_as_a_row_gets_cheaper() -> None:
    times = {1: 100.0, 2: 120.0, 4: 150.0, 8: 290.0, 16: 570.0}
    assert rows_max({str(rows): {"p50_us": us} for rows, us in times.items()}) == 4
    assert rows_max({"1": {"p50_us": 900.0}, "2": {"p50_us": 1100.0}}) == 1
