"""Who is calling: keys over HTTP and gRPC, rates and requests at once, rotation, and servers that would serve nobody."""

import hashlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import serving, snapshots
from tests.support.onnx_models import row
from tests.support.raw_h2 import Connection, frame
from tests.support.serving import Server, until
from tests.support.wire import Http, Metrics, infer_path, json_request, parse_metrics

KEY = "fb_test"
ALL = ["infer", "metrics"]


def hashed(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


class Desk:
    """A server that serves known callers only, and its file."""

    def __init__(self, start: Callable[..., Server], model: Callable[[str], Path], folder: Path) -> None:
        self.file, self._start, self._folder = folder / "callers.json", start, folder
        documents = [snapshots.deployment(name, model(name)) for name in ("linear", "slow")]
        self._index = snapshots.write(folder / "snapshot", 1, documents)

    def write(self, *callers: dict[str, Any]) -> None:
        self.file.write_text(json.dumps({"callers": list(callers)}))

    def open(self, **settings: Any) -> Server:
        config = self._folder / "config.json"
        config.write_text(json.dumps({"allow_anonymous": False, **settings}))
        flags = ("--listen", "127.0.0.1:0", "--callers", self.file, "--config", config)
        return self._start(*serving.flyballd(), "--snapshot", self._index, *flags)


@pytest.fixture
def desk(start: Callable[..., Server], model: Callable[[str], Path], tmp_path: Path) -> Desk:
    made = Desk(start, model, tmp_path)
    made.write({"name": "checkout", "keys_sha256": [hashed(KEY)], "may": ALL})
    return made


def ask(connection: Http, key: str | None = KEY, model: str = "linear", header: str = "Authorization") -> Any:
    headers = {} if key is None else {header: f"Bearer {key}" if header == "Authorization" else key}
    return connection.post(infer_path(model), json_request(row(model, 1)), **headers)


def page(connection: Http) -> str:
    reply = connection.request("GET", "/metrics", headers={"x-api-key": KEY})
    assert reply.status == 200
    return reply.body.decode()


def counted(connection: Http) -> Metrics:
    return parse_metrics(page(connection))


def test_only_a_known_key_is_served_and_every_refusal_is_a_counted_walk(desk: Desk) -> None:
    server = desk.open()
    with Http(server) as connection:
        assert ask(connection).status == 200
        assert ask(connection, header="x-api-key").status == 200
        for key in (None, "wrong", ""):
            reply = ask(connection, key)
            assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
            assert "API key" in reply.error
        found = counted(connection)
    assert found.sum("flyball_caller_requests_total", caller="checkout", outcome="answered") == 2
    assert found.sum("flyball_caller_requests_total", caller="none", outcome="refused") == 3
    assert found.sum("flyball_faults_total", kind="unauthenticated") == 3
    assert found.sum("flyball_received_total") == 5
    assert found.sum("flyball_in_flight") == 0


@pytest.mark.parametrize("path", ["/v2", "/v2/models/linear", "/v2/models/linear/ready", "/metrics", "/nowhere"])
def test_everything_but_health_needs_a_caller(desk: Desk, path: str) -> None:
    server = desk.open()
    with Http(server) as connection:
        assert connection.get(path).status == 401
        assert connection.request("GET", path, headers={"x-api-key": KEY}).status in (200, 404)
        for open_ in ("/v2/health/live", "/v2/health/ready"):
            assert connection.get(open_).status == 200


def test_grpc_metadata_carries_the_key_and_health_needs_none(desk: Desk) -> None:
    server = desk.open()
    service = "/inference.GRPCInferenceService/"
    empty = frame(b"")
    with Connection(server) as connection:
        assert connection.call(empty, f"{service}ServerMetadata").status == 16
        assert connection.call(empty, f"{service}ModelInfer").status == 16
        assert connection.call(empty, f"{service}ServerMetadata", authorization=f"Bearer {KEY}").status == 0
        assert connection.call(empty, f"{service}ServerMetadata", x_api_key=KEY).status == 0
        for method in (f"{service}ServerLive", f"{service}ServerReady", "/grpc.health.v1.Health/Check"):
            assert connection.call(empty, method).status == 0


def test_a_stranger_learns_no_model_s_name_from_health(desk: Desk) -> None:
    server = desk.open()
    path = "/grpc.health.v1.Health/Check"
    with Connection(server) as connection:
        for service, stranger, caller in (
            (b"", 0, 0),
            (b"inference.GRPCInferenceService", 0, 0),
            (b"linear", 5, 0),
            (b"nobody", 5, 5),
        ):
            asked = frame(b"\x0a" + bytes([len(service)]) + service)
            assert connection.call(asked, path).status == stranger, service
            assert connection.call(asked, path, x_api_key="wrong").status == stranger, service
            assert connection.call(asked, path, x_api_key=KEY).status == caller, service


def test_a_stream_ends_at_the_next_message_once_its_key_is_taken_away(desk: Desk) -> None:
    server = desk.open()
    desk.write({"name": "checkout", "keys_sha256": [hashed(KEY), hashed("leaked")], "may": ALL})
    with Connection(server) as connection, Http(server) as http:
        until("the second key is taken", lambda: ask(http, "leaked").status == 200 or None)
        before = counted(http).sum("flyball_received_total")
        stream = connection.open("/inference.GRPCInferenceService/ModelStreamInfer", x_api_key="leaked")
        connection.send(stream, frame(b""), end=False)
        until("the message is read", lambda: counted(http).sum("flyball_received_total") == before + 1 or None)
        desk.write({"name": "checkout", "keys_sha256": [hashed(KEY)], "may": ALL})
        until("the key is refused", lambda: ask(http, "leaked").status == 401 or None)
        connection.send(stream, frame(b""), end=False)
        answer = connection.answer(stream)
    assert (answer.status, "API key" in answer.message) == (16, True)
    assert answer.body, "the first message was answered"


def test_a_caller_beyond_its_rate_is_told_when_to_come_again_and_others_are_not_held_back(desk: Desk) -> None:
    slow = {"name": "slow", "keys_sha256": [hashed("slow")], "requests_per_second": 1, "burst": 2, "may": ALL}
    desk.write({"name": "checkout", "keys_sha256": [hashed(KEY)], "may": ALL}, slow)
    server = desk.open()
    with Http(server) as connection:
        replies = [ask(connection, "slow") for _ in range(12)]
        refused = [reply for reply in replies if reply.status == 429]
        assert [reply.status for reply in replies[:2]] == [200, 200]
        assert refused, "twelve requests took ten seconds"
        assert all(int(reply.headers["retry-after"]) >= 1 for reply in refused)
        assert "caller 'slow'" in refused[0].error
        assert all(ask(connection).status == 200 for _ in range(5))
        found = counted(connection)
    assert found.sum("flyball_caller_requests_total", caller="slow", outcome="refused") == len(refused)
    with Connection(server) as grpc:
        answers = [grpc.call(b"\x00" * 5, x_api_key="slow") for _ in range(12)]
    limited = [answer for answer in answers if answer.status == 8]
    assert limited
    assert all(int(answer.headers["grpc-retry-pushback-ms"]) >= 1 for answer in limited)


def test_a_caller_has_so_many_requests_at_once_and_no_more(desk: Desk) -> None:
    few = {"name": "few", "keys_sha256": [hashed("few")], "in_flight_max": 1, "may": ALL}
    desk.write({"name": "checkout", "keys_sha256": [hashed(KEY)], "may": ALL}, few)
    server = desk.open()
    with Http(server) as first, Http(server) as second:
        held = threading.Thread(target=ask, args=(first, "few", "slow"))
        held.start()
        until("the slow request is in flight", lambda: counted(second).sum("flyball_in_flight") == 1 or None)
        assert ask(second, "few").status == 429
        assert ask(second).status == 200
        held.join(20)
        assert ask(second, "few").status == 200


def test_keys_are_rotated_without_a_restart_and_a_broken_file_changes_nothing(desk: Desk) -> None:
    server = desk.open()
    with Http(server) as connection:
        desk.write({"name": "checkout", "keys_sha256": [hashed(KEY), hashed("new")], "may": ALL})
        until("the new key is taken", lambda: ask(connection, "new").status == 200 or None)
        assert ask(connection).status == 200, "the old key is valid beside it"
        desk.file.write_text('{"callers": [{"name": "x"}]}')
        refused = 'flyball_callers_reloads_total{outcome="refused"}'
        until("the broken file is counted", lambda: f"{refused} 1" in page(connection) or None)
        assert ask(connection).status == 200
        desk.write({"name": "checkout", "keys_sha256": [hashed("new")], "may": ALL})
        until("the old key is refused", lambda: ask(connection).status == 401 or None)
        assert ask(connection, "new").status == 200
    assert server.log_line(lambda line: "the last one stays" in str(line))["level"] == "ERROR"


def test_anonymous_callers_are_served_on_loopback_beside_known_ones(desk: Desk) -> None:
    desk.write({"name": "checkout", "keys_sha256": [hashed(KEY)], "may": ALL}, {"name": "anonymous", "may": ["infer:lin*"]})
    server = desk.open(allow_anonymous=None)
    with Http(server) as connection:
        assert ask(connection, None).status == 200
        assert ask(connection, None, "slow").status == 404, "their entry does not name it"
        assert connection.get("/metrics").status == 403
        assert ask(connection).status == 200
        assert ask(connection, "wrong").status == 401, "who sends a key means to be known"
        found = counted(connection)
    assert found.sum("flyball_caller_requests_total", caller="anonymous", outcome="answered") == 1


def test_a_server_that_would_serve_nobody_does_not_start(desk: Desk, start: Callable[..., Server]) -> None:
    command = [*serving.flyballd(), "--snapshot", str(desk._index), "--listen", "0.0.0.0:0"]
    ending = serving.run(command)
    assert ending.code == 3
    assert "give --callers FILE, or --allow-anonymous to serve everybody" in ending.text
    start(*command, "--allow-anonymous").kill()
    start(*command, "--callers", desk.file).kill()


def test_a_broken_callers_file_ends_the_start_with_all_its_faults(desk: Desk) -> None:
    desk.file.write_text('{"callers": [{"name": "a b"}, {"name": "c", "uids": [-1]}], "x": 1}')
    command = [*serving.flyballd(), "--snapshot", str(desk._index), "--callers", str(desk.file)]
    ending = serving.run(command)
    assert ending.code == 3
    for path in ("callers[0].name", "callers[1].uids[0]", "x is 1"):
        assert path in ending.text
