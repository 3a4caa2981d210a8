"""Where a model's time goes: profiles read, operations and floors counted, rules that speak, and the verb on real models."""

import json
import math
import re
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from flyball.errors import RefusedError
from flyball.models.profile import OperatorLine, explain
from flyball.models.profile.advice import advice_on
from flyball.models.profile.cost import Machine, moved_bytes, operations_of
from flyball.models.profile.profile import Call, Shaped, read_profile
from flyball.models.profile.profiler_overhead import _chain, call_cost_us, typical
from flyball.native.model_documents import Batching, Ceiling, ReadSpeed
from flyball.native.model_runs import Model, ceiling
from tests.support import onnx_models

GOLDEN = Path(__file__).parents[1] / "golden" / "ort-profile"
# One operation a ns, a byte a ns of what is small, and a tenth of that of what is not.
MACHINE = Ceiling(
    flops=1e9,
    int8_times=4.0,
    reads=[ReadSpeed(set_bytes=1000, bytes_a_second=1e9), ReadSpeed(set_bytes=100_000, bytes_a_second=1e8)],
)


measured_once, weighed_once = cache(ceiling), cache(call_cost_us)


def call(op, inputs, outputs, *, input_bytes=0, weight_bytes=0, output_bytes=0):
    """Shapes as texts: "float 1 4"."""
    shapes = [tuple(_shaped(text) for text in told) for told in (inputs, outputs)]
    return Call("node", op, 1, *shapes, input_bytes, weight_bytes, output_bytes)


def _shaped(text):
    kind, *sizes = text.split()
    return Shaped(kind, tuple(map(int, sizes)))


@pytest.fixture(autouse=True)
def short_turns(monkeypatch):
    """What is tested here does not need many runs, and the machine is measured once."""
    monkeypatch.setattr("flyball.models.profile.explanation._TURN_US", 3_000)
    monkeypatch.setattr("flyball.models.profile.explanation.ceiling", measured_once)
    monkeypatch.setattr("flyball.models.profile.explanation.call_cost_us", weighed_once)


