"""One model in this process: what crosses to the engine and back, and what is refused on the way."""

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from flyball.errors import InvalidInputError, ModelRefusedError, ServerFaultError, UsageError
from flyball.native.model_runs import Model
from tests.support import onnx_models


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def linear(folder: Path) -> Model:
    return Model(onnx_models.linear(folder))


def test_answers_are_the_models_own_arithmetic(linear):
    x = onnx_models.rng(1).normal(size=(3, 4)).astype(np.float32)
    w = onnx_models.rng(onnx_models.SEED).normal(size=(4, 2)).astype(np.float32)
    b = onnx_models.rng(onnx_models.SEED + 1).normal(size=2).astype(np.float32)
    np.testing.assert_allclose(linear.run({"x": x})["y"], x @ w + b, rtol=1e-5)


def test_strings_and_whole_numbers_come_and_go_as_arrays(folder):
    found = Model(onnx_models.strings(folder)).run({"x": np.array([["grün"], ["mauve"]], dtype=object)})
    assert found["word"].tolist() == [["vert ↔ grün"], ["inconnu"]]
    assert found["number"].tolist() == [[2], [-1]]
    beyond = Model(onnx_models.int64(folder)).run({"x": np.zeros((1, 3), np.int64)})
    assert beyond["y"].tolist() == [[0, 2**53 + 1, -1]]


def test_the_facts_are_what_inspecting_tells(folder, linear):
    from flyball.native.models import inspect

    inspected, facts = inspect(onnx_models.linear(folder)), linear.facts
    assert (facts.digest, facts.size_bytes) == (inspected.digest, inspected.size_bytes)
    assert (facts.inputs, facts.outputs, facts.batching) == (inspected.inputs, inspected.outputs, inspected.batching)
    assert facts.load_ms > 0


def test_a_large_model_makes_the_process_grow_by_its_weights(folder):
    facts = Model(onnx_models.heavy(folder, 48)).facts
    assert facts.resident_bytes > 40 << 20


def test_all_that_is_wrong_with_the_inputs_is_told_at_once(folder):
    model = Model(onnx_models.many(folder))
    wrong = {"amounts": np.zeros((1, 3)), "count": np.zeros((1, 2), np.int64), "extra": np.zeros(1, np.float32)}
    with pytest.raises(InvalidInputError, match="the inputs do not fit the model") as refused:
        model.run(wrong)
    assert sorted(fault.path for fault in refused.value.faults) == [
        "inputs.amounts", "inputs.count", "inputs.extra", "inputs.known",
    ]  # fmt: skip
    found = {fault.path: (fault.found, fault.allowed) for fault in refused.value.faults}
    assert found["inputs.amounts"] == ("FP64 [1, 3]", "FP32 [-1, 3] (-1 is any size)")
    assert found["inputs.known"] == (None, "required: BOOL [-1, 1] (-1 is any size)")


def test_a_run_that_fails_says_why_in_the_engines_words(folder):
    with pytest.raises(ServerFaultError, match="out of data bounds"):
        Model(onnx_models.gather(folder)).run({"x": np.array([[99]], np.int64)})


@pytest.mark.parametrize("name", sorted(onnx_models.BAD))
def test_what_a_server_would_refuse_is_refused_with_the_files_name(name, folder):
    path = onnx_models.BAD[name](folder)
    with pytest.raises(ModelRefusedError, match=path.name):
        Model(path)


def test_figures_count_the_runs_and_rows_that_were_asked_for(linear):
    figures = linear.measure({"x": np.zeros((5, 4), np.float32)}, runs=200, warm_runs=10)
    assert (figures.runs, figures.rows) == (200, 5)
    assert 0 < figures.p50_us <= figures.p95_us <= figures.p99_us <= figures.p999_us <= figures.max_us


def test_more_runs_than_a_million_are_refused(linear):
    with pytest.raises(InvalidInputError, match="1 to 1000000"):
        linear.measure({"x": np.zeros((1, 4), np.float32)}, runs=1_000_001)


def test_more_bytes_than_a_server_takes_are_refused(linear):
    with pytest.raises(InvalidInputError, match="send fewer rows"):
        linear.run({"x": np.zeros((33 << 20, 4), np.float32)})


def test_made_up_input_runs_and_has_the_rows_that_were_asked_for(folder, linear):
    assert linear.made_up(3)["x"].shape == (3, 4)
    assert linear.run(linear.made_up(3))["y"].shape == (3, 2)
    with pytest.raises(InvalidInputError, match="fixed first axis of 1"):
        Model(onnx_models.fixed_batch(folder)).made_up(2)


def test_a_graph_level_that_does_not_exist_is_refused(folder):
    with pytest.raises(Exception, match="unknown variant `most`"):
        Model(onnx_models.linear(folder), graph="most")  # type: ignore[arg-type]


def test_a_profile_is_written_where_it_was_asked_for_and_only_once(folder, tmp_path):
    model = Model(onnx_models.linear(folder), profile=tmp_path / "told")
    model.run(model.made_up())
    written = model.end_profile()
    assert written.parent == tmp_path
    assert '"MatMul"' in written.read_text() or '"Gemm"' in written.read_text()
    with pytest.raises(InvalidInputError, match="no profile is running"):
        model.end_profile()


def test_a_profile_that_could_not_be_written_is_told(folder, tmp_path):
    model = Model(onnx_models.linear(folder), profile=tmp_path / "none" / "told")
    model.run(model.made_up())
    with pytest.raises(UsageError, match="could not write"):
        model.end_profile()


def test_other_threads_of_python_go_on_while_a_model_runs(folder):
    """They set what the test waits for; with the GIL held by the run they could not."""
    model = Model(onnx_models.slow(folder))
    seen, ended = [], threading.Event()

    def watch() -> None:
        while not ended.is_set():
            seen.append(ended.wait(0.001))

    watcher = threading.Thread(target=watch)
    watcher.start()
    before = len(seen)
    model.measure(model.made_up(), runs=10, warm_runs=0)
    during = len(seen) - before
    ended.set()
    watcher.join()
    assert during > 0


def test_ctrl_c_ends_a_run_that_would_never_end(folder):
    model = Model(onnx_models.looped(folder))

    def interrupted() -> None:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        model.run({"x": np.array([2**62], np.int64)})

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert model.run({"x": np.array([3], np.int64)})["y"].tolist() == [3.0]


@pytest.mark.timeout(120)
def test_a_model_with_runs_of_seconds_is_run_once_and_its_batches_are_not_probed(tmp_path: Path) -> None:
    from flyball.native.models import prove

    found = prove(onnx_models.endless(tmp_path, trips=4_000_000), 8)
    assert not found.on
    assert "too long to probe batches" in (found.reason or "")
