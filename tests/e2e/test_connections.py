"""What holds a connection and what does not: peers that say nothing, dawdle, or read slowly."""

import contextlib
import json
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.onnx_models import row
from tests.support.raw_h2 import Connection
from tests.support.serving import Server, until
from tests.support.wire import Http, metrics, raw_infer

IDLE_MS = 600


@pytest.fixture
def impatient(serve: Callable[..., Server], tmp_path: Path) -> Server:
    """A server that gives up on idle connections soon, and has room for few."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"idle_timeout_ms": IDLE_MS, "header_timeout_ms": IDLE_MS, "connections_max": 8}))
    return serve("linear", more=("--config", str(config)))


def closed_by_server(connection: socket.socket) -> bool:
    """Waits until the server closes; bytes that come before are its farewell."""
    connection.settimeout(10)
    with connection, contextlib.suppress(ConnectionResetError):
        while connection.recv(65536):
            pass
    return True


@pytest.mark.parametrize(
    "sent",
    [b"", b"P", b"PRI ", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"POST /v2", b"POST /v2 HTTP/1.1\r\nHost: localhost\r\n"],
)
def test_a_peer_that_stops_half_way_gives_its_place_back(impatient: Server, sent: bytes) -> None:
    held = [socket.create_connection((impatient.host, impatient.port)) for _ in range(8)]
    for connection in held:
        connection.sendall(sent)
    assert all(closed_by_server(connection) for connection in held)
    with Http(impatient) as connection:
        connection.infer("linear", row("linear", 1))


@pytest.fixture
def unhurried(serve: Callable[..., Server], tmp_path: Path) -> Server:
    """A server that keeps idle connections, and none that dawdles in a head."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"idle_timeout_ms": 3_600_000, "header_timeout_ms": IDLE_MS}))
    return serve("linear", more=("--config", str(config)))


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
HEADERS_WITHOUT_AN_END = bytes([0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82])


@pytest.mark.parametrize(
    "sent",
    [
        b"P",
        b"PRI ",
        PREFACE,
        PREFACE + SETTINGS[:5],
        PREFACE + SETTINGS + HEADERS_WITHOUT_AN_END,
        b"POST /v2 HTTP/1.1\r\nHo",
    ],
)
def test_what_a_peer_has_begun_must_end_within_the_header_timeout_however_its_bytes_come(
    unhurried: Server, sent: bytes
) -> None:
    with socket.create_connection((unhurried.host, unhurried.port), 10) as connection:
        connection.sendall(sent)
        connection.settimeout(0.2)
        for _ in range(200):
            try:
                if connection.recv(65536) == b"":
                    return
            except TimeoutError:
                with contextlib.suppress(OSError):
                    connection.sendall(b"\0" if sent.startswith(PREFACE) and len(sent) > 30 else b"")
            except ConnectionResetError:
                return
    raise AssertionError("it is still open")


def test_an_http_2_connection_that_has_said_hello_may_idle(unhurried: Server) -> None:
    with Connection(unhurried) as connection:
        connection.socket.settimeout(3 * IDLE_MS / 1000)
        while True:
            try:
                assert connection.socket.recv(65536), "it was closed"
            except TimeoutError:
                return


def test_an_idle_http_2_connection_is_closed(impatient: Server) -> None:
    with Connection(impatient) as connection:
        assert closed_by_server(connection.socket)


def test_grpc_without_http_2_is_told_what_it_needs(impatient: Server) -> None:
    with Http(impatient) as connection:
        headers = {"Content-Type": "application/grpc"}
        reply = connection.request("POST", "/inference.GRPCInferenceService/ServerLive", b"", headers)
    assert reply.status == 505
    assert "HTTP/2" in reply.error


def test_a_model_s_edges_and_series_do_not_change_with_what_is_recorded(serve: Callable[..., Server]) -> None:
    server = serve("linear", "slow")
    with Http(server) as connection:
        connection.infer("linear", row("linear", 1))
        connection.infer("slow", row("slow", 1))

    def edges(model: str) -> set[str]:
        samples = metrics(server).samples
        return {
            dict(labels)["le"]
            for name, labels in samples
            if name == "flyball_request_seconds_bucket" and dict(labels)["model"] == model
        }

    assert edges("linear") == edges("slow")
    assert len(edges("linear")) > 100


def test_a_reset_in_the_middle_of_many_requests_leaves_nothing_in_flight(impatient: Server) -> None:
    for seed in range(5):
        connection = socket.create_connection((impatient.host, impatient.port))
        connection.sendall(raw_infer("linear", row("linear", seed)) * 3)
        # Closing with a zero linger sends a reset.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    until("nothing is in flight", lambda: metrics(impatient).sum("flyball_in_flight") == 0 or None)
