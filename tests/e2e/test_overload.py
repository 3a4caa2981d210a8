"""More work than there is time for: some waits, the rest is refused at once, told when to come again, and counted."""

import json
import re
import select
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tritonclient.grpc import service_pb2

from tests.support import command_line, serving, snapshots
from tests.support.held_clock import HeldClock
from tests.support.onnx_models import Arrays, row
from tests.support.raw_h2 import Connection, frame
from tests.support.run_state import cpu_ms, in_flight, under_way
from tests.support.serving import Server, until
from tests.support.wire import Http, Raw, json_request, metrics, raw_infer, raw_post, raws, settled

# Trips of the looped model: one, and more than anybody will wait for. Those runs end when they are stopped, which is when a
# test moves the clock by as long as they may take: however busy the machine is, nothing happens before.
SHORT, ENDLESS = 1, 2**62
RUN_MS_MAX = 1500
WAITS_MS = 3000
PATIENCE = {"run_ms_max": RUN_MS_MAX, "queue_wait_ms_max": serving.PATIENCE_MS}
FLOOD = 12
QUEUED = re.compile(
    r"model 'slow' has [\d.]+ [mµn]?s of queued work, "
    r"and this request may wait for (?P<most>[\d.]+ [mµn]?s) at most; try again later"
)
# Refusals dominate after some hundred of them, so the first rounds bring that about.
PRESSING, ROUNDS = 64, 8


@pytest.fixture
def begin(start: Callable[..., Server], model: Callable[[str], Path], tmp_path: Path) -> Callable[..., Server]:
    """flyballd on one lane, with one model and its limits."""

    def begun(name: str, **limits: int) -> Server:
        index = snapshots.write(tmp_path, 1, [snapshots.deployment(name, model(name), limits=limits)])
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"lanes": 1}))
        return start(*serving.flyballd(), "--snapshot", index, "--listen", "127.0.0.1:0", "--config", config)

    return begun


def test_a_flooded_model_refuses_over_http_with_503_and_says_when_to_come_again(begin: Callable[..., Server]) -> None:
    server = begin("slow", queue_wait_ms_max=1)
    with raws(server, FLOOD) as connections:
        for raw in connections:
            raw.send(raw_infer("slow", row("slow", 1)))
        replies = [reply for raw in connections if (reply := raw.reply())]
    refused = [reply for reply in replies if reply.status == 503]
    assert {reply.status for reply in replies} == {200, 503}
    for reply in refused:
        assert int(reply.headers["retry-after"]) >= 1
        refusal = QUEUED.fullmatch(reply.error)
        assert refusal, reply.error
        assert refusal["most"] == "1.0 ms"
    assert_counted(server, "http", len(replies) - len(refused), len(refused))
    with Http(server) as connection:
        connection.infer("slow", row("slow", 1))


def test_connections_that_are_left_unread_while_refusals_dominate_are_read_again_and_nothing_is_lost(
    begin: Callable[..., Server],
) -> None:
    """Each asks again as soon as it is refused, in all more often than it takes until refusals dominate."""
    server = begin("slow", queue_wait_ms_max=1)
    with raws(server, PRESSING) as connections:
        statuses = []
        for _ in range(ROUNDS):
            for raw in connections:
                raw.send(raw_infer("slow", row("slow", 1)))
            statuses += [status(raw) for raw in connections]
    answered, refused = statuses.count(200), statuses.count(503)
    assert answered + refused == len(statuses)
    assert refused > len(statuses) / 2, "refusals did not dominate"
    assert_counted(server, "http", answered, refused)


def test_a_flooded_model_refuses_over_grpc_with_resource_exhausted_and_pushback(begin: Callable[..., Server]) -> None:
    server = begin("slow", queue_wait_ms_max=1)
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 1]}
    message = service_pb2.ModelInferRequest(model_name="slow", inputs=[tensor], raw_input_contents=[bytes(4)])
    with Connection(server) as connection:
        streams = [connection.open() for _ in range(FLOOD)]
        for stream in streams:
            connection.send(stream, frame(message.SerializeToString()))
        answers = [connection.answer(stream) for stream in streams]
    refused = [answer for answer in answers if answer.status == 8]
    assert {answer.status for answer in answers} == {0, 8}
    for answer in refused:
        assert 0 < int(answer.headers["grpc-retry-pushback-ms"]) < 60_000
        assert QUEUED.fullmatch(answer.message), answer.message
    assert_counted(server, "grpc", len(answers) - len(refused), len(refused))


