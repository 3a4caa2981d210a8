"""SIGTERM: ready turns false, requests whose head was read are answered, the process exits 0."""

import signal
import threading
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from tests.support import serving, snapshots
from tests.support.held_clock import HeldClock
from tests.support.onnx_models import Arrays, row
from tests.support.serving import Server, until
from tests.support.wire import Http, Raw, assert_same, from_json, metrics, raw_infer, raws

Reference = Callable[[str, Arrays], Arrays]
PROGRAMS = ["flyball", "flyballd"]
WINDOW_MS = 100


@pytest.fixture
def begin(start: Callable[..., Server], model: Callable[[str], Path], tmp_path: Path) -> Callable[..., Server]:
    """Either program with the same models on two lanes."""

    def begun(program: str, *names: str) -> Server:
        if program == "flyball":
            paths = [model(name) for name in names]
            return start(*serving.flyball(), "serve", *paths, "--listen", "127.0.0.1:0")
        index = snapshots.write(tmp_path, 1, [snapshots.deployment(name, model(name)) for name in names])
        return start(*serving.flyballd(), "--snapshot", index, "--listen", "127.0.0.1:0")

    return begun


class Load:
    """Keep-alive connections that ask until the server ends them, and count whole answers."""

    def __init__(self, server: Server, connections: int, reference: Reference) -> None:
        self.server, self.reference = server, reference
        self.answers = [0] * connections
        self.problems: list[BaseException] = []
        self.threads = [threading.Thread(target=self._ask, args=(place,)) for place in range(connections)]
        for thread in self.threads:
            thread.start()

    def _ask(self, place: int) -> None:
        inputs = row("linear", place)
        request, wanted = raw_infer("linear", inputs), self.reference("linear", inputs)
        try:
            with Raw(self.server) as raw:
                while True:
                    try:
                        raw.send(request)
                        reply = raw.reply()  # an answer cut short is an error here
                    except (BrokenPipeError, ConnectionResetError):
                        return  # closed between two requests: this one was never read
                    if reply is None:
                        return
                    if reply.status == 200:
                        assert_same(from_json(reply.json["outputs"]), wanted)
                    else:
                        assert reply.status == 503, reply.body
                    self.answers[place] += 1
        except BaseException as problem:
            self.problems.append(problem)

    def wait_until_busy(self) -> None:
        until("every connection was answered ten times", lambda: self.problems or min(self.answers) >= 10 or None)

    def join(self) -> None:
        for thread in self.threads:
            thread.join(15)
        assert not any(thread.is_alive() for thread in self.threads)
        assert not self.problems, self.problems[0]


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_request_whose_head_was_read_fails_when_the_server_is_terminated_under_load(
    begin: Callable[..., Server], reference: Reference, program: str
) -> None:
    server = begin(program, "linear")
    load = Load(server, 8, reference)
    load.wait_until_busy()
    server.signal(signal.SIGTERM)
    load.join()
    ending = server.wait()
    assert ending.code == 0, ending.text
    drained = server.log_line(lambda fields: fields.get("message") == "drained")
    assert drained["abandoned"] == 0
    assert drained["failed"] == 0
    assert drained["received"] == drained["answered"] + drained["refused"]
    assert sum(load.answers) == drained["answered"] + drained["refused"], "an answer was lost on its way"


@pytest.fixture
def begin_waiting(
    start: Callable[..., Server], model: Callable[[str], Path], tmp_path: Path, clock: HeldClock
) -> Callable[[str], Server]:
    """Either program with a model whose requests wait for company until the test advances the clock."""

    def begun(program: str) -> Server:
        batch = {"size": 64, "window_ms": WINDOW_MS}
        index = snapshots.write(tmp_path, 1, [snapshots.deployment("linear", model("linear"), batch=batch)])
        command = [*serving.flyball(), "serve", "--unsigned", "allow"] if program == "flyball" else serving.flyballd()
        return start(*command, "--snapshot", index, "--listen", "127.0.0.1:0")

    return begun


@pytest.mark.parametrize("program", PROGRAMS)
def test_requests_in_flight_are_answered_and_then_the_process_ends(
    begin_waiting: Callable[[str], Server], clock: HeldClock, reference: Reference, program: str
) -> None:
    """Meanwhile it is no longer ready."""
    server = begin_waiting(program)
    inputs = row("linear", 1)
    with raws(server, 20) as connections, Http(server) as probe:
        assert probe.get("/v2/health/ready").status == 200
        for raw in connections:
            raw.send(raw_infer("linear", inputs))
        until("all are in flight", lambda: metrics(server).sum("flyball_in_flight") == len(connections) or None)
        server.signal(signal.SIGTERM)
        assert until("ready is asked again", lambda: _ready(server)) != 200
        clock.advance(WINDOW_MS)
        for raw in connections:
            reply = raw.reply()
            assert reply is not None
            assert reply.status == 200, reply.body
            assert_same(from_json(reply.json["outputs"]), reference("linear", inputs))
    assert server.wait().code == 0


def _ready(server: Server) -> int | None:
    """The status of a ready probe that is not 200; 0 once nobody listens, as a load balancer would see it."""
    try:
        with Http(server) as connection:
            status = connection.get("/v2/health/ready").status
    except ConnectionError:
        return 0
    return None if status == 200 else status


def test_grpc_health_watchers_are_told_before_their_stream_ends(begin: Callable[..., Server]) -> None:
    server = begin("flyballd", "linear")
    with grpc.insecure_channel(server.address) as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch", request_serializer=None, response_deserializer=None)
        statuses = watch(b"", timeout=20)
        assert next(statuses) == b"\x08\x01"  # SERVING
        server.signal(signal.SIGTERM)
        assert next(statuses) == b"\x08\x02"  # NOT_SERVING
    assert server.wait().code == 0


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_an_idle_server_ends_at_once_and_without_noise(
    begin: Callable[..., Server], program: str, number: signal.Signals
) -> None:
    server = begin(program, "linear")
    with Http(server) as idle:
        assert idle.get("/v2/health/live").status == 200
        server.signal(number)
        ending = server.wait(5)
    assert ending.code == 0
    assert "Traceback" not in ending.text
    assert len(ending.stdout) == 1, "stdout carries the ready line and nothing else"


def test_a_second_run_takes_the_same_port(start: Callable[..., Server], model: Callable[[str], Path]) -> None:
    command = [*serving.flyball(), "serve", model("linear"), "--listen"]
    first = start(*command, "127.0.0.1:0")
    with Http(first) as connection:
        assert connection.get("/v2/health/ready").status == 200
        assert first.stop().code == 0
    second = start(*command, first.address)
    assert second.port == first.port


def test_a_port_that_is_taken_is_refused_with_its_address(
    serve: Callable[..., Server], model: Callable[[str], Path]
) -> None:
    first = serve("linear")
    ending = serving.run([*serving.flyball(), "serve", str(model("linear")), "--listen", first.address])
    assert ending.code != 0
    assert first.address in ending.text
    assert "Traceback" not in ending.text
    with Http(first) as connection:
        assert connection.get("/v2/health/ready").status == 200
