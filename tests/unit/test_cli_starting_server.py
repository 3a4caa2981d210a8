"""`decide` and `predict` wait for a server that is starting or loading, and for nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from flyball.cli import starting_server
from flyball.errors import UnavailableError, UnreachableError
from tests.support.v2_server import Handler, V2Server

ROW = '{"amount": 12.5}'
DECIDED = {
    "id": "018f4e4e-0000-7000-8000-000000000000", "decision": "fraud", "outcome": "pass", "band": None, "score": 0.1,
    "reasons": [], "remedy": None, "route": "champion", "policy": "sha256:0", "models": [],
}  # fmt: skip


class LateServer(V2Server):
    """Has its port, and refuses connections until it is told to listen."""

    def server_activate(self) -> None:
        """Not yet."""

    def listen(self, *_: object) -> None:
        super().server_activate()


def unreachable(message: str, *, maybe_served: bool = False) -> UnreachableError:
    error = UnreachableError(message)
    error.maybe_served = maybe_served
    return error


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses; time passes only in them."""
    pauses: list[float] = []
    monkeypatch.setattr(starting_server, "sleep", pauses.append)
    monkeypatch.setattr(starting_server, "monotonic", lambda: sum(pauses))
    return pauses


def failing(error: UnavailableError) -> Callable[[], Any]:
    def call() -> None:
        raise error

    return call


@pytest.mark.parametrize("verb", ["decide", "predict"])
def test_a_server_that_starts_listening_later_answers(verb: str, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def decided(handler: Handler) -> None:
        handler.answer(200, json.dumps(DECIDED).encode())

    with LateServer() as server:
        server.metadata["inputs"] = [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]
        server.script.extend([decided] if verb == "decide" else [])
        monkeypatch.setattr(starting_server, "sleep", server.listen)
        code, out, errors = run(verb, "fraud", "--url", server.url, stdin=ROW if verb == "decide" else "[[1, 2]]")
    assert (code, errors) == (0, "")
    assert out


@pytest.mark.parametrize("verb", ["decide", "predict"])
def test_a_server_that_still_loads_is_asked_again(verb: str, run: Any, clock: list[float]) -> None:
    def loading(handler: Handler) -> None:
        handler.answer(503, b'{"error": "model \'fraud\' is not ready: it is being loaded; try again shortly"}')

    def decided(handler: Handler) -> None:
        handler.answer(200, json.dumps(DECIDED).encode())

    with V2Server() as server:
        server.metadata["inputs"] = [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]
        server.script.extend([loading, loading, decided] if verb == "decide" else [loading, loading])
        code, _, errors = run(verb, "fraud", "--url", server.url, stdin=ROW if verb == "decide" else "[[1, 2]]")
    assert (code, errors) == (0, "")
    assert len(clock) == 2


@pytest.mark.parametrize("words", ["no connection to http://h:1: connection refused", "no connection: No such file"])
def test_the_wait_for_a_server_that_does_not_start_has_an_end(words: str, clock: list[float]) -> None:
    with pytest.raises(UnreachableError, match=words):
        starting_server.once_ready(failing(unreachable(words)))
    assert starting_server.WAIT_S <= sum(clock) < starting_server.WAIT_S + 0.2


@pytest.mark.parametrize(
    "error",
    [
        unreachable("no connection to http://h: name or service not known"),
        unreachable("connection refused", maybe_served=True),
    ],
    ids=["unknown host", "perhaps served"],
)
def test_nothing_else_is_tried_again(error: UnreachableError, clock: list[float]) -> None:
    with pytest.raises(UnavailableError):
        starting_server.once_ready(failing(error))
    assert clock == []


def test_the_help_states_the_wait(run: Any) -> None:
    for verb in ("decide", "predict"):
        assert f"{starting_server.WAIT_S:.0f} s" in run(verb, "--help")[1]
