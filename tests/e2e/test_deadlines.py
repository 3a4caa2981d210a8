"""Deadlines from each of their sources: what cannot be kept is refused at the door, before it costs anything."""

import json
import re
import socket
from collections.abc import Callable, Iterator

import pytest
from tritonclient.grpc import service_pb2

from tests.support import onnx_models, serving, snapshots
from tests.support.held_clock import HeldClock, held_clock
from tests.support.onnx_models import row
from tests.support.raw_h2 import Connection, frame
from tests.support.run_state import in_flight
from tests.support.serving import Server
from tests.support.wire import Raw, json_request, metrics, raw_post

# A run takes more than the one even on a fast machine, and less than the other on a slow one.
STEPS, SHORT_MS, LONG_MS = 12, 15, 60_000
UNREACHABLE = r"Deadline Exceeded: it is in [\d.]+ ms, but a run of model '\w+' takes [\d.]+ ms; allow more time"
HTTP_OF_GRPC = {0: 200, 3: 400, 4: 504}

Ending = tuple[int, str]
Ask = Callable[[Server, int], Ending]


@pytest.fixture(scope="module")
def clock() -> Iterator[HeldClock]:
    """However busy the machine is, no deadline passes while a request is read."""
    with pytest.MonkeyPatch.context() as patched, held_clock(patched) as held:
        yield held


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, clock: HeldClock) -> Iterator[Server]:
    """One slow model under three names: with no promise, with one that it cannot keep, and with one that it can."""
    folder = tmp_path_factory.mktemp("deadlines")
    slow = onnx_models.slow(folder, steps=STEPS)
    documents = [
        snapshots.deployment("slow", slow),
        snapshots.deployment("hasty", slow, slo={"deadline_ms": SHORT_MS}),
        snapshots.deployment("patient", slow, slo={"deadline_ms": LONG_MS}),
    ]
    index = snapshots.write(folder, 1, documents)
    command = [*serving.flyballd(), "--snapshot", str(index), "--listen", "127.0.0.1:0"]
    with serving.serving(command) as started:
        yield started


def http(
    server: Server, name: str = "slow", *, header: int | str | None = None, parameter: int | None = None, body: bytes = b""
) -> Ending:
    """A request by REST: the deadline in milliseconds, in its head and in its body. Gives status and error text."""
    parameters = {} if parameter is None else {"parameters": {"timeout": parameter * 1000}}
    head = "" if header is None else f"X-Request-Timeout-Ms: {header}\r\n"
    with Raw(server) as raw:
        raw.send(raw_post(name, body or json.dumps(json_request(row("slow", 1), **parameters)).encode(), head))
        reply = raw.reply()
    assert reply is not None
    return reply.status, reply.error if reply.status != 200 else ""


def asked(name: str = "slow", raw: bytes = bytes(4)) -> service_pb2.ModelInferRequest:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, 1]}
    return service_pb2.ModelInferRequest(model_name=name, inputs=[tensor], raw_input_contents=[raw])


def grpc(
    server: Server, name: str = "slow", *, header: str | None = None, parameter: int | None = None, raw: bytes = bytes(4)
) -> Ending:
    """The same by gRPC; the status is shown as HTTP's."""
    message = asked(name, raw)
    if parameter is not None:
        message.parameters["timeout"].int64_param = parameter * 1000
    with Connection(server) as connection:
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or the body comes 40 ms after its head
        answer = connection.call(frame(message.SerializeToString()), **({"grpc_timeout": header} if header else {}))
    assert answer.status is not None
    return HTTP_OF_GRPC[answer.status], answer.message


SOURCES: dict[str, Ask] = {
    "the header": lambda server, ms: http(server, header=ms),
    "the V2 parameter over REST": lambda server, ms: http(server, parameter=ms),
    "the V2 parameter over gRPC": lambda server, ms: grpc(server, parameter=ms),
    "grpc-timeout": lambda server, ms: grpc(server, header=f"{ms}m"),
    "the deployment, over REST": lambda server, ms: http(server, "hasty" if ms == SHORT_MS else "patient"),
    "the deployment, over gRPC": lambda server, ms: grpc(server, "hasty" if ms == SHORT_MS else "patient"),
}


@pytest.mark.parametrize("ask", SOURCES.values(), ids=SOURCES.keys())
def test_a_deadline_from_any_source_is_refused_when_a_run_takes_longer_and_kept_otherwise(server: Server, ask: Ask) -> None:
    status, text = ask(server, SHORT_MS)
    assert (status, bool(re.fullmatch(UNREACHABLE, text))) == (504, True), text
    assert ask(server, LONG_MS) == (200, "")


