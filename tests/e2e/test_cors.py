"""Pages of other origins: nothing unless origins are configured, and then only those."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.support import serving, snapshots
from tests.support.serving import Server
from tests.support.wire import Http, infer_path, json_request

PAGE, OTHER = "https://page.example", "https://other.example"
BODY = json.dumps(json_request({"x": np.ones((1, 4), np.float32)})).encode()


@pytest.fixture
def begin(start: Callable[..., Server], model: Callable[[str], Path], tmp_path: Path) -> Callable[..., Server]:
    def begun(*origins: str) -> Server:
        index = snapshots.write(tmp_path, 1, [snapshots.deployment("linear", model("linear"))])
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"lanes": 1, "cors_origins": origins}))
        return start(*serving.flyballd(), "--snapshot", index, "--listen", "127.0.0.1:0", "--config", config)

    return begun


def preflight(server: Server, origin: str) -> tuple[int, dict[str, str]]:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,authorization"}
    with Http(server) as connection:
        reply = connection.request("OPTIONS", infer_path("linear"), headers={"Origin": origin, **asked})
    return reply.status, reply.headers


def test_without_configured_origins_nothing_is_said_of_them(strict: Server) -> None:
    with Http(strict) as connection:
        reply = connection.request("POST", infer_path("linear"), BODY, {"Origin": PAGE})
    assert reply.status == 200
    assert not [name for name in reply.headers if name.startswith("access-control")]
    status, headers = preflight(strict, PAGE)
    assert (status, headers["allow"]) == (405, "POST")


def test_a_listed_origin_may_ask_and_read_the_length_of_the_header(begin: Callable[..., Server]) -> None:
    server = begin(OTHER, PAGE)
    status, headers = preflight(server, PAGE)
    assert (status, headers["access-control-allow-origin"]) == (204, PAGE)
    assert "POST" in headers["access-control-allow-methods"]
    assert headers["access-control-allow-headers"] == "content-type,authorization"
    with Http(server) as connection:
        reply = connection.request("POST", infer_path("linear"), BODY, {"Origin": PAGE})
        refused = connection.request("POST", infer_path("nobody"), BODY, {"Origin": PAGE})
    assert (reply.status, refused.status) == (200, 404)
    for each in (reply, refused):
        assert each.headers["access-control-allow-origin"] == PAGE
        assert "Inference-Header-Content-Length" in each.headers["access-control-expose-headers"]
        assert each.headers["vary"] == "Origin"


def test_an_origin_that_is_not_listed_gets_no_leave(begin: Callable[..., Server]) -> None:
    server = begin(PAGE)
    status, headers = preflight(server, OTHER)
    assert status == 405
    assert "access-control-allow-origin" not in headers
    with Http(server) as connection:
        reply = connection.request("POST", infer_path("linear"), BODY, {"Origin": OTHER})
    assert "access-control-allow-origin" not in reply.headers
    assert reply.headers["vary"] == "Origin"


def test_a_star_lets_every_origin_in(begin: Callable[..., Server]) -> None:
    server = begin("*")
    status, headers = preflight(server, OTHER)
    assert (status, headers["access-control-allow-origin"]) == (204, "*")
