"""ONNX from elsewhere becomes a decision where it takes rows of columns, and a plain model where it takes other tensors."""

import warnings
from pathlib import Path
from typing import Any

import models
import numpy as np
import onnx
import pytest
import trained
from onnx import TensorProto, helper

from flyball.convert import convert
from flyball.equivalence.certificate import read_certificate
from flyball.errors import InvalidInputError, ModelRefusedError, UsageError
from flyball.onnx_graph import keep_outputs

FRAME = trained.payments(300)
COLUMNS = ["amount", "mcc", "card age"]


def classifier(path: Path, *, zipmap: bool) -> Any:
    """A forest as skl2onnx writes it, with or without a map for each row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from skl2onnx import to_onnx
        from sklearn.ensemble import RandomForestClassifier

        rows = FRAME[COLUMNS].to_numpy(dtype=np.float32)
        model = RandomForestClassifier(5, max_depth=4, random_state=1).fit(rows, FRAME["fraud"])
        made = to_onnx(model, rows[:1], options={id(model): {"zipmap": zipmap}}, target_opset=17)
    path.write_bytes(made.SerializeToString())
    return model


@pytest.mark.parametrize("zipmap", [True, False], ids=["maps", "tensors"])
def test_a_model_over_rows_of_columns_becomes_a_decision(zipmap: bool, tmp_path: Path) -> None:
    forest = classifier(tmp_path / "risk.onnx", zipmap=zipmap)
    data = trained.saved(FRAME[[*COLUMNS, "fraud"]], tmp_path / "rows.csv")
    made = convert(tmp_path / "risk.onnx", data=data, out=tmp_path / "out", target="fraud", rows=400)
    expected = forest.predict_proba(FRAME[COLUMNS].to_numpy())[:, 1]
    np.testing.assert_allclose(trained.scores(made, FRAME), expected, rtol=0, atol=1e-6)
    assert made.document["explained_by"] == "ablation"
    assert len(made.document["outputs_cut"]) == 1
    assert any("ZipMap" in note for note in made.document["notes"]) == zipmap
    assert read_certificate(made.folder / "equivalence.json").outcome == "equal"


def test_a_model_with_one_tensor_for_each_column_is_fed_by_their_names(tmp_path: Path) -> None:
    ends = [models.value(name, TensorProto.FLOAT, ["n", 1]) for name in ("amount", "card_age", "sum")]
    path = models.save(tmp_path / "sum.onnx", [helper.make_node("Add", ["amount", "card_age"], ["sum"])], ends[:2], ends[2:])
    made = convert(path, data=FRAME, out=tmp_path / "out", target="fraud", rows=400)
    expected = FRAME["amount"] + FRAME["card age"]
    np.testing.assert_allclose(trained.scores(made, FRAME), expected, rtol=1e-6)
    with pytest.raises(InvalidInputError, match=r"no column 'amount', which the model was trained on"):
        convert(path, data=FRAME.drop(columns="amount"), out=tmp_path / "less")


def test_the_number_of_columns_must_be_the_model_s(tmp_path: Path) -> None:
    classifier(tmp_path / "risk.onnx", zipmap=False)
    with pytest.raises(InvalidInputError, match=r"takes 3 columns, and the data has 4: amount.*\n.*--target"):
        convert(tmp_path / "risk.onnx", data=FRAME[[*COLUMNS, "fraud"]], out=tmp_path / "out")
    with pytest.raises(InvalidInputError, match=r"'country' holds texts, and the model takes FP32"):
        convert(tmp_path / "risk.onnx", data=FRAME[["amount", "mcc", "country"]], out=tmp_path / "out")
    with pytest.raises(UsageError, match="no element 5"):
        convert(tmp_path / "risk.onnx", data=FRAME[COLUMNS], out=tmp_path / "out", score=5)


def pictures(folder: Path) -> Path:
    """A mean over each picture, declared for one picture at a time as exporters do."""
    ends = [models.value("image", TensorProto.FLOAT, [1, 3, 4, 4]), models.value("mean", TensorProto.FLOAT, [1, 3, 1, 1])]
    return models.save(
        folder / "pictures.onnx", [helper.make_node("GlobalAveragePool", ["image"], ["mean"])], ends[:1], ends[1:]
    )


def test_a_model_of_other_tensors_is_kept_plain_with_free_rows(tmp_path: Path) -> None:
    images = np.random.default_rng(1).normal(size=(5, 3, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "images.npz", image=images[:1])
    made = convert(pictures(tmp_path), data=tmp_path / "images.npz", out=tmp_path / "out")
    assert not made.decision_file.exists()
    assert "without a decision" in made.document["notes"][-1]
    from flyball.model_runs import Model

    answers = Model(made.folder / "model.onnx").run({"image": images})
    np.testing.assert_allclose(answers["mean"][:, :, 0, 0], images.mean(axis=(2, 3)), rtol=0, atol=1e-6)


def test_a_plain_model_without_data_is_tried_on_made_up_tensors(tmp_path: Path) -> None:
    ends = [
        models.value("image", TensorProto.FLOAT, ["n", 3, 4, 4]),
        models.value("mean", TensorProto.FLOAT, ["n", 3, 1, 1]),
    ]
    path = models.save(tmp_path / "p.onnx", [helper.make_node("GlobalAveragePool", ["image"], ["mean"])], ends[:1], ends[1:])
    made = convert(path, out=tmp_path / "out")
    assert made.judged.comparison.by_kind.keys() == {"random"}
    with pytest.raises(InvalidInputError, match=r"takes tensors, not rows of columns: image FP32.*\n.*\.npz"):
        convert(path, data=tmp_path / "rows.csv", out=tmp_path / "other")


def test_what_a_server_would_refuse_is_refused_with_its_reason(tmp_path: Path) -> None:
    for name in ("unknown_op", "opset_99", "truncated"):
        path = getattr(models, name)(tmp_path)
        with pytest.raises(ModelRefusedError) as refused:
            convert(path, data=FRAME[COLUMNS], out=tmp_path / "out")
        assert "flyball-convert-" not in refused.value.message, name
        assert refused.value.next_step or path.name in refused.value.message, name
        assert not (tmp_path / "out").exists()


def test_outputs_are_cut_with_all_that_only_they_needed(tmp_path: Path) -> None:
    ends = [models.value(name, TensorProto.FLOAT, ["n", 2]) for name in ("x", "kept", "cut")]
    nodes = [
        helper.make_node("Neg", ["x"], ["middle"]),
        helper.make_node("Add", ["middle", "weight"], ["kept"]),
        helper.make_node("Mul", ["middle", "other"], ["product"]),
        helper.make_node("Abs", ["product"], ["cut"]),
    ]
    weights = [helper.make_tensor(name, TensorProto.FLOAT, [2], [1.0, 2.0]) for name in ("weight", "other")]
    model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], weights))
    assert keep_outputs(model, {"kept"}) == ["cut"]
    assert [node.op_type for node in model.graph.node] == ["Neg", "Add"]
    assert [tensor.name for tensor in model.graph.initializer] == ["weight"]
    onnx.checker.check_model(model)