EARLIEST: dict[str, Callable[[Server], Ending]] = {
    "in the body, REST": lambda server: http(server, header=LONG_MS, parameter=SHORT_MS),
    "in the head, REST": lambda server: http(server, header=SHORT_MS, parameter=LONG_MS),
    "in the body, gRPC": lambda server: grpc(server, header=f"{LONG_MS}m", parameter=SHORT_MS),
    "in the head, gRPC": lambda server: grpc(server, header=f"{SHORT_MS}m", parameter=LONG_MS),
    "of the caller, against a patient deployment": lambda server: http(server, "patient", header=SHORT_MS),
}


@pytest.mark.parametrize("ask", EARLIEST.values(), ids=EARLIEST.keys())
def test_of_a_caller_s_deadlines_the_earliest_counts(server: Server, ask: Callable[[Server], Ending]) -> None:
    status, text = ask(server)
    assert (status, bool(re.fullmatch(UNREACHABLE, text))) == (504, True), text


OWN: dict[str, Callable[[Server], Ending]] = {
    "the header": lambda server: http(server, "hasty", header=LONG_MS),
    "the V2 parameter over REST": lambda server: http(server, "hasty", parameter=LONG_MS),
    "the V2 parameter over gRPC": lambda server: grpc(server, "hasty", parameter=LONG_MS),
    "grpc-timeout": lambda server: grpc(server, "hasty", header=f"{LONG_MS}m"),
}


@pytest.mark.parametrize("ask", OWN.values(), ids=OWN.keys())
def test_a_caller_who_brings_a_deadline_does_not_get_the_deployment_s(
    server: Server, ask: Callable[[Server], Ending]
) -> None:
    assert ask(server) == (200, "")


def test_a_timeout_of_zero_in_the_body_asks_for_no_deadline(server: Server) -> None:
    assert http(server, parameter=0) == (200, "")
    assert grpc(server, parameter=0) == (200, "")


# Each with a body that does not parse.
UNPARSED: dict[str, Ask] = {
    "REST": lambda server, ms: http(server, header=ms, body=b'{"inputs": ['),
    "gRPC": lambda server, ms: grpc(server, header=f"{ms}m", raw=bytes(3)),
}


@pytest.mark.parametrize("ask", UNPARSED.values(), ids=UNPARSED.keys())
def test_what_cannot_be_in_time_is_refused_before_its_body_is_parsed(server: Server, ask: Ask) -> None:
    before = metrics(server)
    status, text = ask(server, SHORT_MS)
    assert (status, bool(re.fullmatch(UNREACHABLE, text))) == (504, True), text
    assert ask(server, LONG_MS)[0] == 400
    after = metrics(server)
    refused = {"model": "slow", "kind": "deadline_unreachable", "stage": "admit"}
    assert after.sum("flyball_faults_total", **refused) - before.sum("flyball_faults_total", **refused) == 1
    parsed = {"model": "slow", "stage": "parse"}
    assert after.sum("flyball_stage_seconds_count", **parsed) - before.sum("flyball_stage_seconds_count", **parsed) == 1


def test_a_deadline_that_is_over_when_the_request_is_read_is_refused_as_passed(server: Server, clock: HeldClock) -> None:
    passed = "Deadline Exceeded: it passed before the request was read"
    assert http(server, header=0) == (504, passed)
    with Connection(server) as connection:
        stream = connection.open(grpc_timeout=f"{LONG_MS}m")
        in_flight(server, 1)
        clock.advance(LONG_MS)
        connection.send(stream, frame(asked().SerializeToString()))
        answer = connection.answer(stream)
    assert (answer.status, answer.message) == (4, passed)


def test_a_deadline_that_is_no_number_is_refused_with_the_name_of_its_header(server: Server) -> None:
    status, text = http(server, header="soon")
    assert (status, "x-request-timeout-ms" in text) == (400, True), text
    status, text = grpc(server, header="10x")
    assert (status, "grpc-timeout" in text) == (400, True), text


def test_no_refusal_cost_a_run(server: Server) -> None:
    """Over all that this file asked: as many runs as answers."""
    reading = metrics(server)
    for name in ("slow", "hasty", "patient"):
        answered = reading.sum("flyball_requests_total", model=name, outcome="answered")
        assert reading.sum("flyball_batch_rows_count", model=name) == answered > 0
    assert reading.sum("flyball_faults_total", kind="deadline_unreachable") > 0
