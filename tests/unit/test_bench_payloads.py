"""Payloads from a signature, a maker and files of rows: seeded, distinct, of the right types, with right answers."""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper
from pyarrow import parquet

from conformance.models import ELEMENTS
from flyball.bench import payloads
from flyball.bench.bare_loop import measure_bare
from flyball.bench.models import fraud, perceptron
from flyball.bench.payloads import make_payloads, one_thread_session, payloads_for, payloads_for_server
from flyball.bench.row_tensors import rows_from_file
from flyball.bench.scenario import ModelSource, PayloadSource
from flyball.client import TensorMetadata
from flyball.errors import MissingExtraError, ModelRefusedError, NotFoundError, RefusedError, UsageError
from flyball.rows.tensors import decode_data
from tests.support.v2_server import V2Server

HERE = ModelSource(path="m.onnx")
TYPES = {name: element for name, element in ELEMENTS.items() if name != "BF16"}  # which NumPy does not have


def echo_model(path, *inputs):
    """A model that answers its inputs; each is a V2 datatype and a shape."""
    nodes, taken, given_back = [], [], []
    for place, (datatype, shape) in enumerate(inputs):
        nodes.append(helper.make_node("Identity", [f"x{place}"], [f"y{place}"]))
        taken.append(helper.make_tensor_value_info(f"x{place}", TYPES[datatype], shape))
        given_back.append(helper.make_tensor_value_info(f"y{place}", TYPES[datatype], shape))
    graph = helper.make_graph(nodes, "echo", taken, given_back)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture(scope="module")
def mlp(tmp_path_factory):
    return perceptron.make_mlp(tmp_path_factory.mktemp("models") / "mlp.onnx", sizes=(3, 8, 2))


def tensors(line, part="inputs"):
    return {
        item["name"]: decode_data(item["name"], item["datatype"], tuple(item["shape"]), item["data"])
        for item in json.loads(line)[part]
    }


def rows_of(made):
    return [tensors(line) for line in made.splitlines()]


@pytest.mark.parametrize("datatype", TYPES)
def test_a_payload_of_every_datatype_is_made_up_answered_and_run_bare(tmp_path, datatype):
    model = echo_model(tmp_path / "m.onnx", (datatype, ["n", 2, 3]))
    made = payloads_for(PayloadSource(count=5), model, HERE)
    for line in made.splitlines():
        row, answer = tensors(line)["x0"], tensors(line, "outputs")["y0"]
        assert row.shape == (1, 2, 3)
        assert json.loads(line)["inputs"][0]["datatype"] == datatype
        assert row.dtype == answer.dtype
        assert row.tolist() == answer.tolist()
    assert measure_bare(model, made, 0.01).rate_per_s > 0


def test_a_run_that_takes_longer_than_the_loop_is_measured_all_the_same(mlp):
    assert measure_bare(mlp, make_payloads(mlp, 1, seed=1), 0.0).p50_us > 0


def test_a_signature_of_several_inputs_has_them_all_and_free_dimensions_are_one(tmp_path):
    model = echo_model(tmp_path / "m.onnx", ("FP32", ["n", 2]), ("BYTES", ["n", "words"]))
    (row,) = rows_of(payloads_for(PayloadSource(count=1), model, HERE))
    assert {name: array.shape for name, array in row.items()} == {"x0": (1, 2), "x1": (1, 1)}


def test_made_up_bytes_are_pixels_and_other_whole_numbers_are_categories_that_exist(tmp_path):
    model = echo_model(tmp_path / "m.onnx", ("UINT8", ["n", 1000]), ("INT64", ["n", 1000]))
    (row,) = rows_of(payloads_for(PayloadSource(count=1), model, HERE))
    assert (row["x0"].min(), row["x0"].max()) == (0, 255)
    assert set(row["x1"].ravel().tolist()) == {0, 1}


def test_made_up_rows_are_distinct_as_long_as_the_signature_has_others(tmp_path):
    notes = []
    model = echo_model(tmp_path / "m.onnx", ("BOOL", ["n", 5]))
    made = payloads_for(PayloadSource(count=16), model, HERE, note=notes.append)
    assert len(set(made.splitlines())) == 16
    assert notes == []
    made = payloads_for(PayloadSource(count=100), model, HERE, note=notes.append)
    distinct = len(set(made.splitlines()))
    assert notes == [f"only {distinct} of 100 payloads are distinct: the signature allows few values"]
    assert 28 <= distinct <= 32


