"""Eight bits: by which rows they are judged, on which CPU, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from flyball.models.equivalence.gate import Bars
from flyball.models.optimize.candidate import Candidate
from flyball.models.optimize.operators import columns_used, thresholds_of
from flyball.models.optimize.original import Original
from flyball.models.optimize.rewrite import DynamicInt8, Rewrite, StaticInt8, rewrite
from flyball.models.optimize.rows import read_rows
from flyball.models.optimize.run import Run
from flyball.models.optimize.steps.export import EXPORTED
from flyball.models.optimize.steps.quantise import calibration_indices, held_out_of, quantise, unbatched, variants_on
from flyball.models.optimize.steps.served import retest
from flyball.models.optimize.subject import subject_of
from flyball.models.optimize.work_folder import WorkFolder
from flyball.native.model_runs import Model
from tests.support import onnx_models
from tests.support.silent_progress import Silent
from tests.support.small_network import chosen, exported, network, run_of

BARS = Bars(auc=0.02, logloss=0.02, accuracy=0.02, flips=0.03)


def quantised(run: Run) -> list[Candidate]:
    document = quantise(Original(run), exported(run), Silent())
    return [Candidate.model_validate(one) for one in document["candidates"]]


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
    assert "allowed" in spoilt.why_not or "rows change" in spoilt.why_not


@pytest.mark.parametrize("change", [StaticInt8(per_channel=True), DynamicInt8()])
def test_what_makes_the_scores_stays_in_32_bits(tmp_path: Path, change: Rewrite) -> None:
    run = run_of(tmp_path, network(tmp_path))
    exported(run)
    rewrite(change, run.work.models / EXPORTED, tmp_path / "made.onnx", run.rows.some(slice(0, 64)))
    graph = onnx.load(tmp_path / "made.onnx").graph
    makers = {name: node for node in graph.node for name in node.output}
    assert any("Quantize" in node.op_type for node in graph.node)
    way_back = [makers["score"]]
    while way_back[-1].op_type not in ("Gemm", "MatMul"):
        way_back.append(makers[way_back[-1].input[0]])
    assert {node.op_type for node in way_back} <= {"Sigmoid", "Add", "Gemm", "MatMul"}  # nothing is rounded there
    weights = {one.name: one.data_type for one in graph.initializer}
    assert weights[way_back[-1].input[1]] == onnx.TensorProto.FLOAT


def test_the_only_product_of_a_model_is_quantised_and_its_scores_are_not(tmp_path: Path) -> None:
    weight = {"w": np.random.default_rng(4).normal(size=(8, 64)).astype(np.float32)}
    nodes = [
        onnx_models.helper.make_node("MatMul", ["x", "w"], ["z"]),
        onnx_models.helper.make_node("Sigmoid", ["z"], ["score"]),
    ]
    ends = [onnx_models.value(name, onnx_models.TensorProto.FLOAT, ["n", wide]) for name, wide in (("x", 8), ("score", 64))]
    source = onnx_models.save(tmp_path / "one.onnx", nodes, ends[:1], ends[1:], weight)
    rows = {"x": np.random.default_rng(5).normal(size=(64, 8)).astype(np.float32)}
    rewrite(StaticInt8(per_channel=False), source, tmp_path / "made.onnx", rows)
    graph = onnx.load(tmp_path / "made.onnx").graph
    assert onnx.TensorProto.INT8 in {one.data_type for one in graph.initializer}
    assert graph.node[-1].op_type == "Sigmoid"


def test_calibration_rows_are_held_out_where_enough_others_are_left_of_each_class(tmp_path: Path) -> None:
    original = Original(run_of(tmp_path, network(tmp_path)))
    assert held_out_of(original) == calibration_indices(original.run.rows)
    few = replace(original.run, rows=replace(original.run.rows, inputs=original.run.rows.some(slice(0, 127)), labels=None))
    assert len(calibration_indices(few.rows)) == 32
    assert held_out_of(Original(few)) == []
    rare = np.zeros(original.run.rows.count)
    rare[calibration_indices(original.run.rows)[:40]] = 1.0
    assert held_out_of(Original(replace(original.run, rows=replace(original.run.rows, labels=rare)))) == []


def test_a_candidate_is_judged_again_by_the_rows_by_which_it_was_judged(tmp_path: Path) -> None:
    run = run_of(tmp_path, network(tmp_path))
    found = chosen(run, held_out=held_out_of(Original(run)))
    assert retest(Original(run), found, Silent())["rollback"] == run.subject.digest


def test_a_network_without_some_columns_is_calibrated_without_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    comparison_rows: dict[str, Any] = {}

    def attempt(_: Any, __: Any, name: str, **how: Any) -> Candidate:
        comparison_rows[name] = how
        return Candidate(name=name, how="", failed="not made")

    run = run_of(tmp_path, network(tmp_path))
    found = exported(run)
    found.documents["export"]["columns"] = [1, 4]
    monkeypatch.setattr("flyball.models.optimize.steps.quantise.attempt", attempt)
    quantise(Original(run), found, Silent())
    wanted = run.rows.inputs["x"][calibration_indices(run.rows)][:, [1, 4]]
    assert np.array_equal(comparison_rows["static-int8"]["calibration"]["x"], wanted)
    assert "calibration" not in comparison_rows["dynamic-int8"]


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
    ways = variants_on({"arch": arch, "cpu_features": features})
    assert {name for name, (_, request) in ways.items() if getattr(request, "reduce_range", False)} == (
        {"static-int8-channel", "static-int8-percentile"} if reduced else set()
    )
    assert all(("7 bits" in how) == getattr(request, "reduce_range", False) for how, request in ways.values())


def test_a_reduced_range_leaves_a_bit_of_every_weight_unused(tmp_path: Path) -> None:
    model = network(tmp_path)
    rows = {"x": np.random.default_rng(1).normal(size=(32, 8)).astype(np.float32)}
    rewrite(StaticInt8(per_channel=True, reduce_range=True), model, tmp_path / "made.onnx", rows)
    made = onnx_models.onnx.load(tmp_path / "made.onnx")
    weights = [
        onnx_models.numpy_helper.to_array(one)
        for one in made.graph.initializer
        if one.data_type == onnx_models.TensorProto.INT8
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
    assert "it would be batched" in batched.why_not


def test_a_bias_of_one_row_does_not_keep_a_network_from_a_scale_for_each_channel(tmp_path: Path) -> None:
    made = {one.name: one for one in quantised(run_of(tmp_path, network(tmp_path, bias_shape=(1, 32)), bars=BARS))}
    assert made["static-int8-channel"].failed is None


def test_without_labels_and_thresholds_a_difference_cannot_be_judged_and_says_so(tmp_path: Path) -> None:
    run = run_of(tmp_path, network(tmp_path))
    blind = replace(run, subject=replace(run.subject, thresholds=[]), rows=replace(run.rows, labels=None))
    static = next(one for one in quantised(blind) if one.name == "static-int8")
    assert not static.accepted
    assert "neither labels nor thresholds" in static.why_not


def test_trees_have_nothing_to_quantise_and_tell_their_columns_and_thresholds(tmp_path: Path) -> None:
    model = onnx_models.gbdt(tmp_path)
    comparison_rows, thresholds = columns_used(model), thresholds_of(model)
    assert comparison_rows
    assert {int(column) for column in thresholds} == comparison_rows
    width = Model(model).facts.inputs[0].shape[1]
    rows = np.random.default_rng(1).normal(size=(300, width)).astype(np.float32)
    np.savez(tmp_path / "rows.npz", **{Model(model).facts.inputs[0].name: rows})
    subject = subject_of(model)
    run = Run(subject, read_rows(tmp_path / "rows.npz", subject, Model(model).facts.inputs), WorkFolder(tmp_path / "work"))
    with run.work.held():
        document = quantise(Original(run), exported(run), Silent())
    assert document["candidates"] == []
    assert "TreeEnsemble" in document["does_nothing"]
