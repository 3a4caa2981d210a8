"""What one peer may take: connections of an address, streams of a connection, resets; and what neighbours notice of it."""

import contextlib
import hashlib
import http.client
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h2.exceptions
import h2.settings
import pytest

from tests.support import serving, snapshots
from tests.support.onnx_models import row
from tests.support.raw_h2 import INFER, Connection
from tests.support.serving import Server, until
from tests.support.wire import Http, Raw, json_request, metrics, raw_post

LIVE = "/inference.GRPCInferenceService/ServerLive"
GOAWAY = 7
EMPTY = b"\x00" * 5


@pytest.fixture
def limited(start: Callable[..., Server], model: Callable[[str], Path], tmp_path: Path) -> Callable[..., Server]:
    """flyballd with one model and the settings given."""

    def started(*listen: str, **settings: Any) -> Server:
        index = snapshots.write(tmp_path, 1, [snapshots.deployment("linear", model("linear"))])
        config = tmp_path / "config.json"
        config.write_text(json.dumps(settings))
        addresses = [flag for address in listen or ("127.0.0.1:0",) for flag in ("--listen", address)]
        return start(*serving.flyballd(), "--snapshot", index, *addresses, "--config", config)

    return started


def served(server: Server) -> bool | None:
    with Http(server) as connection, contextlib.suppress(OSError, http.client.HTTPException):
        return connection.get("/v2/health/live").status == 200
    return None


