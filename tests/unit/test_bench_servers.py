"""Servers to measure, found at an address or asked for a first answer: whatever they say, the reason is told in words."""

import json
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from flyball.bench.run import first_answer
from flyball.bench.servers import elsewhere
from flyball.errors import FlyballError, NotFoundError, UnavailableError, UnreachableError, UsageError

READY = "/v2/models/fraud/ready"
INPUTS = [{"name": "input", "datatype": "FP32", "shape": [1, 1], "data": [1.0]}]
RIGHT = [{"name": "y", "data": [0.5]}]


class Server6(ThreadingHTTPServer):
    address_family = socket.AF_INET6


@contextmanager
def answering(answers, kind=ThreadingHTTPServer, host="127.0.0.1"):
    """A server that answers each path with a status and a body; others with 404. Gives host:port."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body = answers.get(self.path, (404, b""))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer  # noqa: N815 - the names are http.server's

        def log_message(self, *_):
            pass

    with kind((host, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"{f'[{host}]' if ':' in host else host}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def saying(words):
    """A server that says the same to every connection, whatever it was asked, and closes it. Gives host:port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:  # closed: the test is over
                    return
                with connection:
                    connection.recv(65_536)
                    connection.sendall(words)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65_536):  # closing on unread bytes would be a reset
                        pass

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def statuses(**told):
    """Answers by the last part of a V2 path."""
    paths = {"ready": READY, "model": "/v2/models/fraud", "live": "/v2/health/live"}
    return {paths[name]: (status, b"") for name, status in told.items()}


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://h:1/v2", r"has a path \(/v2\)"),
        ("http://h:1/?a=b", r"has a query \(a=b\)"),
        ("http://h:1#top", r"has a fragment \(top\)"),
        ("http://[::1", "is not a server address: Invalid IPv6 URL"),
        ("http://h:port", "is not a server address: Port could not be cast"),
        ("http://h:99999", "is not a server address: Port out of range"),
        ("http://h:0", "is not a server address"),
        ("http://:8080", "is not a server address"),
        ("localhost:8080", "is not a server address"),
        ("ftp://h:1", "is not a server address"),
        ("https://h:1", "TLS is not supported: measure the plain port, or behind the proxy"),
    ],
)
def test_what_is_more_or_less_than_an_address_is_refused_by_name(url, words):
    with pytest.raises(UsageError, match=words) as caught:
        elsewhere(url, "fraud")
    assert url in caught.value.message
    assert caught.value.next_step == "write it as http://host:port or grpc://host:port"


@pytest.mark.parametrize("url", ["http://ann:pepper@h:1", "https://ann:pepper@h:1", "http://ann:pepper@h:1/v2"])
def test_a_password_is_refused_and_not_repeated(url):
    with pytest.raises(UsageError, match="user and password in the address") as caught:
        elsewhere(url, "fraud")
    assert "pepper" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_server_that_is_ready_is_measured_at_its_plain_address(scheme):
    with answering(statuses(ready=200)) as address:
        subject, told = elsewhere(f"{scheme}://{address}/", "fraud")
    assert (subject.name, subject.url) == (address, f"http://{address}")
    assert told.url == f"{scheme}://{address}/"


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_an_address_of_ipv6_is_one_like_any_other():
    try:
        with answering(statuses(ready=200), Server6, "::1") as address:
            subject, _ = elsewhere(f"http://{address}", "fraud", label="A")
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    assert (subject.name, subject.url) == ("A", f"http://{address}")
    assert address.startswith("[::1]:")


@pytest.mark.parametrize("status", [503, 500, 401, 302, 400])
def test_a_model_that_is_not_ready_is_told_with_the_status(status):
    with answering(statuses(ready=status)) as address, pytest.raises(UnavailableError) as caught:
        elsewhere(f"http://{address}", "fraud")
    assert caught.value.message == f"http://{address} returns {status} for {READY}: the model is not ready"


def test_a_model_that_is_not_ready_is_told_over_grpc_too():
    with answering(statuses(ready=503)) as address, pytest.raises(UnavailableError, match="returns 503"):
        elsewhere(f"grpc://{address}", "fraud")


def test_a_server_of_v2_without_the_model_is_refused():
    with answering(statuses(live=200)) as address, pytest.raises(NotFoundError) as caught:
        elsewhere(f"http://{address}", "fraud")
    assert caught.value.message == f"http://{address} does not serve the model 'fraud'"