def assert_counted(server: Server, protocol: str, answered: int, refused: int) -> None:
    """Each refusal under its reason, and none of them a run."""
    reading = metrics(server)
    assert reading.sum("flyball_faults_total", model="slow", kind="wait_too_long", stage="admit", blame="us") == refused
    for outcome, count in {"answered": answered, "refused": refused}.items():
        assert reading.sum("flyball_requests_total", model="slow", protocol=protocol, outcome=outcome) == count
    assert reading.sum("flyball_batch_rows_count", model="slow") == answered


def test_deadlines_that_the_queue_would_break_are_refused_as_a_wait_and_not_as_unreachable(
    begin: Callable[..., Server], model: Callable[[str], Path]
) -> None:
    """Alone each request would be in time; behind the others some would not, and for those coming again later helps."""
    server = begin("slow")
    inspected = command_line.flyball("inspect", model("slow"), "--json")
    deadline_ms = int(FLOOD / 2 * json.loads("\n".join(inspected.stdout))["latency"][0]["p50_us"] / 1000)
    request = json.dumps(json_request(row("slow", 1))).encode()
    with raws(server, FLOOD) as connections:
        for raw in connections:
            raw.send(raw_post("slow", request, f"X-Request-Timeout-Ms: {deadline_ms}\r\n"))
        replies = [reply for raw in connections if (reply := raw.reply())]
    refused = [reply for reply in replies if reply.status == 503]
    assert refused, [reply.status for reply in replies]
    for reply in refused:
        assert "retry-after" in reply.headers
        assert QUEUED.fullmatch(reply.error), reply.error
    assert metrics(server).sum("flyball_faults_total", kind="deadline_unreachable") == 0


def counting(trips: int) -> Arrays:
    return {"x": np.array([trips], np.int64)}


def counted(trips: int, priority: int | None = None) -> bytes:
    """A request to count so far."""
    more: dict[str, Any] = {} if priority is None else {"parameters": {"priority": priority}}
    return raw_post("looped", json.dumps(json_request(counting(trips), **more)).encode())


def has_answer(raw: Raw) -> bool:
    return bool(select.select([raw.socket], [], [], 0)[0])


def status(raw: Raw) -> int:
    reply = raw.reply()
    assert reply is not None
    return reply.status


@pytest.mark.parametrize("transport", ["HTTP", "gRPC"])
def test_a_client_that_leaves_while_it_is_queued_costs_no_run(
    begin: Callable[..., Server], clock: HeldClock, transport: str
) -> None:
    server = begin("looped", **PATIENCE)
    with Raw(server) as first, Raw(server) as leaves, Connection(server) as also_leaves:
        first.send(counted(ENDLESS))
        under_way(server)
        if transport == "HTTP":
            leaves.send(counted(ENDLESS))
            in_flight(server, 2)
            leaves.socket.close()
        else:
            tensor = {"name": "x", "datatype": "INT64", "shape": [1]}
            trips = [np.int64(ENDLESS).tobytes()]
            message = service_pb2.ModelInferRequest(model_name="looped", inputs=[tensor], raw_input_contents=trips)
            stream = also_leaves.open()
            also_leaves.send(stream, frame(message.SerializeToString()))
            in_flight(server, 2)
            also_leaves.reset(stream)
        until("it is counted", lambda: metrics(server).outcomes()["abandoned"] == 1 or None)
        clock.advance(RUN_MS_MAX)
        assert status(first) == 500
    assert settled(server) == {"received": 2, "answered": 0, "refused": 0, "failed": 1, "abandoned": 1}
    assert metrics(server).sum("flyball_batch_rows_count", model="looped") == 1


