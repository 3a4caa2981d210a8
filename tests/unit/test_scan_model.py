"""The scan of a model's file before anything loads it: facts of good files, and refusals that say what to do."""

import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from flyball.errors import ModelRefusedError
from flyball.native import models
from tests.support.onnx_models import OPSET, linear, save, value


def external(folder: Path, data: bytes | None) -> Path:
    """A linear model whose weights lie in w.bin, which holds `data`; none: it is not there."""
    path = linear(folder)
    loaded = onnx.load(path)
    for tensor in loaded.graph.initializer:
        if tensor.name == "w":
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, text in {"location": "w.bin", "offset": "16", "length": "32"}.items():
                tensor.external_data.add(key=key, value=text)
    path.write_bytes(loaded.SerializeToString())
    if data is not None:
        (folder / "w.bin").write_bytes(data)
    return path


def test_a_good_model_gives_its_facts(model) -> None:
    scan = models.scan_model(model("gbdt"))
    assert "ai.onnx.ml" in scan.domains
    assert scan.nodes == models.model_files(model("gbdt")).nodes == scan.nodes_expanded
    assert [tensor.name for tensor in scan.inputs] == ["x"]
    assert (scan.depth, scan.functions, scan.value_dependent, scan.external_data) == (0, 0, False, {})


@pytest.mark.parametrize("name", ["linear", "gbdt", "int64", "strings"])
def test_models_of_the_tests_pass(model, name: str) -> None:
    assert models.scan_model(model(name)).nodes > 0


def test_weights_beside_the_model_are_named_with_the_bytes_that_they_need(tmp_path: Path) -> None:
    scan = models.scan_model(external(tmp_path, bytes(48)))
    assert scan.external_data == {"w.bin": 48}
    assert scan.weight_bytes >= 32


@pytest.mark.parametrize(
    ("data", "words"), [(bytes(47), "has 47 bytes.*reach to byte 48"), (None, "cannot read")], ids=["short", "absent"]
)
def test_weights_that_are_not_all_there_are_refused(tmp_path: Path, data: bytes | None, words: str) -> None:
    path = external(tmp_path, data)
    for read in (models.scan_model, models.model_files, models.inspect):
        with pytest.raises(ModelRefusedError, match=words):
            read(path)


def test_a_pickle_is_refused_with_how_to_convert_it_and_never_read(tmp_path: Path) -> None:
    class Loud:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "ran",)

    path = tmp_path / "model.onnx"
    for protocol in (2, 3, 4, 5):
        path.write_bytes(pickle.dumps(Loud(), protocol=protocol))
        with pytest.raises(ModelRefusedError, match=r"model\.onnx: not an ONNX model but a pickle.*skl2onnx"):
            models.scan_model(path)
    assert not (tmp_path / "ran").exists()


def test_a_torch_file_is_refused_with_how_to_export_it(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02.")
    with pytest.raises(ModelRefusedError, match=r"PyTorch.*torch\.onnx\.export"):
        models.scan_model(path)


def test_an_operator_of_a_custom_library_is_refused_with_where_it_is(tmp_path: Path) -> None:
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])]
    nodes = [helper.make_node("Tokenize", ["x"], ["y"], name="first", domain="ai.onnx.contrib")]
    path = save(tmp_path / "odd.onnx", nodes, inputs, outputs, opset=[*OPSET, helper.make_opsetid("ai.onnx.contrib", 1)])
    with pytest.raises(ModelRefusedError, match=r"node 0 'first' \(Tokenize\).*'ai\.onnx\.contrib'.*no library is loaded"):
        models.scan_model(path)


def test_a_domain_that_is_imported_and_not_used_is_no_fault(tmp_path: Path) -> None:
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])]
    nodes = [helper.make_node("Neg", ["x"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, inputs, outputs, opset=[*OPSET, helper.make_opsetid("com.acme", 1)])
    assert models.scan_model(path).domains == ["ai.onnx"]


def test_weights_that_onnx_saved_beside_the_model_are_taken(tmp_path: Path) -> None:
    weights = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    inputs, outputs = [value("x", TensorProto.FLOAT, ["n", 4])], [value("y", TensorProto.FLOAT, ["n", 4])]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", inputs, outputs, [weights])
    path = tmp_path / "m.onnx"
    made = helper.make_model(graph, opset_imports=OPSET, ir_version=8)
    onnx.save_model(made, path, save_as_external_data=True, location="m.onnx.data", size_threshold=0)
    assert models.scan_model(path).external_data == {"m.onnx.data": 64}
    assert models.inspect(path).outputs[0].name == "y"


def test_what_is_no_file_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(ModelRefusedError, match="not a plain file"):
            models.scan_model(path)