@pytest.mark.parametrize(
    "told",
    [{}, {"ready": 405}, {"ready": 501}, {"live": 404}, {"model": 200, "live": 200}, {"live": 503}],
    ids=["no path", "no method", "not built", "no health", "no ready", "not live"],
)
def test_a_server_that_does_not_know_the_path_is_measured_all_the_same(told):
    with answering(statuses(**told)) as address:
        assert elsewhere(f"http://{address}", "fraud")[0].url == f"http://{address}"


def test_a_name_with_odd_characters_is_asked_for_as_it_is():
    with answering({"/v2/models/a%20b%2Fc/ready": (503, b"")}) as address, pytest.raises(UnavailableError, match="503"):
        elsewhere(f"http://{address}", "a b/c")


@pytest.mark.parametrize(
    "words", [b"", b"\x00\x00\x06\x04\x00\x00\x00\x00\x00", b"HTTP/1.1 505 No\r\nContent-Length: 0\r\n\r\n"]
)
def test_a_grpc_server_that_does_not_speak_http_1_is_measured(words):
    with saying(words) as address:
        assert elsewhere(f"grpc://{address}", "fraud")[0].url == f"http://{address}"


@pytest.mark.parametrize("words", [b"", b"220 mail.example ready\r\n"])
def test_a_server_that_does_not_speak_http_is_told_under_http(words):
    with saying(words) as address, pytest.raises(UnreachableError, match="accepts connections, but does not speak HTTP"):
        elsewhere(f"http://{address}", "fraud")


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_an_address_where_nobody_listens_is_told(scheme):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(UnreachableError, match="Connection refused"):
        elsewhere(f"{scheme}://127.0.0.1:{port}", "fraud")


def test_a_name_that_cannot_be_one_is_told():
    with pytest.raises(UnreachableError, match="cannot reach"):
        elsewhere("http://a..b:1", "fraud")


def asked(address, outputs, *, gone_s=0.0):
    """Ask for a first answer; with `gone_s` so late that there is only one try."""
    line = json.dumps({"inputs": INPUTS, "outputs": outputs}).encode()
    return first_answer(f"http://{address}", "fraud", line, started=time.perf_counter() - gone_s)


def inferring(status, body):
    return answering({"/v2/models/fraud/infer": (status, body if isinstance(body, bytes) else json.dumps(body).encode())})


@pytest.mark.parametrize("outputs", [RIGHT, None])
def test_a_right_answer_gives_its_time_and_without_outputs_every_answer_is_right(outputs):
    with inferring(200, {"outputs": RIGHT}) as address:
        assert asked(address, outputs) > 0


def test_nothing_is_compared_where_no_outputs_are_expected():
    with inferring(200, {"outputs": [{"name": "z", "data": ["words"]}]}) as address:
        assert asked(address, None) > 0


@pytest.mark.parametrize("data", [[0.25], [0.5, 0.5], ["words"], [[0.5]], [[0.5], [1, 2]], None, {"a": 1}, 0.5])
def test_a_wrong_answer_is_told_at_once(data):
    answer = {"outputs": [{"name": "y", "data": data}]}
    with inferring(200, answer) as address, pytest.raises(FlyballError, match=r"output 'y' is .*, expected \[0\.5\]"):
        asked(address, RIGHT)


@pytest.mark.parametrize("outputs", [RIGHT, None])
@pytest.mark.parametrize(
    "body",
    [b"<html>", b"\xff", b"", {}, [], 5, {"outputs": None}, {"outputs": 5}, {"outputs": [5]}, {"outputs": [{"name": "y"}]}],
    ids=repr,
)
def test_an_answer_without_outputs_is_told_at_once(body, outputs):
    with inferring(200, body) as address, pytest.raises(FlyballError, match="returned an answer without outputs") as caught:
        asked(address, outputs)
    assert caught.value.next_step == "check that it speaks the V2 protocol there"


def test_the_last_problem_is_told_when_the_time_is_up():
    with inferring(503, b"not yet") as address, pytest.raises(FlyballError, match="within 60 s: 503 b'not yet'"):
        asked(address, RIGHT, gone_s=60.0)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (b"220 mail.example ready\r\n", "not HTTP: BadStatusLine"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "IncompleteRead"),
    ],
)
def test_a_server_that_does_not_speak_http_is_told_when_the_time_is_up(words, told):
    with saying(words) as address, pytest.raises(FlyballError, match=told):
        asked(address, RIGHT, gone_s=60.0)