@pytest.fixture(scope="module")
def mlp(tmp_path_factory):
    """64 → 512 → 512 → 1, ten times as slow in its products as in all else."""
    widths, constants, nodes, last = [64, 512, 512, 1], {}, [], "x"
    for layer in range(3):
        shape = (widths[layer], widths[layer + 1])
        constants[f"w{layer}"] = (onnx_models.rng(layer).normal(size=shape) / 16).astype(np.float32)
        constants[f"b{layer}"] = np.zeros(shape[1], np.float32)
        nodes.append(helper.make_node("Gemm", [last, f"w{layer}", f"b{layer}"], [f"g{layer}"]))
        last = f"r{layer}" if layer < 2 else "y"
        nodes.append(helper.make_node("Relu" if layer < 2 else "Sigmoid", [f"g{layer}"], [last]))
    ends = [onnx_models.value("x", TensorProto.FLOAT, ["n", 64])], [onnx_models.value("y", TensorProto.FLOAT, ["n", 1])]
    return onnx_models.save(tmp_path_factory.mktemp("mlp") / "mlp.onnx", nodes, *ends, constants)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Takes an even number of numbers, so that one made-up row of three does not run."""
    nodes = [helper.make_node("Reshape", ["x", "two"], ["y"])]
    ends = [onnx_models.value("x", TensorProto.FLOAT, ["n", 3])], [onnx_models.value("y", TensorProto.FLOAT, ["m", 2])]
    constants = {"two": np.array([-1, 2], np.int64)}
    return onnx_models.save(tmp_path_factory.mktemp("pairs") / "pairs.onnx", nodes, *ends, constants)


def test_a_loops_own_time_is_without_what_it_runs_and_operators_never_exceed_their_run():
    runs = read_profile(GOLDEN / "loop.json")
    assert [run.took_us for run in runs] == [19, 17]
    assert [(one.node, one.op, one.took_us) for one in runs[0].calls] == [
        ("Loop_0", "Loop", 11), ("Add_1", "Add", 3), ("Identity_0", "Identity", 1),
    ]  # fmt: skip
    for run in runs:
        assert sum(one.took_us for one in run.calls) <= run.took_us


def test_operators_come_with_their_shapes_and_bytes_run_by_run():
    runs = read_profile(GOLDEN / "convolutions.json")
    assert [len(run.calls) for run in runs] == [8, 8]
    second = runs[1].calls[1]
    assert (second.op, second.took_us, second.weight_bytes) == ("Conv", 275, 18_560)
    assert [str(tensor) for tensor in second.inputs] == ["float[1×16×112×112]", "float[32×16×3×3]", "float[32]"]
    for run in runs:
        assert sum(one.took_us for one in run.calls) <= run.took_us


NAMELESS = """[
    {"cat": "Session", "name": "SequentialExecutor::Execute", "ts": 0, "dur": 5},
    {"cat": "Node", "name": "x_kernel_time", "ts": 1, "dur": 1, "args": {}}
]"""


@pytest.mark.parametrize("text", ["", "[]", "[1]", '[{"cat": "Session"}]', NAMELESS])
def test_what_is_no_profile_is_refused_by_its_name(tmp_path, text):
    path = tmp_path / "odd.json"
    path.write_text(text)
    with pytest.raises(RefusedError, match=r"odd\.json is not an ONNX Runtime profile"):
        read_profile(path)


def test_a_profile_of_more_than_is_sensible_is_refused_unread(monkeypatch):
    monkeypatch.setattr("flyball.models.profile.profile.BYTES_MAX", 100)
    with pytest.raises(RefusedError, match="too many operators"):
        read_profile(GOLDEN / "loop.json")


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "wanted"),
    [
        ("Gemm", ["float 8 64", "float 64 10", "float 10"], ["float 8 10"], 2 * 8 * 64 * 10),
        ("FusedGemm", ["float 8 64", "float 10"], ["float 8 10"], 2 * 8 * 64 * 10),
        ("Gemm", ["float 64 8", "float 64 10"], ["float 8 10"], 2 * 8 * 64 * 10),
        ("MatMul", ["float 2 3 4 5", "float 2 3 5 6"], ["float 2 3 4 6"], 2 * 2 * 3 * 4 * 5 * 6),
        ("MatMul", ["float 7 5", "float 5"], ["float 7"], 2 * 7 * 5),
        ("Conv", ["float 1 16 112 112", "float 32 16 3 3"], ["float 1 32 56 56"], 2 * 32 * 56 * 56 * 16 * 9),
        ("Conv", ["float 1 32 56 56", "float 32 1 3 3"], ["float 1 32 56 56"], 2 * 32 * 56 * 56 * 9),
        ("QLinearConv", ["uint8 1 3 8 8", "float", "uint8", "int8 4 3 3 3"], ["uint8 1 4 8 8"], 2 * 4 * 64 * 27),
        ("Conv", ["float 1 3 8 8"], ["float 1 4 8 8"], None),
        ("ConvTranspose", ["float 1 8 4 4", "float 8 3 2 2"], ["float 1 3 8 8"], 2 * 8 * 16 * 12),
        ("LSTM", ["float 10 2 6", "float 1 32 6", "float 1 32 8"], ["float 10 1 2 8"], 2 * 10 * 2 * (32 * 6 + 32 * 8)),
        ("Relu", ["float 4 5"], ["float 4 5"], 20),
        ("ReduceSum", ["float 4 5", "int64 1"], ["float 4 1"], 20),
        ("Reshape", ["float 4 5", "int64 1"], ["float 20"], 0),
        ("TreeEnsembleClassifier", ["float 1 8"], ["int64 1", "float 1 2"], None),
        ("LabelEncoder", ["string 1 1"], ["int64 1 1"], None),
    ],
)
def test_operations_are_counted_by_the_shapes_that_an_operator_met(op, inputs, outputs, wanted):
    assert operations_of(call(op, inputs, outputs)) == wanted


def test_bytes_are_all_that_is_read_and_written_but_of_what_is_picked_or_only_seen_otherwise():
    sizes = {"input_bytes": 8, "weight_bytes": 4000, "output_bytes": 16}
    assert moved_bytes(call("Gemm", ["float 1 2"], ["float 1 4"], **sizes)) == 4024
    assert moved_bytes(call("Gather", ["float 1000", "int64 1"], ["float 4"], **sizes)) == 32
    assert moved_bytes(call("Flatten", ["float 1 2"], ["float 2"], **sizes)) == 0
    assert moved_bytes(call("Loop", ["int64"], ["float 1"], **sizes)) is None


def test_a_floor_is_the_longer_of_moving_and_computing_and_weights_come_from_where_all_of_them_fit():
    few = call("Gemm", ["float 1 10", "float 10 10"], ["float 1 10"], input_bytes=40, weight_bytes=400, output_bytes=40)
    floor = Machine(MACHINE, 400).floor(few)
    assert (floor.by, floor.us) == ("bytes", pytest.approx(0.48))
    floor = Machine(MACHINE, 200_000).floor(few)
    assert (floor.by, floor.us) == ("bytes", pytest.approx(4.08))
    many_rows = call("Gemm", ["float 100 10", "float 10 10"], ["float 100 10"], input_bytes=100, weight_bytes=400)
    floor = Machine(MACHINE, 400).floor(many_rows)
    assert (floor.by, floor.us) == ("operations", pytest.approx(20.0))
    eight = call("QLinearMatMul", ["uint8 100 10", "int8 10 10"], ["uint8 100 10"], weight_bytes=100)
    assert Machine(MACHINE, 100).floor(eight).us == pytest.approx(5.0)
    assert Machine(MACHINE, 100).floor(call("TreeEnsembleRegressor", ["float 1 8"], ["float 1 1"])) is None


def test_outliers_do_not_move_what_is_typical_and_parts_of_a_microsecond_show():
    assert typical([2, 2, 3, 3, 3, 900, 2, 2]) == 2.5
    assert typical([7]) == 7.0


def test_the_chain_that_the_profile_is_weighed_with_is_a_right_model_and_its_weight_is_told():
    chain = onnx.load_model_from_string(_chain())
    onnx.checker.check_model(chain, full_check=True)
    assert [node.op_type for node in chain.graph.node] == ["Neg"] * 64
    assert 0.0 <= call_cost_us() < math.inf


def line(op, share, *, took_us=100.0, calls=1, floor_us=None, floor_by=None, shapes=("float[1×4]",)):
    times = None if floor_us is None else max(1.0, took_us / floor_us)
    return OperatorLine(f"{op}_1", op, calls, took_us, share, list(shapes), ["float[1×4]"], 1, 1, floor_us, floor_by, times)


ON, OFF = Batching(on=True, rows_max=64), Batching(on=False, rows_max=1, reason="rows influence each other")
TINY = {"took_us": 0.4, "floor_us": 0.001, "floor_by": "bytes"}


@pytest.mark.parametrize(
    ("lines", "between", "batching", "do", "why"),
    [
        ([line("Gemm", 0.9, floor_us=90.0, floor_by="bytes")], 0.1, ON, "fewer bytes", "1.1× the floor, spent on reading"),
        ([line("Conv", 0.9, floor_us=90.0, floor_by="operations")], 0.1, ON, "static 8-bit integers", "spent on computing"),
        (
            [line("MatMul", 0.9, floor_us=10.0, floor_by="bytes")],
            0.1,
            ON,
            "more rows per run, or 8 bits",
            "10.0× the floor",
        ),
        ([line("TreeEnsembleRegressor", 0.8)], 0.2, ON, "fewer or shallower trees", "trees: 80 % of a run"),
        ([line("Mul", 0.05, **TINY)] * 8, 0.6, ON, "fewer, larger operators", "between 8 tiny operators"),
        ([line("Gemm", 0.2, **TINY)], 0.8, ON, "more rows per run: under load servers batch", "100 % of a run"),
        ([line("Gemm", 0.2, **TINY)], 0.8, OFF, "because rows influence each other", "fixed cost"),
        (
            [line("Cast", 0.2), line("Transpose", 0.1)],
            0.1,
            ON,
            "export the model with inputs",
            "1 Cast and 1 Transpose: 30 %",
        ),
        ([line("LabelEncoder", 0.5, shapes=["string[1×1]"])], 0.1, ON, "transforms turn text", "50 % of a run on texts"),
        ([line("Loop", 0.1), line("Add", 0.8, calls=50)], 0.1, ON, "without the loop", "1 Loop and its body: 90 %"),
        (
            [line("QLinearConv", 0.6, floor_us=10.0, floor_by="operations", shapes=["uint8[1×9×9×3]", "int8[8×3×3×3]"])],
            0.1,
            ON,
            "keep these in 32-bit floats when quantising",
            "60 % of a run, 4× the 8-bit floor or more",
        ),
        ([line("DynamicQuantizeMatMul", 0.9)], 0.1, OFF, "static 8 bits", "90 % of a run; they compute scales"),
        (
            [line("Softmax", 0.9, floor_us=90.0, floor_by="bytes")],
            0.1,
            ON,
            "leave the model as it is",
            "no operator stands out",
        ),
    ],
)
def test_each_place_where_time_is_lost_has_its_advice(lines, between, batching, do, why):
    first = advice_on(lines, between, rows=1, batching=batching)[0]
    assert do in first.do
    assert why in first.why


def test_the_largest_part_of_the_time_is_advised_on_first():
    lines = [line("Cast", 0.2), line("Gemm", 0.7, floor_us=90.0, floor_by="bytes")]
    first, second = advice_on(lines, 0.1, rows=1, batching=ON)
    assert "fewer bytes" in first.do
    assert "export the model" in second.do


def test_of_a_real_network_the_products_take_most_and_have_floors_below_their_times(mlp):
    told = explain(mlp)
    products = [one for one in told.lines if "Gemm" in one.op]
    assert sorted(one.operations for one in products) == [2 * 512, 2 * 64 * 512, 2 * 512 * 512]
    assert told.weight_bytes == 4 * (64 * 512 + 512 * 512 + 512 + 512 + 512 + 1)
    assert products[0].operations == 2 * 512 * 512
    assert told.lines[0] is products[0]
    assert products[0].floor_us is not None
    assert products[0].moved_bytes == 4 * (512 * 512 + 512 + 512 + 512)
    assert sum(one.share for one in told.lines) <= 1.0 + 1e-9
    assert told.operators_us + told.between_us == pytest.approx(max(told.p50_us, told.operators_us))


def test_in_real_profiles_too_the_operators_of_a_run_never_exceed_it(mlp, tmp_path):
    for path in (mlp, onnx_models.gbdt(tmp_path), onnx_models.looped(tmp_path)):
        model = Model(path, profile=tmp_path / path.stem)
        model.measure(model.made_up(), runs=20, warm_runs=0)
        runs = read_profile(model.end_profile())
        assert len(runs) == 20
        for run in runs:
            assert run.calls
            assert sum(one.took_us for one in run.calls) <= run.took_us


def test_more_rows_are_more_operations_of_the_same_weights(mlp):
    one, four = explain(mlp), explain(mlp, rows=4)
    assert (one.rows, four.rows) == (1, 4)
    assert max(line.operations for line in four.lines) == 4 * max(line.operations for line in one.lines)
    assert four.weight_bytes == one.weight_bytes


def test_a_real_tree_ensemble_has_no_floor_and_says_so(run, tmp_path):
    code, out, _ = run("explain-latency", onnx_models.gbdt(tmp_path))
    assert code == 0
    assert re.search(
        r"TreeEnsembleClassifier +LgbmClassifier +1 .* — +— +— +— +float\[1×8\] → int64\[1\], float\[1×2\]", out
    ), out
    assert "What to try next" in out


def test_the_table_shows_the_slowest_and_counts_the_rest(run, mlp):
    code, out, _ = run("explain-latency", mlp, "--limit", 1)
    assert code == 0
    assert len(re.findall(r"^Fused|^Gemm", out, re.MULTILINE)) == 1, out
    assert "… and 2 operators more" in out
    assert "Gflop/s; reads" in out


def test_json_has_every_operator_and_the_machines_ceiling(run, mlp):
    code, out, _ = run("explain-latency", mlp, "--batch-rows", 2, "--limit", 1, "--json")
    document = json.loads(out)
    assert code == 0
    assert (document["rows"], len(document["lines"])) == (2, 3)
    assert document["ceiling"]["flops"] > 0
    assert {"do", "why"} == set(document["advice"][0])


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_plot_is_drawn_in_the_format_of_its_name(run, mlp, tmp_path, suffix):
    path = tmp_path / f"mlp.{suffix}"
    assert run("explain-latency", mlp, "--plot", path)[0] == 0
    assert path.read_bytes().startswith({"png": b"\x89PNG", "svg": b"<svg"}[suffix])


def test_a_plot_of_no_format_is_refused_before_anything_is_measured(run, tmp_path):
    code, _, errors = run("explain-latency", tmp_path / "none.onnx", "--plot", tmp_path / "plot.doc")
    assert code == 2
    assert "name it .png or .svg" in errors


def test_a_model_that_made_up_rows_do_not_fit_is_explained_on_given_ones(run, pairs, tmp_path):
    code, _, errors = run("explain-latency", pairs)
    assert code == 3
    assert "give it real rows" in errors
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b,c\n1,2,3\n4,5,6\n")
    code, out, _ = run("explain-latency", pairs, "--data", rows, "--batch-rows", 2)
    assert code == 0
    assert "float[2×3]" in out


def test_rows_that_do_not_fit_the_model_are_refused_with_their_place(run, mlp, tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\n1,2\n")
    code, _, errors = run("explain-latency", mlp, "--data", rows)
    assert code == 3
    assert "rows.csv:2: has 2 columns" in errors


def test_a_model_that_cannot_be_served_is_refused_with_what_to_do(run, tmp_path):
    code, _, errors = run("explain-latency", onnx_models.zipmap(tmp_path))
    assert code == 3
    assert "'zipmap': False" in errors