def test_the_seed_decides_and_progress_is_told(mlp):
    steps = []
    made = payloads_for(PayloadSource(count=4, seed=1), mlp, HERE, progress=lambda done, whole: steps.append((done, whole)))
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert payloads_for(PayloadSource(count=4, seed=1), mlp, HERE) == made
    assert payloads_for(PayloadSource(count=4, seed=2), mlp, HERE) != made


def test_unchecked_payloads_have_no_answers(mlp):
    made = payloads_for(PayloadSource(count=2, check=False), mlp, HERE)
    assert [json.loads(line)["outputs"] for line in made.splitlines()] == [None, None]


def test_the_makers_rows_are_the_payloads_of_its_model(tmp_path):
    model = fraud.make_fraud_gbdt(tmp_path / "m.onnx", trees=5)
    made = payloads_for(PayloadSource(source="maker", count=10, seed=3), model, ModelSource(make="fraud-gbdt"))
    assert np.concatenate([row["input"] for row in rows_of(made)]).tobytes() == fraud.fraud_rows(10, seed=3)[0].tobytes()
    session = one_thread_session(model)
    for line in made.splitlines():
        label, probabilities = session.run(None, tensors(line))
        answer = tensors(line, "outputs")
        assert answer["label"].tobytes() == label.tobytes()
        assert answer["probabilities"].tobytes() == probabilities.tobytes()


def test_a_model_without_a_maker_has_no_makers_rows(mlp):
    with pytest.raises(UsageError, match="the model has no maker"):
        payloads_for(PayloadSource(source="maker"), mlp, HERE)


def test_a_pool_that_would_fill_the_memory_is_refused(mlp, monkeypatch):
    monkeypatch.setattr(payloads, "_BYTES_MAX", 1000)
    with pytest.raises(RefusedError, match="payloads already have") as caught:
        payloads_for(PayloadSource(count=100), mlp, HERE)
    assert caught.value.next_step == "lower payloads.count"


def test_a_file_that_is_no_model_is_refused_by_its_name(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"no model")
    with pytest.raises(ModelRefusedError, match=r"ONNX Runtime cannot load .*m\.onnx"):
        payloads_for(PayloadSource(), tmp_path / "m.onnx", HERE)


def test_an_answer_that_is_not_finite_is_refused(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Sub", ["x", "x"], ["zero"]), helper.make_node("Div", ["x", "zero"], ["y"])],
        "infinite",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])],
    )
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
    with pytest.raises(RefusedError, match="payload 1 or its answer") as caught:
        payloads_for(PayloadSource(count=3), model, HERE)
    assert "check: false" in caught.value.next_step
    assert payloads_for(PayloadSource(count=3, check=False), model, HERE).count(b"\n") == 3