def test_a_request_that_can_no_longer_be_in_time_is_dropped_from_the_queue_and_costs_no_run(
    begin: Callable[..., Server], clock: HeldClock
) -> None:
    """Nobody could know at the door: how long a loop runs depends on its input."""
    server = begin("looped", **{**PATIENCE, "run_ms_max": 3 * WAITS_MS})
    body = json.dumps(json_request(counting(ENDLESS))).encode()
    with Raw(server) as first, Raw(server) as queued:
        first.send(counted(ENDLESS))
        under_way(server)
        queued.send(raw_post("looped", body, f"X-Request-Timeout-Ms: {WAITS_MS}\r\n"))
        in_flight(server, 2)
        # Its caller is told by the system's time; the first one's run cannot end before the test says so.
        clock.advance(WAITS_MS)
        dropped = queued.reply()
        clock.advance(2 * WAITS_MS)
        assert status(first) == 500
    assert dropped is not None
    late = "Deadline Exceeded: it passed, or could no longer be met, while the request waited for its turn"
    assert (dropped.status, dropped.error) == (504, late)
    assert settled(server) == {"received": 2, "answered": 0, "refused": 1, "failed": 1, "abandoned": 0}
    reading = metrics(server)
    assert reading.sum("flyball_faults_total", model="looped", kind="deadline_passed", stage="queue") == 1
    assert reading.sum("flyball_batch_rows_count", model="looped") == 1


@pytest.mark.parametrize(("sooner", "later"), [(1, None), (1, 3), (0, 3), (2, 3)])
def test_the_more_urgent_of_the_queued_requests_runs_first(
    begin: Callable[..., Server], clock: HeldClock, sooner: int, later: int | None
) -> None:
    server = begin("looped", **PATIENCE)
    with raws(server, 3) as (first, patient, urgent):
        first.send(counted(ENDLESS))
        under_way(server)
        patient.send(counted(ENDLESS, later))
        in_flight(server, 2)
        urgent.send(counted(SHORT, sooner))
        in_flight(server, 3)
        used = stop_run(server, clock, first)
        # Had the patient one's run gone first, it would not end before time moves again.
        assert status(urgent) == 200
        stop_run(server, clock, patient, used)


def stop_run(server: Server, clock: HeldClock, raw: Raw, since: float | None = None) -> float:
    """Lets a run end once it is under way, and reads its answer; gives the CPU time that was used by then."""
    under_way(server, since)
    clock.advance(RUN_MS_MAX)
    assert status(raw) == 500
    return cpu_ms(server)


@pytest.mark.parametrize("run", [1, 2], ids=["the second run", "the third run"])
def test_an_urgent_request_that_comes_during_a_run_goes_next(
    begin: Callable[..., Server], clock: HeldClock, run: int
) -> None:
    """Whatever was queued before it, and however the lane learns of it."""
    server = begin("looped", **PATIENCE)
    with raws(server, run + 2) as patient, Raw(server) as urgent:
        for place, raw in enumerate(patient):
            raw.send(counted(ENDLESS))
            in_flight(server, place + 1)
        used = None
        for over in patient[:run]:
            used = stop_run(server, clock, over, used)
        under_way(server, used)
        urgent.send(counted(SHORT, 1))
        in_flight(server, 3)
        clock.advance(RUN_MS_MAX)
        assert status(patient[run]) == 500
        # Had the last patient one gone first, its run would not end before time moves again.
        assert status(urgent) == 200
        assert not has_answer(patient[run + 1])


def test_within_a_class_the_earliest_deadline_runs_first(begin: Callable[..., Server], clock: HeldClock) -> None:
    server = begin("looped", **PATIENCE)
    body = json.dumps(json_request(counting(SHORT))).encode()
    with raws(server, 3) as (first, patient, urgent):
        first.send(counted(ENDLESS))
        under_way(server)
        patient.send(counted(ENDLESS))
        in_flight(server, 2)
        urgent.send(raw_post("looped", body, "X-Request-Timeout-Ms: 20000\r\n"))
        in_flight(server, 3)
        used = stop_run(server, clock, first)
        assert status(urgent) == 200
        stop_run(server, clock, patient, used)
