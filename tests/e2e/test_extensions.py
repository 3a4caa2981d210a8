"""Triton's extensions over plain HTTP: wrong verbs, paths and bodies, and who may not ask, each with its own answer."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import serving, snapshots
from tests.support.raw_h2 import Connection
from tests.support.serving import Server
from tests.support.wire import Http

POSTED = [
    "/v2/repository/index",
    "/v2/repository/ours/index",
    "/v2/repository/models/linear/load",
    "/v2/repository/models/linear/unload",
    "/v2/systemsharedmemory/region/r/register",
    "/v2/systemsharedmemory/region/r/unregister",
    "/v2/systemsharedmemory/unregister",
    "/v2/cudasharedmemory/region/r/register",
]
ASKED = [
    "/v2/models",
    "/v2/models/stats",
    "/v2/models/linear/stats",
    "/v2/models/linear/versions/1/stats",
    "/v2/models/linear/config",
    "/v2/models/linear/versions/1/config",
    "/v2/systemsharedmemory/status",
    "/v2/cudasharedmemory/status",
    "/openapi.json",
]
# What changes something for everybody, over HTTP and gRPC; the messages name a model or a region "r" that is not there.
CHANGES = [
    "/v2/repository/models/r/load",
    "/v2/repository/models/r/unload",
    "/v2/systemsharedmemory/region/r/register",
    "/v2/systemsharedmemory/region/r/unregister",
    "/v2/systemsharedmemory/unregister",
]
CHANGING_METHODS = {
    "RepositoryModelLoad": b"\x12\x01r",
    "RepositoryModelUnload": b"\x12\x01r",
    "SystemSharedMemoryRegister": b"\x0a\x01r",
    "SystemSharedMemoryUnregister": b"\x0a\x01r",
}
ALLOWED = {"allow_model_control": True, "allow_shared_memory": True}
REGION = {"key": "/flyball-nobody-made-this", "byte_size": 8}


@pytest.fixture(scope="module")
def server(model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("extensions")
    config = folder / "config.json"
    settings = {"listen": ["127.0.0.1:0"], "cors_origins": ["https://ours.example"], **ALLOWED}
    config.write_text(json.dumps(settings))
    index = snapshots.write(folder / "snapshot", 1, [snapshots.deployment("linear", model("linear"))])
    with serving.serving([*serving.flyballd(), "--snapshot", str(index), "--config", str(config)]) as running:
        yield running


@pytest.mark.parametrize("path", ASKED)
def test_what_is_asked_may_be_a_head_and_may_not_be_posted(server: Server, path: str) -> None:
    with Http(server) as connection:
        asked, head, posted = connection.get(path), connection.request("HEAD", path), connection.post(path, b"{}")
    assert (asked.status, asked.headers["content-type"]) == (200, "application/json")
    assert (head.status, head.body, head.headers["content-type"]) == (200, b"", "application/json")
    assert (posted.status, posted.headers["allow"]) == (405, "GET, HEAD")
    assert posted.error == "use GET, HEAD here"


@pytest.mark.parametrize("path", POSTED)
def test_what_changes_something_must_be_posted(server: Server, path: str) -> None:
    with Http(server) as connection:
        for method in ("GET", "HEAD", "PUT", "DELETE"):
            reply = connection.request(method, path)
            assert (reply.status, reply.headers["allow"]) == (405, "POST"), method


@pytest.mark.parametrize("path", ["/v2/trace/setting", "/v2/models/linear/trace/setting", "/v2/logging"])
def test_settings_that_are_not_offered_say_so_to_every_verb_that_triton_takes(server: Server, path: str) -> None:
    with Http(server) as connection:
        for reply in (connection.get(path), connection.post(path, b"{}")):
            assert reply.status == 501
            assert "settings" in reply.error
        assert connection.request("DELETE", path).headers["allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize(
    "path",
    [
        "/v2/repository",
        "/v2/repository/models/linear/reload",
        "/v2/systemsharedmemory/register",
        "/v2/models/linear/stats/more",
    ],
)
def test_other_paths_are_not_found(server: Server, path: str) -> None:
    with Http(server) as connection:
        for reply in (connection.get(path), connection.post(path, b"{}")):
            assert (reply.status, reply.error) == (404, "Not Found")


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        ("/v2/repository/index", b"[]", 400, "the body is not an index request: it must be a JSON object"),
        ("/v2/repository/index", b'{"ready": "yes"}', 400, "the body is not an index request: "),
        ("/v2/repository/index", b"{", 400, "the body is not an index request: "),
        ("/v2/repository/index", b" " * 65537, 413, "the body has 65537 bytes; an index request has at most 65536"),
        ("/v2/repository/models/linear/load", b'{"parameters": 1}', 400, "the body is not a load or unload request: "),
        ("/v2/repository/models/linear/unload", b"null", 400, "the body is not a load or unload request: "),
        ("/v2/systemsharedmemory/region/r/register", b"", 400, "a region to register needs 'key'"),
        ("/v2/systemsharedmemory/region/r/register", b'{"key": "k"}', 400, "a region to register needs 'byte_size'"),
        ("/v2/systemsharedmemory/region/r/register", b'{"key": 1}', 400, "the body is not a region to register: "),
    ],
)
def test_a_body_that_is_not_what_it_must_be_is_refused_with_its_reason(
    server: Server, path: str, body: bytes, status: int, text: str
) -> None:
    with Http(server) as connection:
        reply = connection.post(path, body)
    assert reply.status == status
    assert reply.error.startswith(text)


def test_the_models_are_listed_by_name_as_kserve_does(server: Server) -> None:
    with Http(server) as connection:
        reply = connection.get("/v2/models")
    assert (reply.status, reply.json) == (200, {"models": ["linear"]})


def test_with_tritons_statuses_a_body_above_the_limit_is_a_400(
    start: Callable[..., Server], model: Callable[[str], Path], tmp_path: Path
) -> None:
    statuses = {}
    for triton in (False, True):
        config = tmp_path / f"{triton}.json"
        settings = {"listen": ["127.0.0.1:0"], "body_bytes_max": 4096, "triton_statuses": triton}
        config.write_text(json.dumps(settings))
        with Http(start(*serving.flyball(), "serve", model("linear"), "--config", config)) as connection:
            statuses[triton] = connection.post("/v2/models/linear/infer", b" " * 4097).status
    assert statuses == {False: 413, True: 400}


def test_a_parameter_with_a_reserved_name_is_refused_in_tritons_words(server: Server) -> None:
    request = {"inputs": [], "parameters": {"triton_final_response": True}}
    with Http(server) as connection:
        reply = connection.post("/v2/models/linear/infer", request)
    assert reply.status == 400
    assert "parameter keys starting with 'triton_' are reserved for Triton usage" in reply.error


def test_an_index_of_what_is_ready_leaves_the_rest_out(server: Server) -> None:
    with Http(server) as connection:
        assert connection.post("/v2/repository/models/linear/unload", b"").status == 200
        ready = connection.post("/v2/repository/index", {"ready": True}).json
        assert connection.post("/v2/repository/models/linear/load", b"").status == 200
        assert ready == []
        assert connection.post("/v2/repository/index", b"").json == [{"name": "linear", "version": "1", "state": "READY"}]


@pytest.fixture
def known(start: Callable[..., Server], model: Callable[[str], Path], tmp_path: Path) -> Server:
    """A server with two callers, whose keys are their names; anonymous ones are served beside them."""
    callers = [
        {"name": name, "keys_sha256": [hashlib.sha256(name.encode()).hexdigest()], "in_flight_max": 1, "may": may}
        for name, may in (("reader", ["infer", "metrics"]), ("operator", ["control"]))
    ]
    callers.append({"name": "anonymous", "may": ["infer"]})
    (tmp_path / "callers.json").write_text(json.dumps({"callers": callers}))
    (tmp_path / "config.json").write_text(json.dumps({"listen": ["127.0.0.1:0"], **ALLOWED}))
    index = snapshots.write(tmp_path / "snapshot", 1, [snapshots.deployment("linear", model("linear"))])
    flags = ("--config", tmp_path / "config.json", "--callers", tmp_path / "callers.json")
    return start(*serving.flyballd(), "--snapshot", index, *flags)


def test_only_a_caller_with_control_changes_what_is_served(known: Server) -> None:
    body = json.dumps(REGION).encode()
    with Http(known) as connection:
        for path in CHANGES:
            sent = body if path.endswith("/register") else b"{}"
            for headers in ({"x-api-key": "reader"}, {}):
                reply = connection.request("POST", path, sent, headers)
                assert reply.status == 403, path
                assert '"control' in reply.error
            assert connection.request("POST", path, sent, {"x-api-key": "operator"}).status in (200, 400, 404), path
        assert connection.request("POST", "/v2/repository/index", b"", {"x-api-key": "reader"}).status == 200
    service = "/inference.GRPCInferenceService/"
    with Connection(known) as grpc:
        for method, message in CHANGING_METHODS.items():
            frame = b"\x00" + len(message).to_bytes(4, "big") + message
            assert grpc.call(frame, service + method, x_api_key="reader").status == 7, method
            assert grpc.call(frame, service + method).status == 7, method
            assert grpc.call(frame, service + method, x_api_key="operator").status in (0, 3, 5), method


@pytest.mark.parametrize("path", CHANGES)
def test_a_page_of_an_origin_that_is_not_listed_changes_nothing(server: Server, path: str) -> None:
    body = json.dumps(REGION).encode() if path.endswith("/register") else b"{}"
    with Http(server) as connection:
        for origin in ("https://theirs.example", "null"):
            reply = connection.request("POST", path, body, {"Origin": origin, "Content-Type": "text/plain"})
            assert reply.status == 403
            assert "cors_origins" in reply.error
        assert connection.request("POST", path, body, {"Origin": "https://ours.example"}).status in (200, 400, 404)
        asked = connection.request("POST", "/v2/repository/index", b"", {"Origin": "https://theirs.example"})
        assert asked.status == 200, "what changes nothing is answered, and the browser keeps it from the page"


def test_a_question_in_flight_counts_for_its_caller(known: Server) -> None:
    headers = {"x-api-key": "reader"}
    with Http(known) as first, Http(known) as second:
        first.connection.putrequest("POST", "/v2/repository/index")
        for name, value in {**headers, "content-length": "2", "expect": "100-continue"}.items():
            first.connection.putheader(name, value)
        first.connection.endheaders()
        # It says so when it begins to read the body, which does not come yet.
        assert first.connection.sock.recv(1024).startswith(b"HTTP/1.1 100 ")
        for path in ("/v2/models/stats", "/metrics"):
            assert second.request("GET", path, headers=headers).status == 429
        first.connection.send(b"{}")
        assert first.connection.getresponse().status == 200
        assert second.request("GET", "/v2/models/stats", headers=headers).status == 200
