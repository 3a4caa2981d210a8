"""Where and when runs happen: slow ones away from the sockets, endless ones stopped, broken models left alone for a while,
batches of one where a model allows no more, and batches that wait where a deployment asks for it.
"""

import json
import re
import select
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.support import command_line, serving, snapshots
from tests.support.crowd import crowd
from tests.support.held_clock import HeldClock
from tests.support.onnx_models import Arrays, row
from tests.support.run_state import cpu_ms, under_way
from tests.support.serving import Server, until
from tests.support.triton_clients import grpc_client, grpc_infer
from tests.support.wire import (
    Http,
    Raw,
    Reply,
    assert_same,
    from_json,
    infer_path,
    json_request,
    metrics,
    raw_infer,
    raw_post,
    raws,
)

Model = Callable[[str], Path]
Reference = Callable[[str, Arrays], Arrays]

# Trips of the looped model: one, and more than anybody will wait for. Those runs end when a test advances the clock.
SHORT, ENDLESS = 1, 2**62
RUN_MS_MAX = 300
LIMITS = {"run_ms_max": RUN_MS_MAX, "queue_wait_ms_max": serving.PATIENCE_MS}
# crates/plane/src/breaker.rs
FAULTS_MAX, PAUSE_MS = 8, 1000


@pytest.fixture
def begin(start: Callable[..., Server], tmp_path: Path) -> Callable[..., Server]:
    """flyballd with these deployments, all on one lane."""

    def begun(*documents: dict[str, Any]) -> Server:
        index = snapshots.write(tmp_path, 1, list(documents))
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"lanes": 1}))
        return start(*serving.flyballd(), "--snapshot", index, "--listen", "127.0.0.1:0", "--config", config)

    return begun


def counting(trips: int) -> Arrays:
    return {"x": np.array([trips], np.int64)}


def count(connection: Http, trips: int) -> Reply:
    return connection.post(infer_path("looped"), json_request(counting(trips)))


def has_answer(raw: Raw) -> bool:
    return bool(select.select([raw.socket], [], [], 0)[0])


def test_a_slow_run_does_not_hold_up_a_fast_model_on_the_same_lane(
    begin: Callable[..., Server], model: Model, reference: Reference, clock: HeldClock
) -> None:
    looped = snapshots.deployment("looped", model("looped"), limits=LIMITS)
    server = begin(looped, snapshots.deployment("linear", model("linear")))
    inputs = row("linear", 1)
    with Raw(server) as slow, Http(server) as fast:
        slow.send(raw_infer("looped", counting(ENDLESS)))
        under_way(server)
        for _ in range(10):
            assert_same(fast.infer("linear", inputs), reference("linear", inputs))
        assert not has_answer(slow), "the fast answers came after the slow one"
        clock.advance(RUN_MS_MAX)
        reply = slow.reply()
    assert reply is not None
    assert reply.status == 500


def test_a_model_whose_table_says_that_it_is_slow_runs_on_a_lane_without_sockets(
    begin: Callable[..., Server], model: Model
) -> None:
    server = begin(snapshots.deployment("slow", model("slow")), snapshots.deployment("linear", model("linear")))
    busy = "flyball_lane_busy_seconds_total"
    with Http(server) as connection:
        connection.infer("slow", row("slow", 1))
        slow = metrics(server)
        connection.infer("linear", row("linear", 1))
        fast = metrics(server)
    assert (slow.sum(busy, lane="0"), slow.sum(busy, lane="1") > 0) == (0, True)
    assert (fast.sum(busy, lane="0") > 0, fast.sum(busy, lane="1")) == (True, slow.sum(busy, lane="1"))


def test_an_endless_run_is_stopped_on_both_transports_and_the_others_are_served_on(
    begin: Callable[..., Server], model: Model, reference: Reference, clock: HeldClock
) -> None:
    looped = snapshots.deployment("looped", model("looped"), limits=LIMITS)
    server = begin(looped, snapshots.deployment("linear", model("linear")))
    stopped = f"the model ran for more than {RUN_MS_MAX} ms on this input and was stopped"
    with crowd(server, "linear", reference, connections=4) as people, Raw(server) as raw:
        raw.send(raw_infer("looped", counting(ENDLESS)))
        under_way(server)
        people.wait_for_more(1)
        clock.advance(RUN_MS_MAX)
        reply = raw.reply()
        assert reply is not None
        assert (reply.status, reply.error) == (500, stopped)
        used = cpu_ms(server)
        with grpc_client(server) as client, ThreadPoolExecutor(1) as asking:
            failing = asking.submit(grpc_infer, client, "looped", counting(ENDLESS))
            under_way(server, used)
            clock.advance(RUN_MS_MAX)
            with pytest.raises(InferenceServerException) as failed:
                failing.result()
        assert (failed.value.status(), failed.value.message()) == ("StatusCode.INTERNAL", stopped)
        with Http(server) as connection:
            assert_same(connection.infer("looped", counting(5)), reference("looped", counting(5)))
    reading = metrics(server)
    assert reading.sum("flyball_faults_total", model="looped", kind="run_stopped", stage="infer") == 2
    assert reading.sum("flyball_requests_total", model="looped", outcome="failed") == 2
    assert reading.sum("flyball_requests_total", model="linear", outcome="answered") > 0
    server.log_line(lambda fields: "looped" in str(fields) and "is being stopped" in str(fields))


