"""What measuring rests on: payloads with right answers, figures that read well, processes on chosen cores."""

import json
import os
import sys

import numpy as np
import pytest

from flyball.bench.bare_loop import measure_bare
from flyball.bench.models.fraud import fraud_rows, make_fraud_gbdt
from flyball.bench.models.perceptron import make_int8_mlp, make_mlp
from flyball.bench.payloads import make_payloads, one_thread_session
from flyball.bench.process import Process, on_cpus, split_cpus
from flyball.bench.run import check_answer, first_answer
from flyball.bench.table import Row, latency, rate, results_table, size
from flyball.errors import FlyballError

PEER = [sys.executable, "-m", "flyball.bench.peers.fastapi_peer"]


@pytest.fixture(scope="module")
def mlp(tmp_path_factory):
    return make_mlp(tmp_path_factory.mktemp("models") / "mlp.onnx", sizes=(4, 8, 2))


@pytest.fixture(scope="module")
def gbdt(tmp_path_factory):
    return make_fraud_gbdt(tmp_path_factory.mktemp("models") / "fraud.onnx", trees=5)


def test_payloads_are_the_same_for_the_same_seed_and_differ_from_row_to_row(mlp):
    lines = make_payloads(mlp, 20, seed=1).splitlines()
    assert make_payloads(mlp, 20, seed=1).splitlines() == lines
    assert make_payloads(mlp, 20, seed=2).splitlines() != lines
    assert len(set(lines)) == 20


def test_expected_outputs_are_those_of_onnxruntime_bit_for_bit(mlp):
    session = one_thread_session(mlp)
    for line in make_payloads(mlp, 20, seed=1).splitlines():
        document = json.loads(line)
        row = np.array(document["inputs"][0]["data"], np.float32).reshape(1, 4)
        (output,) = session.run(None, {"input": row})
        assert np.array(document["outputs"][0]["data"], np.float32).tobytes() == output.tobytes()


def test_floats_are_written_with_the_fewest_digits(mlp):
    document = json.loads(make_payloads(mlp, 1, seed=1, rows=lambda count: np.full((count, 4), 0.1, np.float32)))
    assert document["inputs"][0]["data"] == [0.1] * 4


def test_the_fraud_model_has_a_free_batch_axis_and_plain_outputs(gbdt):
    session = one_thread_session(gbdt)
    label, probabilities = session.run(None, {"input": fraud_rows(7, seed=1)[0]})
    assert label.shape == (7,)
    assert probabilities.shape == (7, 2)
    assert [output.shape[0] for output in session.get_outputs()] == ["rows", "rows"]


def test_fraud_is_rare_but_learnable():
    _, fraud = fraud_rows(5000, seed=1)
    assert 0.01 < fraud.mean() < 0.3


def test_rows_of_the_int8_model_influence_each_other(tmp_path):
    session = one_thread_session(make_int8_mlp(tmp_path / "int8.onnx"))
    rows = np.random.default_rng(1).standard_normal((8, 32)).astype(np.float32)
    rows[1:] *= 30
    together = session.run(None, {"input": rows})[0][0]
    alone = session.run(None, {"input": rows[:1]})[0][0]
    assert together.tobytes() != alone.tobytes()


def test_a_bare_loop_measures_something(mlp):
    result = measure_bare(mlp, make_payloads(mlp, 5, seed=1), 0.05)
    assert 0 < result.p50_us <= result.p99_us
    assert result.rate_per_s > 0


@pytest.mark.parametrize("style", ["def", "async"])
def test_the_fastapi_peer_gives_right_answers_from_its_own_process(gbdt, style, monkeypatch):
    payloads = make_payloads(gbdt, 3, seed=1)
    with Process([*PEER, f"fraud={gbdt}", "--style", style]) as peer:
        for line in payloads.splitlines():
            assert 0 < first_answer(peer.url, "fraud", line, started=peer.started) < 30
        assert peer.rss_bytes() > 10_000_000
        assert sum(peer.thread_cpu_s().values()) > 0


def test_a_process_that_does_not_become_ready_is_told_with_its_words():
    with pytest.raises(FlyballError, match="did not become ready \\(exit 7\\)") as caught:
        Process([sys.executable, "-c", "import sys; sys.stderr.write('out of luck'); sys.exit(7)"])
    assert "out of luck" in str(caught.value)


def test_a_process_inherits_its_cores_and_ours_stay(tmp_path):
    before = os.sched_getaffinity(0)
    code = "import os, time; print('ready', os.sched_getaffinity(0), flush=True); time.sleep(60)"
    cpu = min(before)
    with Process([sys.executable, "-c", code], cpus=[cpu]) as child:
        assert child.url == f"{{{cpu}}}"
    assert os.sched_getaffinity(0) == before


def test_cores_are_split_between_server_and_generator():
    server, generator = split_cpus()
    assert server
    assert generator
    with on_cpus(server[:1]):
        assert split_cpus() == (server[:1], server[:1])


def test_answers_are_compared_as_the_numbers_they_are():
    expected = [{"name": "y", "data": [0.1]}]
    check_answer(expected, [{"name": "z", "data": []}, {"name": "y", "data": [0.10000000149011612]}])
    for wrong in ([], [{"name": "y", "data": [0.11]}], [{"name": "y", "data": [0.1, 0.1]}]):
        with pytest.raises(FlyballError, match="expected"):
            check_answer(expected, wrong)


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (None, "—"),
        (9.123, "9.12 µs"),
        (75.4, "75.4 µs"),
        (640, "640 µs"),
        (2350, "2.35 ms"),
        (412_000, "412 ms"),
        (1.5e6, "1.50 s"),
    ],
)
def test_times_read_in_the_unit_that_fits(us, text):
    assert latency(us) == text


def test_rates_and_sizes_read_well():
    assert (rate(51234.7), rate(None)) == ("51,235", "—")
    assert (size(512), size(685_381), size(104_800_000), size(2_500_000_000)) == ("512 B", "685 kB", "105 MB", "2.50 GB")


def test_the_table_has_a_line_for_each_row_and_a_dash_for_what_was_not_measured():
    table = results_table([Row("a", 1.0, 2.0, 3.0, 4.0, 5.0, 6), Row("b")], "title", 16)
    assert table.row_count == 2
    assert list(table.columns[1].cells) == ["1", "—"]
