"""Batching never changes an answer: it is used where rows are independent and left off where they are not."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from flyball.bench.payloads import make_payloads
from flyball.native.load import LoadRun
from flyball.native.load_documents import LoadPlan, Warmup
from tests.support.crowd import crowd
from tests.support.onnx_models import Arrays, row
from tests.support.serving import Server
from tests.support.wire import Metrics, Raw, Reply, assert_same, from_json, metrics, raw_infer, raws

Reference = Callable[[str, Arrays], Arrays]

# One lane, on which requests wait for company: rows share runs however slowly this process sends them.
SHARED = ("--lanes", "1", "--batch-size", "16", "--batch-window-ms")


def mean_batch(reading: Metrics, model: str) -> float:
    return reading.sum("flyball_batch_rows_sum", model=model) / reading.sum("flyball_batch_rows_count", model=model)


def all_at_once(raws: list[Raw], bodies: list[bytes]) -> list[Reply]:
    """Sends every request before it reads any answer."""
    for raw, body in zip(raws, bodies, strict=True):
        raw.send(body)
    replies = [raw.reply() for raw in raws]
    assert None not in replies
    return [reply for reply in replies if reply is not None]


def test_sixteen_busy_connections_make_batches_of_four_and_more(
    serve: Callable[..., Server], model: Callable[[str], Path]
) -> None:
    """Readiness batching rests on the order in which the runtime polls, which it does not promise: this holds it."""
    server = serve("gbdt", more=("--lanes", "1"))
    pool = make_payloads(model("gbdt"), count=200, seed=1)
    warmup = Warmup(least_s=0.2, most_s=0.2)
    plan = LoadPlan(url=f"http://{server.address}", model="gbdt", connections=16, duration_s=1.5, warmup=warmup)
    outcome = LoadRun(plan, pool).result()
    assert (outcome.mismatched, outcome.failed, outcome.refused) == (0, 0, 0)
    assert mean_batch(metrics(server), "gbdt") >= 4


def test_a_dynamically_quantised_model_is_found_out_and_served_unbatched(
    serve: Callable[..., Server], reference: Reference
) -> None:
    server = serve("int8")
    rows = [row("int8", seed) for seed in range(32)]
    together = np.concatenate([inputs["x"] for inputs in rows])
    alone = np.concatenate([reference("int8", inputs)["y"] for inputs in rows])
    assert reference("int8", {"x": together})["y"].tobytes() != alone.tobytes(), "the model does not need this test"
    with raws(server, len(rows)) as connections:
        for _ in range(10):
            replies = all_at_once(connections, [raw_infer("int8", inputs) for inputs in rows])
            for inputs, reply in zip(rows, replies, strict=True):
                assert_same(from_json(reply.json["outputs"]), reference("int8", inputs))
    assert mean_batch(metrics(server), "int8") == 1.0


@pytest.mark.parametrize("name", ["gbdt", "fp16", "strings"])
def test_answers_of_shared_runs_equal_those_alone(serve: Callable[..., Server], name: str, reference: Reference) -> None:
    server = serve(name, more=(*SHARED, "20"))
    with crowd(server, name, reference) as people:
        people.wait_for_more(10)
    assert mean_batch(metrics(server), name) > 1


def test_a_model_without_batching_answers_under_load_as_it_does_alone(house: Server, reference: Reference) -> None:
    with crowd(house, "fixed_batch", reference) as people:
        people.wait_for_more(10)
    assert mean_batch(metrics(house), "fixed_batch") == 1


def test_rows_of_any_width_are_answered_under_load_as_alone(house: Server, reference: Reference) -> None:
    """Whether they share runs depends on how this machine's processor sums."""
    with crowd(house, "free_axis", reference) as people:
        people.wait_for_more(10)


def test_one_bad_row_in_a_batch_fails_alone(serve: Callable[..., Server], reference: Reference) -> None:
    server = serve("gather", more=(*SHARED, "100"))
    bad = {"x": np.array([[8]], np.int64)}
    with raws(server, 16) as connections:
        for turn in range(20):
            rows = [row("gather", 100 * turn + place) for place in range(len(connections))]
            rows[turn % len(rows)] = bad
            replies = all_at_once(connections, [raw_infer("gather", inputs) for inputs in rows])
            for inputs, reply in zip(rows, replies, strict=True):
                if inputs is bad:
                    assert reply.status == 500
                    assert "8" in reply.error
                else:
                    assert reply.status == 200, reply.body
                    assert_same(from_json(reply.json["outputs"]), reference("gather", inputs))
    reading = metrics(server)
    assert reading.sum("flyball_faults_total", model="gather", kind="run_failed", stage="infer") == 20
    assert reading.sum("flyball_requests_total", model="gather", outcome="failed") == 20
    # Had each row run by itself from the start, there would be as many runs as rows.
    assert mean_batch(reading, "gather") > 1


def test_requests_of_several_rows_share_batches_and_keep_their_rows(
    serve: Callable[..., Server], reference: Reference
) -> None:
    server = serve("linear", more=(*SHARED, "50"))
    problems: list[BaseException] = []
    sent: list[int] = []

    def ask(place: int) -> None:
        try:
            with Raw(server) as raw:
                for turn in range(25):
                    rows = [row("linear", 1000 * place + 10 * turn + n)["x"] for n in range(1 + (place + turn) % 7)]
                    sent.append(len(rows))
                    raw.send(raw_infer("linear", {"x": np.concatenate(rows)}))
                    reply = raw.reply()
                    assert reply is not None
                    wanted = np.concatenate([reference("linear", {"x": alone})["y"] for alone in rows])
                    assert_same(from_json(reply.json["outputs"]), {"y": wanted})
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems[0]
    assert len(sent) == 12 * 25
    assert mean_batch(metrics(server), "linear") > sum(sent) / len(sent), "no two requests shared a run"
