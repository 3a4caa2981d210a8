"""ONNX from elsewhere becomes a decision where it takes rows of columns, and a plain model where it takes other tensors."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from flyball.documents import onnx_graph
from flyball.documents.onnx_graph import keep_outputs
from flyball.errors import InvalidInputError, ModelRefusedError, UsageError
from flyball.models.convert import convert, from_onnx
from flyball.models.convert.session import answers_of, session
from flyball.models.convert.tensor_model import TensorModel, compared
from flyball.models.equivalence.certificate import read_certificate
from flyball.native.model_runs import Model
from tests.support import onnx_models, trained_models

FRAME = trained_models.payments(300)
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
    data = trained_models.saved(FRAME[[*COLUMNS, "fraud"]], tmp_path / "rows.csv")
    made = convert(tmp_path / "risk.onnx", data=data, out=tmp_path / "out", target="fraud", rows=400)
    expected = forest.predict_proba(FRAME[COLUMNS].to_numpy())[:, 1]
    np.testing.assert_allclose(trained_models.scores(made, FRAME), expected, rtol=0, atol=1e-6)
    assert made.document["explained_by"] == "ablation"
    assert len(made.document["outputs_cut"]) == 1
    assert any("ZipMap" in note for note in made.document["notes"]) == zipmap
    assert read_certificate(made.folder / "equivalence.json").outcome == "equal"


def test_a_model_with_one_tensor_for_each_column_is_fed_by_their_names(tmp_path: Path) -> None:
    ends = [onnx_models.value(name, TensorProto.FLOAT, ["n", 1]) for name in ("amount", "card_age", "sum")]
    path = onnx_models.save(
        tmp_path / "sum.onnx", [helper.make_node("Add", ["amount", "card_age"], ["sum"])], ends[:2], ends[2:]
    )
    made = convert(path, data=FRAME, out=tmp_path / "out", target="fraud", rows=400)
    expected = FRAME["amount"] + FRAME["card age"]
    np.testing.assert_allclose(trained_models.scores(made, FRAME), expected, rtol=1e-6)
    with pytest.raises(InvalidInputError, match=r"no column 'amount', which the model was trained on"):
        convert(path, data=FRAME.drop(columns="amount"), out=tmp_path / "less")


def test_the_number_of_columns_must_be_the_model_s(tmp_path: Path) -> None:
    classifier(tmp_path / "risk.onnx", zipmap=False)
    with pytest.raises(InvalidInputError, match=r"takes 3 columns, but the data has 4: amount.*\n.*--target"):
        convert(tmp_path / "risk.onnx", data=FRAME[[*COLUMNS, "fraud"]], out=tmp_path / "out")
    with pytest.raises(InvalidInputError, match=r"'country' holds text, but the model takes FP32"):
        convert(tmp_path / "risk.onnx", data=FRAME[["amount", "mcc", "country"]], out=tmp_path / "out")
    with pytest.raises(UsageError, match="no element 5"):
        convert(tmp_path / "risk.onnx", data=FRAME[COLUMNS], out=tmp_path / "out", score=5)


def pictures(folder: Path) -> Path:
    """A mean over each picture, declared for one picture at a time as exporters do."""
    ends = [
        onnx_models.value("image", TensorProto.FLOAT, [1, 3, 4, 4]),
        onnx_models.value("mean", TensorProto.FLOAT, [1, 3, 1, 1]),
    ]
    return onnx_models.save(
        folder / "pictures.onnx", [helper.make_node("GlobalAveragePool", ["image"], ["mean"])], ends[:1], ends[1:]
    )


def test_a_model_of_other_tensors_is_kept_plain_with_free_rows(tmp_path: Path) -> None:
    images = np.random.default_rng(1).normal(size=(5, 3, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "images.npz", image=images[:1])
    made = convert(pictures(tmp_path), data=tmp_path / "images.npz", out=tmp_path / "out")
    assert not made.decision_file.exists()
    assert "without a decision" in made.document["notes"][-1]
    answers = Model(made.folder / "model.onnx").run({"image": images})
    np.testing.assert_allclose(answers["mean"][:, :, 0, 0], images.mean(axis=(2, 3)), rtol=0, atol=1e-6)


def test_a_plain_model_without_data_is_tried_on_made_up_tensors(tmp_path: Path) -> None:
    ends = [
        onnx_models.value("image", TensorProto.FLOAT, ["n", 3, 4, 4]),
        onnx_models.value("mean", TensorProto.FLOAT, ["n", 3, 1, 1]),
    ]
    path = onnx_models.save(
        tmp_path / "p.onnx", [helper.make_node("GlobalAveragePool", ["image"], ["mean"])], ends[:1], ends[1:]
    )
    made = convert(path, out=tmp_path / "out")
    assert made.result.comparison.by_kind.keys() == {"random"}
    with pytest.raises(InvalidInputError, match=r"takes tensors, not rows of columns: image FP32.*\n.*\.npz"):
        convert(path, data=tmp_path / "rows.csv", out=tmp_path / "other")


def test_a_model_for_one_picture_at_a_time_is_asked_one_at_a_time(tmp_path: Path) -> None:
    path = pictures(tmp_path)
    assert convert(path, out=tmp_path / "made-up").result.comparison.all.rows == 8
    images = np.random.default_rng(1).normal(size=(100, 3, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "images.npz", image=images)
    made = convert(path, data=tmp_path / "images.npz", out=tmp_path / "given")
    assert (made.result.comparison.all.rows, made.result.equal) == (100, True)


def test_a_model_for_so_many_rows_is_asked_so_many_at_a_time(tmp_path: Path) -> None:
    ends = [onnx_models.value(name, TensorProto.FLOAT, [4, 2]) for name in ("x", "y")]
    path = onnx_models.save(tmp_path / "four.onnx", [helper.make_node("Neg", ["x"], ["y"])], ends[:1], ends[1:])
    rows = np.arange(20, dtype=np.float32).reshape(10, 2)
    with session(path) as four:
        np.testing.assert_array_equal(answers_of(four, {"x": rows})["y"], -rows)
    made = convert(path, data=FRAME[["amount", "mcc"]], out=tmp_path / "out", rows=102, score=1)
    np.testing.assert_allclose(trained_models.scores(made, FRAME), -FRAME["mcc"])


def test_many_rows_are_asked_in_runs_of_a_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    monkeypatch.setattr(Model, "run", lambda _, inputs: sizes.append(len(inputs["x"])) or {"y": inputs["x"]})
    monkeypatch.setattr("flyball.models.convert.session._RUN_BYTES_MAX", 64)
    rows = np.arange(40, dtype=np.float32).reshape(10, 4)
    with session(onnx_models.linear(tmp_path)) as model:
        np.testing.assert_array_equal(answers_of(model, {"x": rows})["y"], rows)
    assert sizes == [4, 4, 2]


def test_a_model_whose_rows_cannot_be_free_is_told_to_be_exported_so(tmp_path: Path) -> None:
    ends = [
        onnx_models.value("image", TensorProto.FLOAT, [1, 3, 2, 2]),
        onnx_models.value("flat", TensorProto.FLOAT, [1, 12]),
    ]
    shape = {"shape": np.array([1, -1], np.int64)}
    nodes = [helper.make_node("Reshape", ["image", "shape"], ["flat"])]
    path = onnx_models.save(tmp_path / "flat.onnx", nodes, ends[:1], ends[1:], shape)
    with pytest.raises(ModelRefusedError, match=r"'flat' has shape \[1, 96\] for 8 rows.*\n.*with a free row axis"):
        convert(path, out=tmp_path / "out")


def test_arrays_of_different_lengths_are_told(tmp_path: Path) -> None:
    given = {name: np.zeros((count, 3), np.float32) for name, count in (("amounts", 2), ("count", 3), ("known", 3))}
    with pytest.raises(InvalidInputError, match=r"different numbers of rows: amounts 2, count 3, known 3"):
        convert(onnx_models.many(tmp_path), data=given, out=tmp_path / "out")


def test_a_classifier_with_maps_is_kept_without_data_too(tmp_path: Path) -> None:
    made = convert(onnx_models.zipmap(tmp_path), out=tmp_path / "out")
    assert (made.result.comparison.all.rows, made.result.equal) == (8, True)
    assert [one.name for one in Model(made.folder / "model.onnx").facts.outputs] == ["label", "probabilities"]


def wrong_weights(model: Any, name: str, outputs: Any = ()) -> bytes:
    made = onnx.load_from_string(onnx_graph.tidied(model, name, outputs))
    weights = next(part for node in made.graph.node for part in node.attribute if part.name == "class_weights")
    weights.floats[:] = [0.1] * len(weights.floats)  # however often it is done
    return made.SerializeToString()


def wrong_maps(model: Any) -> bool:
    found = onnx_graph.without_maps(model)
    for node in model.graph.node:
        node.op_type = "Neg" if node.op_type == "Identity" else node.op_type
    return found


@pytest.mark.parametrize("fault", [("tidied", wrong_weights), ("without_maps", wrong_maps)], ids=["tidied", "without_maps"])
def test_a_fault_of_what_makes_a_file_fit_to_be_served_is_found(
    fault: tuple[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier(tmp_path / "risk.onnx", zipmap=True)
    monkeypatch.setattr(from_onnx, *fault)
    for data in (FRAME[COLUMNS], None):
        with pytest.raises(ModelRefusedError, match="differs from the original"):
            convert(tmp_path / "risk.onnx", data=data, out=tmp_path / "out", rows=400)


def told_apart(folder: Path) -> TensorModel:
    """A label to 100,000, a text and a probability for each of five rows, and what is expected of them."""
    nodes = [
        helper.make_node("Cast", ["x"], ["label"], to=TensorProto.INT64),
        helper.make_node("Mul", ["x", "small"], ["probability"]),
        helper.make_node("Cast", ["label"], ["word"], to=TensorProto.STRING),
    ]
    kinds = {"label": TensorProto.INT64, "probability": TensorProto.FLOAT, "word": TensorProto.STRING}
    outputs = [onnx_models.value(name, kind, ["n", 1]) for name, kind in kinds.items()]
    inputs = [onnx_models.value("x", TensorProto.FLOAT, ["n", 1])]
    path = onnx_models.save(folder / "m.onnx", nodes, inputs, outputs, {"small": np.array(1e-6, np.float32)})
    given = {"x": np.linspace(1, 100_000, 5, dtype=np.float32).reshape(-1, 1)}
    with session(path) as model:
        return TensorModel("onnx", path.read_bytes(), given, answers_of(model, given), made_up=False)


@pytest.mark.parametrize(
    ("output", "value"), [("label", 7), ("probability", 0.0501), ("word", "other"), ("probability", np.inf)]
)
def test_every_output_has_a_bound_of_its_own_and_labels_and_texts_have_none(output: str, value: Any, tmp_path: Path) -> None:
    plain = told_apart(tmp_path)
    told = compared(plain, None)
    assert (told.equal, told.bound, told.all.max_abs) == (True, 1e-5, 0.0)
    plain.expected[output] = plain.expected[output].copy()
    plain.expected[output][2, 0] = value
    assert compared(plain, None).all.beyond == 1
    assert compared(plain, 10.0).equal == (value == 0.0501)


def test_a_model_that_gives_texts_alone_is_compared_by_them(tmp_path: Path) -> None:
    words = onnx.load(onnx_models.strings(tmp_path))
    keep_outputs(words, {"word"})
    (tmp_path / "words.onnx").write_bytes(words.SerializeToString())
    assert convert(tmp_path / "words.onnx", out=tmp_path / "out").result.comparison.all.rows == 8


def test_what_a_server_would_refuse_is_refused_with_its_reason(tmp_path: Path) -> None:
    for name in ("unknown_op", "opset_99", "truncated"):
        path = getattr(onnx_models, name)(tmp_path)
        with pytest.raises(ModelRefusedError) as refused:
            convert(path, data=FRAME[COLUMNS], out=tmp_path / "out")
        assert "flyball-convert-" not in refused.value.message, name
        assert refused.value.next_step or path.name in refused.value.message, name
        assert not (tmp_path / "out").exists()


def test_outputs_are_cut_with_all_that_only_they_needed(tmp_path: Path) -> None:
    ends = [onnx_models.value(name, TensorProto.FLOAT, ["n", 2]) for name in ("x", "kept", "cut")]
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