def test_a_model_that_breaks_again_and_again_is_left_alone_and_comes_back_once_a_run_succeeds(
    begin: Callable[..., Server], model: Model, clock: HeldClock
) -> None:
    looped = snapshots.deployment("looped", model("looped"), limits=LIMITS)
    server = begin(looped, snapshots.deployment("linear", model("linear")))

    def stop_a_run() -> int:
        with Raw(server) as raw:
            used = cpu_ms(server)
            raw.send(raw_infer("looped", counting(ENDLESS)))
            under_way(server, used)
            clock.advance(RUN_MS_MAX)
            reply = raw.reply()
        assert reply is not None
        return reply.status

    with Http(server) as connection, grpc_client(server) as client:
        for _ in range(FAULTS_MAX - 1):
            assert stop_a_run() == 500
        assert count(connection, SHORT).status == 200, "a success between the faults"
        for _ in range(FAULTS_MAX):
            assert stop_a_run() == 500
        refused = count(connection, SHORT)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert re.fullmatch(r"model 'looped' failed several times in a row; try again in \d+ ms", refused.error)
        with pytest.raises(InferenceServerException, match="several times in a row") as open_too:
            grpc_infer(client, "looped", counting(SHORT))
        assert open_too.value.status() == "StatusCode.UNAVAILABLE"
        connection.infer("linear", row("linear", 1))
        clock.advance(PAUSE_MS)
        assert count(connection, SHORT).status == 200, "it is tried again"
        assert count(connection, SHORT).status == 200
        assert stop_a_run() == 500, "it counts from nought again"
        assert count(connection, SHORT).status == 200
    reading = metrics(server)
    assert reading.sum("flyball_faults_total", model="looped", kind="run_stopped") == 2 * FAULTS_MAX
    assert reading.sum("flyball_faults_total", model="looped", kind="breaker_open", stage="admit") >= 2
    opened = "the model was stopped or panicked several times in a row; its requests are refused for a while"
    server.log_line(lambda fields: "looped" in str(fields) and opened in str(fields))


def test_a_model_with_a_fixed_first_axis_says_so_and_is_served_one_request_at_a_time(
    begin: Callable[..., Server], model: Model, reference: Reference
) -> None:
    reason = "input 'x' has a fixed first axis of 1"
    inspected = command_line.flyball("inspect", model("fixed_batch"), "--json")
    assert json.loads("\n".join(inspected.stdout))["batching"] == {"on": False, "reason": reason, "rows_max": 1}
    server = begin(snapshots.deployment("fixed_batch", model("fixed_batch")))
    applied = server.log_line(lambda fields: "deployment applied" in str(fields))
    assert (applied["batch_rows_max"], applied["batch_reason"]) == (1, reason)
    rows = [row("fixed_batch", seed) for seed in range(8)]
    with raws(server, len(rows)) as connections:
        for raw, inputs in zip(connections, rows, strict=True):
            raw.send(raw_infer("fixed_batch", inputs))
        for raw, inputs in zip(connections, rows, strict=True):
            assert_same(from_json(answer(raw).json["outputs"]), reference("fixed_batch", inputs))
    assert batches(server, "fixed_batch") == (len(rows), len(rows))


def answer(raw: Raw) -> Reply:
    reply = raw.reply()
    assert reply is not None
    assert reply.status == 200, reply.body
    return reply


def batches(server: Server, name: str) -> tuple[float, float]:
    """Runs of a model, and the rows that they carried."""
    reading = metrics(server)
    return reading.sum("flyball_batch_rows_count", model=name), reading.sum("flyball_batch_rows_sum", model=name)


def test_two_requests_within_a_batch_window_share_a_run_that_begins_when_the_second_comes(
    begin: Callable[..., Server], model: Model, reference: Reference, clock: HeldClock
) -> None:
    """The clock is never advanced, so only the second request can end the window."""
    server = begin(snapshots.deployment("linear", model("linear"), batch={"size": 2, "window_ms": 1000}))
    rows = [row("linear", seed) for seed in range(2)]
    with raws(server, 2) as connections:
        connections[0].send(raw_infer("linear", rows[0]))
        until("it is queued", lambda: metrics(server).sum("flyball_in_flight") == 1 or None)
        assert not has_answer(connections[0]), "it waits for company"
        connections[1].send(raw_infer("linear", rows[1]))
        for raw, inputs in zip(connections, rows, strict=True):
            assert_same(from_json(answer(raw).json["outputs"]), reference("linear", inputs))
    assert batches(server, "linear") == (1, 2)


def test_a_lone_request_is_answered_once_its_batch_window_is_over(begin: Callable[..., Server], model: Model) -> None:
    server = begin(snapshots.deployment("linear", model("linear"), batch={"size": 2, "window_ms": 50}))
    with Http(server) as connection:
        connection.infer("linear", row("linear", 1))
    assert batches(server, "linear") == (1, 1)
    assert metrics(server).sum("flyball_stage_seconds_sum", model="linear", stage="queue") >= 0.05


def test_a_batch_window_does_not_make_a_request_late(begin: Callable[..., Server], model: Model, clock: HeldClock) -> None:
    """The deadline ends the window 2 ms early; at its full length the request would be rejected as late."""
    server = begin(snapshots.deployment("linear", model("linear"), batch={"size": 2, "window_ms": 100}))
    body = json.dumps(json_request(row("linear", 1))).encode()
    with Raw(server) as raw:
        raw.send(raw_post("linear", body, "X-Request-Timeout-Ms: 90\r\n"))
        until("it is queued", lambda: metrics(server).sum("flyball_in_flight") == 1 or None)
        clock.advance(89)
        answer(raw)
