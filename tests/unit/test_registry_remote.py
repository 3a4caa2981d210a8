"""A registry behind HTTP: errors come out as they went in, the key goes nowhere else, and acts are never repeated."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from flyball import errors
from flyball.control.admin.problems import problem_of, status_of
from flyball.errors import Fault, FlyballError, SignatureError
from flyball.registry.acts.interface import Actor
from flyball.registry.remote.problems import raised
from flyball.registry.remote.registry import RemoteRegistry
from tests.support import serving

ACTOR = Actor("nobody")


def every_error() -> list[FlyballError]:
    classes: list[type[FlyballError]] = [FlyballError]
    for kind in classes:
        classes += kind.__subclasses__()
    plain = [kind for kind in classes if kind is not SignatureError and kind.__module__ == "flyball.errors"]
    return [*(kind("what is wrong", next_step="do this") for kind in plain), SignatureError("expired", "it ended")]


@pytest.mark.parametrize("error", every_error(), ids=lambda error: type(error).__name__)
def test_an_error_comes_out_as_it_went_in(error: FlyballError) -> None:
    error.faults = [Fault("body.version", 7, "a text")]
    back = raised(status_of(error), json.dumps(problem_of(error, "id")).encode(), {})
    assert type(back) is type(error)
    assert (back.message, back.code, back.next_step) == (error.message, error.code, error.next_step)
    assert isinstance(error, SignatureError) or back.faults == error.faults
    assert getattr(back, "reason", None) == getattr(error, "reason", None)


def test_a_code_of_its_own_keeps_the_exit_code() -> None:
    error = errors.GateRefusedError("too early", code="out_of_order")
    back = raised(409, json.dumps(problem_of(error, "id")).encode(), {})
    assert (back.code, back.exit_code) == ("out_of_order", 4)


def test_a_server_that_is_overloaded_says_when_to_come_back() -> None:
    full = errors.OverloadedError("full")
    back = raised(503, json.dumps(problem_of(full, "id")).encode(), {"retry-after": "5"})
    assert isinstance(back, errors.OverloadedError)
    assert back.retry_after_s == 5.0


@pytest.mark.parametrize(("status", "exit_code"), [(502, 8), (418, 1)])
def test_an_answer_of_somebody_else_is_told_by_its_status(status: int, exit_code: int) -> None:
    for body in (b"<html>bad gateway</html>", b"[1]", b""):
        back = raised(status, body, {})
        assert (back.exit_code, str(status) in back.message) == (exit_code, True)


class Odd(BaseHTTPRequestHandler):
    """Answers as it is told, and remembers what came."""

    answer: ClassVar[tuple[int, dict[str, str], bytes]] = (200, {}, b"{}")
    came: ClassVar[list[tuple[str, str, str | None]]] = []
    hang_up: ClassVar[bool] = False

    def _reply(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.came.append((self.command, self.path, self.headers.get("authorization")))
        if self.hang_up:
            self.connection.close()
            self.close_connection = True
            return
        status, headers, body = self.answer
        self.send_response(status)
        for key, value in {**headers, "content-length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _reply  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def odd(
    status: int = 200, headers: dict[str, str] | None = None, body: bytes = b"{}", *, hang_up: bool = False
) -> Iterator[str]:
    Odd.answer, Odd.hang_up = (status, headers or {}, body), hang_up
    Odd.came.clear()
    with HTTPServer(("127.0.0.1", 0), Odd) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_the_key_does_not_follow_a_redirect() -> None:
    with odd(307, {"location": "http://127.0.0.1:1/elsewhere"}) as url, pytest.raises(FlyballError, match="307"):
        RemoteRegistry(url, "fb_key").head()
    assert Odd.came == [("GET", "/v1/head", "Bearer fb_key")]


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'"x"'])
def test_an_answer_that_is_no_document_is_told(body: bytes) -> None:
    with odd(body=body) as url, pytest.raises(FlyballError, match="the answer is no") as caught:
        RemoteRegistry(url, "fb_key").status()
    assert "is this the address of flyball admin?" in str(caught.value)


def test_an_act_whose_answer_is_lost_is_not_repeated_and_says_so() -> None:
    with odd(hang_up=True) as url, pytest.raises(errors.UnreachableError) as caught:
        RemoteRegistry(url, "fb_key").retire("fraud@1", actor=ACTOR)
    assert len(Odd.came) == 1
    assert caught.value.maybe_served
    assert "it is unknown whether it was done" in caught.value.message
    assert "flyball registry history" in str(caught.value)


def test_an_act_that_never_left_changed_nothing() -> None:
    with pytest.raises(errors.UnreachableError) as caught:
        RemoteRegistry(f"http://127.0.0.1:{serving.free_port()}", "fb_key").retire("fraud@1", actor=ACTOR)
    assert not caught.value.maybe_served
    assert "nothing was changed" in caught.value.message


def test_files_that_are_not_the_version_s_are_not_kept(tmp_path: Path) -> None:
    version = {
        "name": "fraud", "number": 1, "root": "sha256:" + "0" * 64, "kind": "model", "tier": "low", "author": "ada",
        "state": "registered", "registered_at": "2026-11-16T04:00:00Z", "signed_by": None, "approvals": [],
        "approvals_needed": 0, "placed": [], "aliases": [], "manifest": "sha256:" + "1" * 64, "meta": {}, "files": [],
        "environments": [], "not_before": None, "not_after": None,
    }  # fmt: skip
    with odd(body=json.dumps(version).encode()) as url, pytest.raises(errors.RefusedError, match="not a tar of a package"):
        RemoteRegistry(url, "fb_key").fetch("fraud@1", tmp_path / "look")
    assert not list(tmp_path.rglob("*.onnx"))


@pytest.mark.parametrize("url", ["ftp://host", "http://", "https://user@host", "https://host?x=1", "http://host#x"])
def test_what_is_no_address_is_told(url: str) -> None:
    with pytest.raises(errors.UsageError, match="is not a registry's address"):
        RemoteRegistry(url, "fb_key")


def test_a_key_is_not_sent_in_the_clear_to_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.UsageError, match="not encrypted") as caught:
        RemoteRegistry("http://registry.example", "fb_key")
    assert "https://" in str(caught.value)
    monkeypatch.setenv("FLYBALL_REGISTRY_PLAINTEXT", "allow")
    RemoteRegistry("http://registry.example", "fb_key").close()


def test_without_a_key_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLYBALL_REGISTRY_KEY", raising=False)
    with pytest.raises(errors.UnauthenticatedError) as caught:
        RemoteRegistry("http://127.0.0.1:1")
    assert "export FLYBALL_REGISTRY_KEY" in str(caught.value)
