"""Whatever mix of requests arrives, `received == answered + refused + failed + abandoned`, each counted as what it was."""

import json
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import serving
from tests.support.onnx_models import row
from tests.support.raw_h2 import Connection, frame
from tests.support.serving import Server
from tests.support.triton_clients import grpc_client, grpc_infer
from tests.support.wire import Http, Raw, infer_path, json_request, raw_infer, raw_post, settled


@pytest.fixture(scope="module")
def counted(model: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    config = tmp_path_factory.mktemp("counted") / "config.json"
    config.write_text('{"strict_json": true}')
    paths = [str(model(name)) for name in ("linear", "gather", "infinite", "slow")]
    command = [*serving.flyball(), "serve", *paths, "--listen", "127.0.0.1:0", "--config", str(config)]
    with serving.serving(command) as server:
        yield server


def answered_by_json(server: Server) -> None:
    with Http(server) as connection:
        connection.infer("linear", row("linear", 1))


def answered_by_binary(server: Server) -> None:
    with Http(server) as connection:
        connection.infer_binary("linear", row("linear", 1))


def answered_by_grpc(server: Server) -> None:
    with grpc_client(server) as client:
        grpc_infer(client, "linear", row("linear", 1))


def refused(path: str, body: bytes, status: int) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        with Http(server) as connection:
            assert connection.post(path, body).status == status

    return act


def refused_by_grpc(server: Server) -> None:
    with Connection(server) as connection:
        assert connection.call(frame(b"\xff\xff")).status == 3


def failed(model: str, inputs: np.ndarray, status: int) -> Callable[[Server], None]:
    def act(server: Server) -> None:
        with Http(server) as connection:
            assert connection.post(infer_path(model), json_request({"x": inputs})).status == status

    return act


def half_then_close(server: Server) -> None:
    """Sends half a body, says that no more will come, and waits until the server has understood."""
    with Raw(server) as raw:
        raw.send(raw_post("linear", b'{"inputs": [', length=500))
        raw.socket.shutdown(socket.SHUT_WR)
        raw.read_to_the_end()


def hang_up(server: Server) -> None:
    """Sends a whole request for a slow answer and leaves."""
    with Raw(server) as raw:
        raw.send(raw_infer("slow", row("slow", 1)))


# What each action must be counted as; `left` may end as answered or abandoned, `half` as abandoned or refused.
ACTIONS: dict[str, tuple[str, Callable[[Server], None]]] = {
    "json": ("answered", answered_by_json),
    "binary": ("answered", answered_by_binary),
    "grpc": ("answered", answered_by_grpc),
    "broken json": ("refused", refused(infer_path("linear"), b"{", 400)),
    "wrong shape": ("refused", refused(infer_path("linear"), json.dumps({"inputs": []}).encode(), 400)),
    "unknown model": ("refused", refused(infer_path("nobody"), b'{"inputs": []}', 404)),
    "broken grpc": ("refused", refused_by_grpc),
    "run fails": ("failed", failed("gather", np.array([[99]], np.int64), 500)),
    "cannot be said": ("failed", failed("infinite", np.zeros((1, 1), np.float32), 422)),
    "half": ("half", half_then_close),
    "left": ("left", hang_up),
}


@given(st.lists(st.sampled_from(sorted(ACTIONS)), min_size=1, max_size=12))
def test_every_request_is_counted_once_as_what_it_was(counted: Server, mix: list[str]) -> None:
    before = settled(counted)
    for name in mix:
        ACTIONS[name][1](counted)
    after = settled(counted, received_min=before["received"] + len(mix))
    change = {key: after[key] - before[key] for key in after}
    wanted = Counter(ACTIONS[name][0] for name in mix)
    assert change["received"] == len(mix)
    assert change["failed"] == wanted["failed"]
    assert wanted["answered"] <= change["answered"] <= wanted["answered"] + wanted["left"]
    assert wanted["refused"] <= change["refused"] <= wanted["refused"] + wanted["half"]
    assert change["abandoned"] == len(mix) - change["answered"] - change["refused"] - change["failed"]


def test_health_and_metrics_are_not_counted_as_requests(counted: Server) -> None:
    before = settled(counted)
    with Http(counted) as connection:
        for path in ("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/linear", "/metrics", "/nowhere"):
            connection.get(path)
    assert settled(counted) == before
