"""What one peer may take: connections of an address, streams of a connection, resets; and what neighbours notice of it."""

import contextlib
import http.client
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h2.exceptions
import h2.settings
import pytest
import serving
import snapshots
from models import row
from raw_h2 import Connection
from serving import Server, until
from wire import Http, metrics

LIVE = "/inference.GRPCInferenceService/ServerLive"
EMPTY = b"\x00" * 5


@pytest.fixture
def limited(start: Callable[..., Server], model: Callable[[str], Path], tmp_path: Path) -> Callable[..., Server]:
    """flyballd with one model and the settings given."""

    def started(**settings: Any) -> Server:
        index = snapshots.write(tmp_path, 1, [snapshots.deployment("linear", model("linear"))])
        config = tmp_path / "config.json"
        config.write_text(json.dumps(settings))
        return start(*serving.flyballd(), "--snapshot", index, "--listen", "127.0.0.1:0", "--config", config)

    return started


def served(server: Server) -> bool | None:
    with Http(server) as connection, contextlib.suppress(OSError, http.client.HTTPException):
        return connection.get("/v2/health/live").status == 200
    return None


def test_an_address_with_all_its_connections_is_turned_away_at_once_and_counted(limited: Callable[..., Server]) -> None:
    server = limited(connections_per_address_max=3)
    with Http(server) as first, Http(server) as second, Http(server) as third:
        for connection in (first, second, third):
            connection.infer("linear", row("linear", 1))
        with socket.create_connection((server.host, server.port), 10) as surplus, contextlib.suppress(ConnectionResetError):
            assert surplus.recv(1) == b""
        assert "flyball_connections_refused_total 1" in first.get("/metrics").body.decode()
        third.connection.close()
        until("the place is free again", lambda: served(server))


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
