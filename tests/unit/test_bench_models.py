"""The makers: the same bytes from the same seed, the sizes that the scenarios promise, and rows that stay apart."""

import functools
import sys

import numpy as np
import onnx
import pytest

from flyball.bench.models import make
from flyball.bench.models.fraud import make_fraud_gbdt
from flyball.bench.models.make import make_model, maker_rows
from flyball.bench.models.perceptron import make_fraud_mlp_12mb, make_mlp
from flyball.bench.models.vision import make_vision_cnn_int8, pictures
from flyball.bench.payloads import one_thread_session
from flyball.bench.scenario import ModelSource
from flyball.errors import MissingExtraError, ModelRefusedError


@pytest.fixture(scope="module")
def vision(tmp_path_factory):
    return make_vision_cnn_int8(tmp_path_factory.mktemp("models") / "vision.onnx")


@pytest.mark.parametrize(
    "maker",
    [functools.partial(make_fraud_gbdt, trees=5), make_fraud_mlp_12mb, make_vision_cnn_int8],
    ids=["gbdt", "mlp", "vision"],
)
def test_a_seed_is_one_file_byte_for_byte_and_another_seed_another(tmp_path, maker):
    first, again, other = (maker(tmp_path / f"{n}.onnx", seed=seed).read_bytes() for n, seed in enumerate([7, 7, 8]))
    assert first == again
    assert first != other


def test_the_large_perceptron_has_the_size_and_the_layers_of_its_scenario(tmp_path):
    path = make_fraud_mlp_12mb(tmp_path / "mlp.onnx")
    assert 11.6e6 < path.stat().st_size < 12e6
    weights = {weight.name: list(weight.dims) for weight in onnx.load(path).graph.initializer}
    assert [weights[f"w{place}"] for place in range(4)] == [[64, 1200], [1200, 1200], [1200, 1200], [1200, 1]]


def test_the_vision_model_takes_bytes_of_224_by_224_and_any_number_of_pictures(vision):
    session = one_thread_session(vision)
    (taken,) = session.get_inputs()
    assert (taken.name, taken.type, taken.shape) == ("input", "tensor(uint8)", ["rows", 3, 224, 224])
    (scores,) = session.run(None, {"input": np.concatenate(list(pictures(3, seed=1)))})
    assert scores.shape == (3, 10)


def test_the_vision_model_keeps_its_weights_in_int8_with_a_scale_for_each_channel(vision):
    weights = {weight.name: weight for weight in onnx.load(vision).graph.initializer}
    kernels = [weights[f"k{place}_quantized"] for place in range(5)]
    assert {kernel.data_type for kernel in kernels} == {onnx.TensorProto.INT8}
    assert [list(weights[f"k{place}_scale"].dims) for place in range(5)] == [[64], [128], [256], [512], [512]]
    floats = [weight for weight in weights.values() if weight.data_type == onnx.TensorProto.FLOAT]
    assert all(np.prod(weight.dims) <= 512 for weight in floats)


def test_pictures_are_judged_the_same_alone_and_together_and_each_in_its_own_way(vision):
    session = one_thread_session(vision)
    rows = list(pictures(8, seed=1))
    together = session.run(None, {"input": np.concatenate(rows)})[0]
    alone = [session.run(None, {"input": row})[0][0] for row in rows]
    assert [row.tobytes() for row in together] == [row.tobytes() for row in alone]
    assert len({row.tobytes() for row in alone}) == 8


def test_quantising_says_nothing_of_its_own(tmp_path, capfd, caplog):
    make_vision_cnn_int8(tmp_path / "vision.onnx")
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


@pytest.mark.parametrize(
    ("maker", "shape", "dtype"),
    [
        ("fraud-gbdt", (1, 12), np.float32),
        ("fraud-mlp-12mb", (1, 64), np.float32),
        ("vision-cnn-int8", (1, 3, 224, 224), np.uint8),
    ],
)
def test_the_rows_of_a_maker_fit_its_model_and_are_seeded_and_distinct(maker, shape, dtype):
    rows = list(maker_rows(maker, 5, seed=1))
    assert {(row.shape, row.dtype) for row in rows} == {(shape, np.dtype(dtype))}
    assert [row.tobytes() for row in maker_rows(maker, 5, seed=1)] == [row.tobytes() for row in rows]
    assert len({row.tobytes() for row in [*rows, *maker_rows(maker, 5, seed=2)]}) == 10


@pytest.mark.parametrize("maker", ["fraud-gbdt", "fraud-mlp-12mb", "vision-cnn-int8"])
def test_a_scenarios_model_is_made_in_the_folder_under_its_name_and_runs_its_makers_rows(tmp_path, monkeypatch, maker):
    monkeypatch.setattr(make, "make_fraud_gbdt", functools.partial(make_fraud_gbdt, trees=5))
    path = make_model(ModelSource(make=maker, name="mine"), tmp_path / "new")
    assert path == tmp_path / "new" / "mine.onnx"
    session = one_thread_session(path)
    for row in maker_rows(maker, 2, seed=1):
        assert all(len(output) == 1 for output in session.run(None, {session.get_inputs()[0].name: row}))


def test_a_model_by_path_is_taken_as_it_is(tmp_path, vision):
    assert make_model(ModelSource(path=str(vision)), tmp_path) == vision
    with pytest.raises(ModelRefusedError, match=r"no\.onnx does not exist"):
        make_model(ModelSource(path="no.onnx"), tmp_path)


@pytest.mark.parametrize("maker", [make_fraud_gbdt, make_mlp, make_vision_cnn_int8])
def test_without_onnx_the_extra_is_named(tmp_path, monkeypatch, maker):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError) as caught:
        maker(tmp_path / "m.onnx")
    assert "flyball[demo]" in caught.value.next_step