def test_a_row_that_the_model_cannot_run_is_named(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "x"], ["y"])],
        "lookup",
        [helper.make_tensor_value_info("x", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
        [onnx.numpy_helper.from_array(np.zeros(4, np.float32), "table")],
    )
    model = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
    (tmp_path / "rows.csv").write_text("x\n9\n")
    source = PayloadSource(source="file", file=str(tmp_path / "rows.csv"), count=1)
    with pytest.raises(RefusedError, match=r"the model fails on payload 1: .*out of"):
        payloads_for(source, model, HERE)


def test_a_server_elsewhere_tells_its_signature_and_no_answers():
    notes = []
    with V2Server() as server:
        server.metadata["inputs"] = [{"name": "rows", "datatype": "FP32", "shape": [-1, 12]}]
        made = payloads_for_server(PayloadSource(count=3), server.url, "fraud", note=notes.append)
        by_maker = payloads_for_server(
            PayloadSource(source="maker", count=3, seed=1), server.url, "fraud", maker="fraud-gbdt"
        )
        assert server.seen[0][0] == "/v2/models/fraud"
    assert [row["rows"].shape for row in rows_of(made)] == [(1, 12)] * 3
    assert all(json.loads(line)["outputs"] is None for line in made.splitlines())
    assert notes == ["answers are not checked"]
    assert rows_of(by_maker)[2]["rows"].tobytes() == fraud.fraud_rows(3, seed=1)[0][2].tobytes()


def test_a_server_that_does_not_know_the_model_is_told_as_such():
    with V2Server() as server:
        server.script.append(lambda handler: handler.answer(404, b'{"error": "unknown model \'m\'"}'))
        with pytest.raises(NotFoundError, match="unknown model 'm'"):
            payloads_for_server(PayloadSource(), server.url, "m")


def test_a_server_that_tells_no_inputs_is_refused():
    with V2Server() as server, pytest.raises(ModelRefusedError, match="reports no inputs for the model 'm'"):
        payloads_for_server(PayloadSource(), server.url, "m")


def test_a_datatype_that_payloads_cannot_carry_is_refused():
    with V2Server() as server:
        server.metadata["inputs"] = [{"name": "x", "datatype": "BF16", "shape": [-1]}]
        with pytest.raises(ModelRefusedError, match="'x' has datatype BF16"):
            payloads_for_server(PayloadSource(), server.url, "m")


# Files of rows.

FIELDS = [TensorMetadata("input", "FP32", (-1, 3))]
MIXED = [
    TensorMetadata("amount", "FP64", (-1, 1)),
    TensorMetadata("count", "INT32", (-1,)),
    TensorMetadata("online", "BOOL", (-1, 1)),
    TensorMetadata("city", "BYTES", (-1, 1)),
]
VECTORS = [TensorMetadata("embedding", "FP32", (-1, 2)), TensorMetadata("pixels", "UINT8", (-1, 2, 2))]


def write_rows(path, names, rows):
    """The same rows in any of the three formats."""
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.table({name: [row[place] for row in rows] for place, name in enumerate(names)}), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    else:
        cells = [names, *([_cell(value) for value in row] for row in rows)]
        path.write_text("".join(",".join(line) + "\n" for line in cells))
    return path


def _cell(value):
    if isinstance(value, str):
        return '"' + value.replace('"', '""') + '"'
    return str(value).lower() if isinstance(value, bool) else repr(value)


def multiset(rows):
    return Counter(json.dumps({name: array.tolist() for name, array in row.items()}) for row in rows)


float32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
mixed_row = st.tuples(
    st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**31), 2**31 - 1), st.booleans(), text
)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
@given(rows=st.lists(mixed_row, min_size=1, max_size=6), seed=st.integers(0, 99))
def test_columns_named_after_inputs_give_the_tensors_that_were_written(suffix, rows, seed):
    wanted = [
        {
            "amount": np.array([[amount]]),
            "count": np.array([count], np.int32),
            "online": np.array([[online]]),
            "city": np.array([[city]], dtype=object),
        }
        for amount, count, online, city in rows
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = write_rows(Path(folder) / f"rows.{suffix}", ["amount", "count", "online", "city"], rows)
        read = rows_from_file(path, MIXED, len(rows), seed)
    assert multiset(read) == multiset(wanted)
    for row in read:
        assert {name: (array.shape, array.dtype) for name, array in row.items()} == {
            name: (array.shape, array.dtype) for name, array in wanted[0].items()
        }


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
@given(rows=st.lists(st.tuples(float32, float32, float32), min_size=1, max_size=6))
def test_columns_of_the_only_input_give_its_fields_in_the_files_order(suffix, rows):
    with tempfile.TemporaryDirectory() as folder:
        path = write_rows(Path(folder) / f"rows.{suffix}", ["z", "a", "m"], rows)
        read = rows_from_file(path, FIELDS, len(rows), 1)
    assert multiset(read) == multiset({"input": np.array([row], np.float32)} for row in rows)


vectors_row = st.tuples(st.lists(float32, min_size=2, max_size=2), st.lists(st.integers(0, 255), min_size=4, max_size=4))


@pytest.mark.parametrize("suffix", ["parquet", "jsonl"])
@given(rows=st.lists(vectors_row, min_size=1, max_size=4))
def test_lists_fill_inputs_of_more_dimensions(suffix, rows):
    with tempfile.TemporaryDirectory() as folder:
        path = write_rows(Path(folder) / f"rows.{suffix}", ["embedding", "pixels"], rows)
        read = rows_from_file(path, VECTORS, len(rows), 1)
    assert multiset(read) == multiset(
        {"embedding": np.array([floats], np.float32), "pixels": np.array(pixels, np.uint8).reshape(1, 2, 2)}
        for floats, pixels in rows
    )


@pytest.mark.parametrize("value", [[[1, 2], [3, 4]], [[[1, 2], [3, 4]]], [1, 2, 3, 4]], ids=["row", "batch", "flat"])
def test_a_value_may_have_the_batch_axis_or_not(tmp_path, value):
    (tmp_path / "r.jsonl").write_text(json.dumps({"embedding": [0, 0], "pixels": value}))
    (row,) = rows_from_file(tmp_path / "r.jsonl", VECTORS, 1, 1)
    assert row["pixels"].tolist() == [[[1, 2], [3, 4]]]


def test_a_line_may_be_a_v2_request(tmp_path):
    request = {"id": "7", "inputs": [{"name": "input", "datatype": "FP32", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}]}
    (tmp_path / "r.jsonl").write_text(json.dumps(request))
    (row,) = rows_from_file(tmp_path / "r.jsonl", FIELDS, 1, 1)
    assert row["input"].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_rows_are_drawn_with_the_seed_and_none_twice(tmp_path):
    path = write_rows(tmp_path / "r.csv", ["a", "b", "c"], [(n, 0, 0) for n in range(100)])
    drawn = [[int(row["input"][0, 0]) for row in rows_from_file(path, FIELDS, 20, seed)] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1]
    assert set(drawn[0]) != set(drawn[2])
    assert len(set(drawn[0])) == 20


def test_a_small_file_is_repeated_and_the_reader_is_told(tmp_path):
    notes = []
    path = write_rows(tmp_path / "r.parquet", ["a", "b", "c"], [(float(n), 0.0, 0.0) for n in range(3)])
    rows = rows_from_file(path, FIELDS, 10, 1, notes.append)
    assert Counter(row["input"][0, 0] for row in rows).total() == 10
    assert len({float(row["input"][0, 0]) for row in rows}) == 3
    assert notes == [f"{path} has 3 rows, which are repeated to make 10 payloads"]


def test_picked_rows_of_parquet_are_those_of_their_places_across_batches(tmp_path):
    path = tmp_path / "r.parquet"
    parquet.write_table(pyarrow.table({"count": pyarrow.array(range(10_000))}), path, row_group_size=3000)
    rows = rows_from_file(path, [TensorMetadata("count", "INT32", (-1,))], 10_000, 1)
    assert sorted(int(row["count"][0]) for row in rows) == list(range(10_000))


def test_other_columns_are_not_used_where_the_inputs_are_named(tmp_path):
    (tmp_path / "r.csv").write_text("label,count,note\n1,5,x\n")
    (row,) = rows_from_file(tmp_path / "r.csv", [TensorMetadata("count", "INT32", (-1,))], 1, 1)
    assert row["count"].tolist() == [5]


def test_a_spreadsheets_mark_blank_lines_and_whole_floats_are_taken(tmp_path):
    (tmp_path / "r.csv").write_bytes("\ufeffcount\r\n\r\n5.0\r\n".encode())
    (row,) = rows_from_file(tmp_path / "r.csv", [TensorMetadata("count", "INT32", (-1,))], 1, 1)
    assert row["count"].tolist() == [5]


BAD_ROWS = [
    ("r.csv", "a,b,c\n1,2,3\n1,x,3\n", FIELDS, ":3: column 'b' is \"x\"; allowed: a finite number (FP32)"),
    ("r.csv", "a,b,c\n1,,3\n", FIELDS, ":2: column 'b' is \"\"; allowed: a finite number"),
    ("r.csv", "a,b,c\n1,nan,3\n", FIELDS, ":2: column 'b' is NaN; allowed: a finite number"),
    ("r.csv", "a,b,c\n1,1e39,3\n", FIELDS, ":2: column 'b' is 1e+39; allowed: a finite number"),
    ("r.csv", "a,b,c\n1,1_0,3\n", FIELDS, ":2: column 'b' is \"1_0\""),
    ("r.csv", "a,b,c\n1,2\n", FIELDS, ":2 has 2 cells, but the header has 3"),
    ("r.csv", "a,b,a\n1,2,3\n", FIELDS, "duplicate column 'a'"),
    ("r.csv", 'a,b,c\n1,"2"x,3\n', FIELDS, ":2 is not CSV"),
    ("r.csv", "a,b\n1,2\n", FIELDS, "has 2 columns, but the input 'input' takes 3"),
    ("r.csv", "a,b,c\n", FIELDS, "has no rows"),
    ("r.csv", "", FIELDS, "has no rows"),
    ("r.csv", "amount,count\n1,2\n", MIXED, "columns must be named after the inputs, which are 'amount' [-1, 1]"),
    ("r.csv", "amount,count,online,city\n1,2,maybe,x\n", MIXED, "'online' is \"maybe\"; allowed: true or false (BOOL)"),
    ("r.csv", "amount,count,online,city\n1,2.5,true,x\n", MIXED, "'count' is 2.5; allowed: -2147483648 to 2147483647"),
    ("r.csv", "amount,count,online,city\n1,2147483648,true,x\n", MIXED, "'count' is 2147483648; allowed"),
    ("r.jsonl", '{"input": [1, 2, "3"]}\n', FIELDS, ":1: column 'input' is \"3\"; allowed: a finite number (FP32)"),
    ("r.jsonl", '{"a": 1, "b": "2", "c": 3}\n', FIELDS, ":1: column 'b' is \"2\"; allowed: a finite number (FP32)"),
    ("r.jsonl", '{"input": [1, 2, true]}\n', FIELDS, ":1: column 'input' is true"),
    ("r.jsonl", '{"input": [1, 2, null]}\n', FIELDS, ":1: column 'input' is null"),
    ("r.jsonl", '{"input": [1, 2]}\n', FIELDS, "has shape [2]; allowed: [-1, 3]"),
    ("r.jsonl", '{"input": [[1, 2, 3], [4]]}\n', FIELDS, "has lists of different lengths"),
    ("r.jsonl", '{"a": 1, "b": [2], "c": 3}\n', FIELDS, "column 'b' has a list"),
    ("r.jsonl", '\n{"input": \n', FIELDS, ":2 is not JSON"),
    ("r.jsonl", "[1, 2, 3]\n", FIELDS, ":1 is not an object"),
    ("r.jsonl", '{"inputs": [{"name": "input", "data": [1]}]}', FIELDS, "an entry of 'inputs' has no datatype"),
    ("r.txt", "1 2 3\n", FIELDS, "is not a supported file of rows"),
    ("r.parquet", "PAR1", FIELDS, "is not a Parquet file"),
]


@pytest.mark.parametrize(("name", "content", "inputs", "words"), BAD_ROWS)
def test_a_bad_row_is_told_with_its_place_and_what_is_allowed(tmp_path, name, content, inputs, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(RefusedError) as caught:
        rows_from_file(tmp_path / name, inputs, 10, 1)
    assert words in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "other"}, 'unknown input "other"; the model\'s inputs are input'),
        ({"name": ["input"]}, 'unknown input ["input"]'),
        ({"datatype": "FP64"}, "input 'input' is \"FP64\"; allowed: FP32"),
        ({"shape": [1, 4]}, "has shape [1, 4]; allowed: [-1, 3]"),
        ({"shape": [2, 3]}, "3 values do not fill the shape [2, 3]"),
        ({"shape": "wide"}, '"wide" is not a shape'),
        ({"data": [1, 2, "x"]}, "input 'input' is \"x\""),
    ],
)
def test_a_request_that_the_model_cannot_take_is_told(tmp_path, change, words):
    entry = {"name": "input", "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3], **change}
    (tmp_path / "r.jsonl").write_text(json.dumps({"inputs": [entry]}))
    with pytest.raises(RefusedError) as caught:
        rows_from_file(tmp_path / "r.jsonl", FIELDS, 1, 1)
    assert words in str(caught.value)


def test_a_gap_in_parquet_is_told_with_its_row_and_column(tmp_path):
    path = tmp_path / "r.parquet"
    parquet.write_table(pyarrow.table({"a": [1.0, 2.0], "b": [1.0, None], "c": [1.0, 2.0]}), path)
    with pytest.raises(RefusedError, match="row 2: column 'b' is null; allowed: a finite number"):
        rows_from_file(path, FIELDS, 2, 1)


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError) as caught:
        rows_from_file(tmp_path / "r.parquet", FIELDS, 1, 1)
    assert "flyball[rows]" in caught.value.next_step
