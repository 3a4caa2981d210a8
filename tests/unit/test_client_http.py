"""The HTTP client against a real server: what travels, what is repeated, and when it gives up."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import flyball
from flyball import Client, errors
from tests.support.v2_server import LENGTH, V2Server, refusal

ROW = {"x": np.ones((1, 2), np.float32)}


@pytest.fixture
def server():
    with V2Server() as running:
        yield running


@pytest.fixture
def client(server):
    """It knows the model m, so that its first request is what the test is about."""
    with Client(server.url, deadline_ms=5000) as made:
        made.metadata("m")
        server.seen.clear()
        yield made


@pytest.fixture
def dead_url():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_arrays_of_several_types_come_back_equal(client):
    inputs = {
        "floats": np.array([[1.5, -0.0, np.inf]], np.float32),
        "words": np.array([["ä", ""]], dtype=object),
        "flags": np.array([True, False]),
        "half": np.array([0.1], np.float16),
    }
    answer = client.infer("m", inputs, id="7")
    assert list(answer) == list(inputs)
    for name, array in inputs.items():
        np.testing.assert_array_equal(answer[name], array)
        assert answer[name].dtype == array.dtype


def test_the_request_names_model_version_outputs_and_deadline(server, client):
    client.infer("a b", {"x": np.zeros(1), "y": np.zeros(1)}, version="3", outputs=["y"], id="i")
    assert server.seen[0][0] == "/v2/models/a%20b/versions/3"
    path, headers, body = server.seen[1]
    assert path == "/v2/models/a%20b/versions/3/infer"
    request = json.loads(body[: int(headers[LENGTH])])
    assert request["id"] == "i"
    assert request["parameters"] == {"binary_data_output": True}
    assert request["outputs"] == [{"name": "y", "parameters": {"binary_data": True}}]
    assert 0 < int(headers["x-request-timeout-ms"]) <= 5000


def test_an_answer_in_plain_json_is_read_too(server, client):
    outputs = [{"name": "y", "datatype": "FP32", "shape": [2], "data": [1, 2.5]}]
    server.script.append(lambda handler: handler.answer(200, json.dumps({"outputs": outputs}).encode()))
    assert client.infer("m", ROW)["y"].tolist() == [1.0, 2.5]


def test_values_take_the_datatype_of_the_metadata_which_is_asked_once(server):
    server.metadata["inputs"] = [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]
    with Client(server.url, deadline_ms=5000) as client:
        for values in ([[1, 2]], np.ones((1, 2))):
            assert client.infer("m", {"x": values})["x"].dtype == np.float32
    assert [path for path, *_ in server.seen] == ["/v2/models/m", "/v2/models/m/infer", "/v2/models/m/infer"]


def test_the_metadata_is_asked_once_by_threads_that_need_it_at_the_same_time(server):
    with Client(server.url, deadline_ms=50_000) as client, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: client.infer("m", ROW), range(8)))
    assert sorted(path for path, *_ in server.seen) == ["/v2/models/m", *["/v2/models/m/infer"] * 8]


def test_metadata_is_typed(server, client):
    server.metadata["outputs"] = [{"name": "y", "datatype": "INT64", "shape": [-1]}]
    metadata = client.metadata("m")
    assert metadata.versions == ("1",)
    assert metadata.outputs == (flyball.client.TensorMetadata("y", "INT64", (-1,)),)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.InvalidInputError),
        (404, errors.NotFoundError),
        (408, errors.DeadlineError),
        (413, errors.InvalidInputError),
        (500, errors.ServerFaultError),
        (503, errors.UnavailableError),
        (504, errors.DeadlineError),
    ],
)
def test_an_error_carries_the_servers_text_and_is_not_repeated(server, client, status, kind):
    server.script.append(refusal(status, "the text"))
    with pytest.raises(kind, match="the text"):
        client.infer("m", ROW)
    assert [path for path, *_ in server.seen].count("/v2/models/m/infer") == 1


def test_a_busy_server_is_asked_again_after_the_time_that_it_names(server, client):
    server.script.append(refusal(503, "full", Retry_After="0.05"))
    begun = time.monotonic()
    client.infer("m", ROW)
    assert time.monotonic() - begun >= 0.05
    assert len(server.seen) == 2


def test_a_server_that_stays_busy_is_asked_three_times(server, client):
    server.script.extend([refusal(503, "full", Retry_After="0")] * 5)
    with pytest.raises(errors.OverloadedError, match="full"):
        client.infer("m", ROW)
    assert len(server.seen) == 3


def test_no_repeat_is_begun_that_would_pass_the_deadline(server, client, monkeypatch):
    pauses = []
    monkeypatch.setattr("flyball.client.steps.time.sleep", pauses.append)
    server.script.append(refusal(503, "full", Retry_After="60"))
    with pytest.raises(errors.OverloadedError) as caught:
        client.infer("m", ROW, deadline_ms=5000)
    assert pauses == []
    assert caught.value.retry_after_s == 60
    assert len(server.seen) == 1


def test_a_connection_that_broke_after_sending_is_not_repeated(server, client):
    server.script.append(lambda handler: handler.connection.shutdown(socket.SHUT_RDWR))
    with pytest.raises(errors.UnreachableError, match="broke before the response") as caught:
        client.infer("m", ROW)
    assert caught.value.code == "unreachable"
    assert caught.value.maybe_served
    assert len(server.seen) == 1


def test_a_server_that_is_not_there_is_said_so_with_the_next_command(dead_url):
    with Client(dead_url, deadline_ms=5000) as client, pytest.raises(errors.UnreachableError) as caught:
        client.infer("m", ROW)
    assert "connection refused" in str(caught.value)
    assert "flyball serve" in str(caught.value)
    assert caught.value.exit_code == 5
    assert caught.value.code == "unreachable"
    assert not caught.value.maybe_served


def test_a_connection_that_cannot_be_made_is_tried_three_times_with_growing_pauses(dead_url, monkeypatch):
    pauses = []
    monkeypatch.setattr("flyball.client.steps.time.sleep", pauses.append)
    with Client(dead_url, deadline_ms=5000) as client, pytest.raises(errors.UnreachableError):
        client.infer("m", ROW)
    assert pauses == [0.05, 0.1]


def test_health_is_false_where_nobody_answers(dead_url):
    with Client(dead_url, deadline_ms=5000) as client:
        assert client.live() is False
        assert client.ready() is False
        assert client.ready("m") is False


def test_health_asks_the_protocols_own_paths(server, client):
    server.script.extend([refusal(200, ""), refusal(503, "draining"), refusal(200, "")])
    assert client.live() is True
    assert client.ready() is False
    assert client.ready("m", version="2") is True
    assert [path for path, *_ in server.seen] == ["/v2/health/live", "/v2/health/ready", "/v2/models/m/versions/2/ready"]


@pytest.mark.parametrize("part", ["head", "body", "trickle"])
def test_a_silent_or_trickling_server_cannot_stretch_the_deadline(server, client, part):
    over = threading.Event()

    def stall(handler):
        if part != "head":
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
        while part == "trickle" and not over.is_set():
            handler.wfile.write(b" ")
            over.wait(0.02)
        over.wait(60)

    # The server ends its answer when the client has given up, and not before.
    server.script.append(stall)
    with pytest.raises(errors.DeadlineError, match="no answer within 200 ms"):
        client.infer("m", ROW, deadline_ms=200)
    over.set()


def test_a_deadline_that_passes_in_the_middle_of_an_answer_does_not_take_a_connection_with_it(server):
    over = threading.Event()

    def stall(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        over.wait(60)

    with Client(server.url, connections_max=1) as client:
        for _ in range(2):  # with one connection, a place that is lost would be missed at the second call
            server.script.append(stall)
            with pytest.raises(errors.DeadlineError):
                client.infer("m", ROW, deadline_ms=100)
        over.set()
        answered = threading.Event()
        threading.Thread(target=lambda: (client.infer("m", ROW, deadline_ms=50_000), answered.set()), daemon=True).start()
        assert answered.wait(60)


def test_an_answer_with_another_id_is_the_servers_fault(server, client):
    server.script.append(lambda handler: handler.answer(200, b'{"id": "other", "outputs": []}'))
    with pytest.raises(errors.ServerFaultError, match="id"):
        client.infer("m", ROW, id="mine")


@pytest.mark.parametrize("body", [b"<html>", b"[]"])
def test_an_answer_that_is_not_v2_is_the_servers_fault(server, client, body):
    server.script.append(lambda handler: handler.answer(200, body))
    with pytest.raises(errors.ServerFaultError, match="not"):
        client.infer("m", ROW)


def test_threads_share_a_client_and_each_gets_its_own_answer(client):
    wrong = []

    def ask(number):
        for _ in range(20):
            answer = client.infer("m", {"x": np.full(3, number)}, id=str(number))
            if not (answer["x"] == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_connections_are_kept_alive(server):
    ports = []
    server.process_request = lambda request, address: (
        ports.append(address[1]),
        V2Server.process_request(server, request, address),
    )
    with Client(server.url, deadline_ms=5000) as client:
        for _ in range(3):
            client.infer("m", ROW)
    assert len(ports) == 1


@pytest.mark.parametrize("url", ["", "h", "https://h", "ftp://h", "http://"])
def test_what_is_no_address_is_refused(url):
    with pytest.raises(errors.UsageError, match="http://HOST:PORT, grpc://HOST:PORT or unix:/PATH"):
        Client(url)


def test_an_address_without_a_scheme_is_refused_with_the_one_that_was_meant():
    with pytest.raises(errors.UsageError, match=r"write {2}http://127.0.0.1:8080$"):
        Client("127.0.0.1:8080")


@pytest.mark.parametrize("scheme", ["http", "grpc"])
@pytest.mark.parametrize("rest", ["/v2", "/v2/models/m", "?a=1", "/#x"])
def test_an_address_with_more_behind_it_is_refused(scheme, rest):
    with pytest.raises(errors.UsageError, match="must not have a path") as caught:
        Client(f"{scheme}://h:1{rest}")
    assert repr(rest) in str(caught.value)


def test_a_slash_behind_the_address_is_taken(server):
    with Client(f"{server.url}/") as client:
        assert client.live()


@pytest.mark.parametrize("deadline_ms", [0, -1, float("nan"), float("inf"), "50", True, [1]])
def test_a_deadline_is_a_number_that_leaves_time(deadline_ms, client):
    with pytest.raises(errors.UsageError, match="deadline_ms: "):
        Client("http://h:1", deadline_ms=deadline_ms)
    with pytest.raises(errors.UsageError, match="deadline_ms: "):
        client.infer("m", ROW, deadline_ms=deadline_ms)


def test_numpys_numbers_are_deadlines_too(client):
    client.infer("m", ROW, deadline_ms=np.float32(5000))
    client.infer("m", ROW, deadline_ms=np.int64(5000))


def test_a_version_may_be_a_whole_number(server, client):
    client.metadata("m", version=3)
    client.ready("m", version=3)
    assert [path for path, *_ in server.seen] == ["/v2/models/m/versions/3", "/v2/models/m/versions/3/ready"]


def test_an_unknown_version_and_an_unknown_model_have_codes_of_their_own(server, client):
    server.script.extend(
        [
            refusal(404, "Request for unknown model: 'm' version 9 is not found; it has 1"),
            refusal(404, "Request for unknown model: 'm' is not found"),
        ]
    )
    for code in ("version_not_found", "model_not_found"):
        with pytest.raises(errors.NotFoundError) as caught:
            client.infer("m", ROW, version="9")
        assert caught.value.code == code


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "grpc://127.0.0.1:1"])
def test_a_closed_client_says_so(url):
    client = Client(url)
    client.close()
    client.close()
    for use in (lambda: client.infer("m", ROW), lambda: client.metadata("m"), client.live, client.ready):
        with pytest.raises(errors.UsageError, match="the client is closed"):
            use()


def test_no_inputs_are_refused_before_anything_is_sent(client, server):
    with pytest.raises(errors.InvalidInputError, match="no inputs"):
        client.infer("m", {})
    assert server.seen == []


def test_a_caller_s_key_comes_from_the_argument_or_the_environment(server, monkeypatch):
    monkeypatch.setenv("FLYBALL_API_KEY", "of the environment")
    for given, wanted in ((None, "of the environment"), ("given", "given")):
        with Client(server.url, api_key=given) as client:
            client.live()
        assert server.seen[-1][1]["Authorization"] == f"Bearer {wanted}"
    monkeypatch.delenv("FLYBALL_API_KEY")
    with Client(server.url) as client:
        client.live()
    assert "Authorization" not in server.seen[-1][1]