def outer_address() -> str:
    """This machine's address beyond loopback; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            pytest.skip("this machine has no address beyond loopback")
        return str(probe.getsockname()[0])


def test_an_address_with_all_its_connections_is_turned_away_at_once_and_counted(limited: Callable[..., Server]) -> None:
    server = limited(f"{outer_address()}:0", connections_per_address_max=3, allow_anonymous=True)
    with Http(server) as first, Http(server) as second, Http(server) as third:
        for connection in (first, second, third):
            connection.infer("linear", row("linear", 1))
        with socket.create_connection((server.host, server.port), 10) as surplus, contextlib.suppress(ConnectionResetError):
            assert surplus.recv(1) == b""
        assert "flyball_connections_refused_total 1" in first.get("/metrics").body.decode()
        third.connection.close()
        until("the place is free again", lambda: served(server))


def test_connections_of_this_machine_are_not_counted(limited: Callable[..., Server]) -> None:
    server = limited(connections_per_address_max=1)
    with Http(server) as first, Http(server) as second:
        for connection in (first, second):
            connection.infer("linear", row("linear", 1))
        assert "flyball_connections_refused_total 0" in first.get("/metrics").body.decode()


def test_a_listener_that_nobody_comes_to_keeps_no_place_from_another(limited: Callable[..., Server]) -> None:
    server = limited("127.0.0.1:0", "127.0.0.1:0", connections_max=1)
    ports = [server.port, int(server.also[0].rpartition(":")[2])]
    for port in ports * 2:
        # The last connection may not have given its place back yet: this one waits in the backlog until then.
        connection = http.client.HTTPConnection(server.host, port, timeout=10)
        connection.request("GET", "/v2/health/live")
        assert connection.getresponse().status == 200
        connection.close()


ASKED = b"GET /v2/health/live HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


def test_who_is_beyond_the_limit_waits_while_all_others_are_busy_and_is_served_later(limited: Callable[..., Server]) -> None:
    server = limited(connections_max=1)
    with Raw(server) as first:
        body = json.dumps(json_request(row("linear", 1))).encode()
        first.send(raw_post("linear", b"", headers="Expect: 100-continue\r\n", length=len(body)))
        assert first.socket.recv(12) == b"HTTP/1.1 100", "from here on it has a request"
        with socket.create_connection((server.host, server.port), 0.3) as second:
            second.sendall(ASKED)
            with pytest.raises(TimeoutError):
                second.recv(1)
            first.send(body)
            answer = b""
            while b"outputs" not in answer:
                answer += first.socket.recv(65536)
            assert b"HTTP/1.1 200" in answer, "a connection with a request is never evicted"
            second.settimeout(10)
            assert second.recv(12) == b"HTTP/1.1 200"


def test_at_the_limit_the_connection_that_was_idle_for_longest_makes_room(limited: Callable[..., Server]) -> None:
    server = limited(connections_max=2)
    with Http(server) as older, Http(server) as newer:
        for connection in (older, newer, older, newer):
            connection.infer("linear", row("linear", 1))
        with Http(server) as third:
            third.infer("linear", row("linear", 1))
            assert newer.get("/v2/health/live").status == 200
            assert older.connection.sock.recv(1) == b"", "it is closed"
            assert "flyball_connections_evicted_total 1" in newer.get("/metrics").body.decode()


def test_an_evicted_http_2_connection_is_told_goodbye(limited: Callable[..., Server]) -> None:
    server = limited(connections_max=1)
    with Connection(server) as idle:
        assert idle.call(EMPTY, LIVE).status == 0
        until("another one is served", lambda: served(server))
        received = b""
        while more := idle.socket.recv(65536):
            received += more
    kinds = []
    while received:
        kinds.append(received[3])
        received = received[9 + int.from_bytes(received[:3]) :]
    assert GOAWAY in kinds


def test_streams_of_all_connections_together_have_a_limit(limited: Callable[..., Server]) -> None:
    server = limited(streams_total_max=4)
    with Connection(server) as first, Connection(server) as second:
        for connection in (first, second):
            assert connection.call(EMPTY, LIVE).status == 0
        held = [first.open(LIVE) for _ in range(4)]
        until("they are open", lambda: opened(server) == 4 or None)
        assert second.answer(second.open(LIVE)).reset
        for stream in held:
            first.send(stream, EMPTY)
            assert first.answer(stream).status == 0
        assert second.call(EMPTY, LIVE).status == 0, "there is room again"
        assert metrics(server).sum("flyball_streams_refused_total") == 1


def opened(server: Server) -> float:
    return metrics(server).sum("flyball_streams_open")


def test_a_connection_gets_few_streams_until_a_known_caller_has_used_it(
    limited: Callable[..., Server], tmp_path: Path
) -> None:
    key, callers = "k" * 43, tmp_path / "callers.json"
    entry = {"name": "shop", "keys_sha256": [hashlib.sha256(key.encode()).hexdigest()]}
    callers.write_text(json.dumps({"callers": [entry]}))
    server = limited(callers=str(callers), allow_anonymous=False)
    with Connection(server) as stranger:
        streams = [stranger.open(INFER) for _ in range(17)]
        assert stranger.answer(streams[16]).reset
        known = stranger.open(INFER, x_api_key=key)
        further = [stranger.open(INFER, x_api_key=key) for _ in range(20)]
        for stream in (*further, known):
            stranger.send(stream, EMPTY)
            assert not stranger.answer(stream).reset


def test_streams_beyond_the_limit_are_refused_and_the_others_answered(limited: Callable[..., Server]) -> None:
    server = limited(streams_max=2)
    with Connection(server) as connection:
        assert connection.call(EMPTY, LIVE).status == 0
        assert connection.h2.remote_settings.max_concurrent_streams == 2
        # The library would keep the limit that it was told.
        connection.h2.remote_settings[h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS] = 100
        connection.h2.remote_settings.acknowledge()
        streams = [connection.open(LIVE) for _ in range(3)]
        assert connection.answer(streams[2]).reset
        connection.send(streams[0], EMPTY)
        assert connection.answer(streams[0]).status == 0


def test_rapid_resets_cost_their_sender_its_connection_and_nobody_else_anything(limited: Callable[..., Server]) -> None:
    server = limited()
    with Http(server) as neighbour:
        with Connection(server) as connection, contextlib.suppress(OSError, h2.exceptions.ProtocolError):
            while connection.socket.fileno() >= 0:
                # Many in one write, so that the server finds them waiting.
                for _ in range(200):
                    stream = connection.h2.get_next_available_stream_id()
                    fields = {":method": "POST", ":scheme": "http", ":authority": server.address, ":path": LIVE}
                    connection.h2.send_headers(stream, list(fields.items()))
                    connection.h2.reset_stream(stream)
                connection.flush()
        assert neighbour.infer("linear", row("linear", 1))
    until("nothing is in flight", lambda: metrics(server).sum("flyball_in_flight") == 0 or None)
