"""Every way in which the admin API says no: the status, the code, the words, and what to do next."""

import asyncio
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest

from flyball import errors
from flyball.control.admin import bounds
from flyball.control.admin.bounds import BODY_BYTES_MAX, Bounds
from flyball.control.admin.callers import Gatekeeper
from flyball.control.admin.listener import Address, AdminListener
from flyball.control.admin.problems import status_of, unforeseen
from flyball.control.admin.uploads import AT_ONCE_MAX, PREFIX, Uploads
from flyball.registry.acts.interface import Actor
from flyball.registry.local import LocalRegistry
from tests.support import registry_homes

TAR = {"content-type": "application/x-tar"}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[registry_homes.Admin]:
    house = registry_homes.make(tmp_path_factory.mktemp("refusals"))
    with house.opened() as registry:
        house.approved(registry)
        registry.promote("fraud@1", "dev", actor=Actor("ada"))
        registry.register(house.package("fraud", 2), "fraud", actor=Actor("ada"))
    with registry_homes.admin(house, bytes_max=1 << 20) as running:
        yield running


CASES = [
    ("GET", "/v1/head", "", None, 401, "unauthenticated", "the request has no API key", "Authorization: Bearer KEY"),
    ("GET", "/v1/registry/nobody", "reader", None, 404, "name_not_found", "the registry has no 'nobody'", "registry list"),
    ("GET", "/v1/registry/fraud/versions/77", "reader", None, 404, "version_not_found", "fraud has no version", "fraud"),
    ("GET", "/v1/registry/fraud/versions/champion", "reader", None, 404, "version_not_found", "'champion'", "fraud"),
    ("GET", "/v1/registry/fraud/versions/2/release", "reader", None, 422, "signature_refused", "unsigned: ", "fraud@2"),
    ("GET", "/v1/registry/fraud/versions/2/bundle", "reader", None, 422, "signature_refused", "unsigned: ", "fraud@2"),
    ("GET", "/v1/registry/nobody/history", "reader", None, 404, "name_not_found", "no 'nobody'", "registry list"),
    ("GET", "/v1/registry?limit=0", "reader", None, 422, "invalid_request",
     "the request has 1 invalid part", "/openapi.json"),
    ("GET", "/v1/at?time=yesterday", "reader", None, 422, "invalid_request",
     "the request has 1 invalid part", "/openapi.json"),
    ("POST", "/v1/registry/fraud/promote", "deployer", {"version": "1"}, 422, "invalid_request",
     "1 invalid part", "openapi"),
    ("POST", "/v1/registry/fraud/promote", "deployer", b"{", 400, "malformed_request", "is not JSON", "one JSON object"),
    ("POST", "/v1/registry/fraud/promote", "deployer", {"version": "1", "environment": "mars"}, 404,
     "unknown_environment", "there is no environment 'mars'", "dev, staging, production"),
    ("POST", "/v1/registry/fraud/promote", "deployer", {"version": "2", "environment": "dev"}, 409,
     "not_signed", "fraud@2 is not signed", "flyball sign fraud@2"),
    ("POST", "/v1/registry/fraud/promote", "deployer", {"version": "1", "environment": "production"}, 409,
     "out_of_order", "has not served in staging", "--environment staging"),
    ("POST", "/v1/registry/fraud/promote", "deployer", {"version": "1", "environment": "staging", "break_glass": True}, 409,
     "reason_missing", "requires a reason", "--reason"),
    ("POST", "/v1/registry/fraud/rollback", "deployer", {"environment": "staging"}, 409,
     "not_placed", "staging serves no fraud", "flyball status fraud"),
    ("POST", "/v1/registry/fraud/alias", "deployer", {"alias": "production", "version": 1}, 409,
     "bad_alias", "is an environment", "flyball promote"),
    ("POST", "/v1/registry/fraud/retire", "deployer", {"version": "1"}, 409, "still_placed", "serves in dev", "rollback"),
    ("POST", "/v1/registry/fraud/revoke", "approver", {"version": "1", "reason": "leak"}, 409,
     "still_placed", "serves in dev", "rollback"),
    ("POST", "/v1/registry/fraud/sign", "deployer", {"version": "1", "bundle": {}, "release": {}}, 422,
     "signature_refused", "malformed: ", ""),
    ("POST", "/v1/registry/fraud/approve", "approver", {"version": "1", "signature": "A" * 96, "key": "0" * 64}, 422,
     "signature_refused", "unknown_key: ", "flyball trust add"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[f"{one[5]} {one[1]}" for one in CASES])
def test_a_refusal_has_its_status_its_code_its_words_and_the_next_step(
    api: registry_homes.Admin, case: tuple[Any, ...]
) -> None:
    method, path, role, body, status, code, words, then = case
    headers = {"content-type": "application/json"} if isinstance(body, bytes) else {}
    answer = api.ask(method, path, role=role, body=body, headers=headers)
    problem = answer.document
    assert (answer.status, problem["code"]) == (status, code), problem
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["type"] == f"urn:flyball:fault:{code}"
    assert problem["status"] == status
    assert words in problem["detail"]
    assert then in problem.get("next", "")
    assert problem["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v2", 404), ("PUT", "/v1/head", 405), ("GET", "/docs", 404)]
)
def test_what_is_not_offered_is_a_problem_of_http_itself(
    api: registry_homes.Admin, method: str, path: str, status: int
) -> None:
    answer = api.ask(method, path)
    assert (answer.status, answer.document["type"]) == (status, "about:blank")
    assert "GET /openapi.json" in answer.document["next"]


def test_every_fault_of_a_body_is_told_at_once_with_its_place(api: registry_homes.Admin) -> None:
    body = {"version": "../1", "environment": "", "candidate": {"share": 2}, "colour": "red"}
    problem = api.ask("POST", "/v1/registry/fraud/promote", role="deployer", body=body).document
    places = {fault["path"] for fault in problem["faults"]}
    assert places == {"body.version", "body.environment", "body.candidate.share", "body.colour"}


@pytest.mark.parametrize("name", ["..", "%2e%2e", "a%2fb", "x" * 129, "-x", "a b"])
def test_a_name_that_is_none_reaches_nothing(api: registry_homes.Admin, name: str) -> None:
    answer = api.ask("POST", f"/v1/registry/{name.replace(' ', '%20')}/retire", role="deployer", body={"version": "1"})
    assert answer.status in (404, 405, 422)


def test_a_key_that_was_taken_back_opens_nothing_from_then_on(api: registry_homes.Admin) -> None:
    with api.house.opened() as registry:
        key = registry.add_key("leaver", ["reader"], actor=Actor("owner"))
        assert api.ask("GET", "/v1/whoami", key=key).document == {"name": "leaver", "roles": ["reader"]}
        registry.remove_key("leaver", actor=Actor("owner"))
    answer = api.ask("GET", "/v1/whoami", key=key)
    assert (answer.status, answer.document["detail"]) == (401, "the API key is unknown or was removed")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("authorization", ["Basic eDp5", "Bearer", "Bearer  ", "bearer " + "x" * 5000, "Bearer fb_\xff"])
def test_what_is_no_key_is_a_stranger(api: registry_homes.Admin, authorization: str) -> None:
    assert api.ask("GET", "/v1/head", headers={"authorization": authorization}).status == 401


def test_keys_are_kept_as_hashes_only(api: registry_homes.Admin) -> None:
    stored = b"".join(path.read_bytes() for path in api.house.home.rglob("*") if path.is_file())
    for key in api.house.tokens.values():
        assert key.encode() not in stored


def test_a_body_that_is_too_large_is_not_read_to_its_end(api: registry_homes.Admin) -> None:
    answer = api.ask("POST", "/v1/registry/fraud/promote", role="deployer", body={"version": "1" * BODY_BYTES_MAX})
    assert (answer.status, answer.document["code"]) == (413, "body_too_large")


def test_an_upload_beyond_the_limit_leaves_nothing_behind(api: registry_homes.Admin) -> None:
    before = sorted(api.house.folder.iterdir())
    for body, headers in ((b"x" * ((1 << 20) + 1), TAR), (iter([b"x" * (1 << 19)] * 3), TAR)):
        answer = api.ask("POST", "/v1/registry/fraud/register", role="deployer", body=body, headers=headers)
        assert (answer.status, answer.document["code"]) == (413, "body_too_large")
        assert "--upload-gib-max" in answer.document["next"]
    assert sorted(api.house.folder.iterdir()) == before


@pytest.mark.parametrize(
    ("content", "status", "code", "words"),
    [
        (b"", 422, "malformed_package", "the body is not a tar"),
        (b"no tar at all" * 100, 422, "malformed_package", "the body is not a tar"),
    ],
    ids=["nothing", "text"],
)
def test_an_upload_that_is_no_package_is_refused(
    api: registry_homes.Admin, content: bytes, status: int, code: str, words: str
) -> None:
    answer = api.ask("POST", "/v1/registry/fraud/register", role="deployer", body=content, headers=TAR)
    assert (answer.status, answer.document["code"]) == (status, code)
    assert words in answer.document["detail"]


def test_an_upload_of_another_kind_is_refused_by_its_kind(api: registry_homes.Admin) -> None:
    for path in ("/v1/registry/fraud/register", "/v1/import"):
        answer = api.ask("POST", path, role="deployer", body=b"{}", headers={"content-type": "application/json"})
        assert (answer.status, answer.document["code"]) == (415, "unsupported_media")


def test_a_package_of_another_name_is_refused(api: registry_homes.Admin) -> None:
    body = tar({path.name: path.read_bytes() for path in api.house.package("other", 1).iterdir()})
    answer = api.ask("POST", "/v1/registry/fraud/register", role="deployer", body=body, headers=TAR)
    assert (answer.status, answer.document["code"]) == (422, "registry_refused")
    assert "its meta.json is of other" in answer.document["detail"]


def test_a_caller_s_own_request_id_is_kept_and_anything_else_is_replaced(api: registry_homes.Admin) -> None:
    assert api.ask("GET", "/live", headers={"x-request-id": "job-17.a"}).headers["x-request-id"] == "job-17.a"
    odd = api.ask("GET", "/live", headers={"x-request-id": "a b\t"}).headers["x-request-id"]
    assert len(odd) == 32


def test_no_more_uploads_at_once_than_there_are_places() -> None:
    uploads = Uploads()

    class Request:
        headers: ClassVar = {"content-type": "application/x-tar"}

        async def stream(self) -> Any:
            yield b"x"

    async def fill() -> errors.OverloadedError:
        async with AsyncExitStack() as stack:
            for _ in range(AT_ONCE_MAX):
                await stack.enter_async_context(uploads.received(Request(), "application/x-tar"))  # type: ignore[arg-type]
            with pytest.raises(errors.OverloadedError) as caught:
                async with uploads.received(Request(), "application/x-tar"):  # type: ignore[arg-type]
                    pass
        async with uploads.received(Request(), "application/x-tar"):  # type: ignore[arg-type]
            return caught.value

    full = asyncio.run(fill())
    assert (status_of(full), full.retry_after_s) == (503, 5.0)


def test_what_a_killed_server_left_is_cleared_and_what_is_on_its_way_is_not(tmp_path: Path) -> None:
    (tmp_path / f"{PREFIX}old").mkdir()
    (tmp_path / "artifacts").mkdir()
    now = (tmp_path / "artifacts").stat().st_mtime
    Uploads(tmp_path).clear(now)
    assert len(list(tmp_path.iterdir())) == 2
    Uploads(tmp_path).clear(now + 86_401)
    assert [path.name for path in tmp_path.iterdir()] == ["artifacts"]


def test_a_body_that_does_not_come_ends_the_wait() -> None:
    sent: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()

    async def never() -> Any:
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "headers": [], "path": "/v1/head", "method": "POST"}
    asyncio.run(Bounds(application, {}, unforeseen, chunk_wait_s=0.01)(scope, never, send))
    assert sent[0]["status"] == 408
    assert json.loads(sent[1]["body"])["code"] == "body_timeout"


def test_promotions_that_take_long_leave_room_for_a_rollback(
    api: registry_homes.Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, end = threading.Semaphore(0), threading.Event()

    def slow(self: LocalRegistry, *_: Any, **__: Any) -> Any:
        begun.release()
        end.wait(60)
        raise errors.GateRefusedError("too slow")

    monkeypatch.setattr(LocalRegistry, "promote", slow)
    body = {"version": "1", "environment": "dev"}
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(api.ask, "POST", "/v1/registry/fraud/promote", role="deployer", body=body) for _ in range(4)]
        try:
            assert all(begun.acquire(timeout=60) for _ in waiting)
            fifth = api.ask("POST", "/v1/registry/fraud/promote", role="deployer", body=body)
            assert (fifth.status, fifth.headers["retry-after"]) == (503, "10")
            back = api.ask("POST", "/v1/registry/fraud/rollback", role="deployer", body={"environment": "staging"})
            assert back.status == 409  # answered while they wait
        finally:
            end.set()
    assert [one.result().status for one in waiting] == [409] * 4


def test_once_the_body_is_there_nothing_bounds_the_wait_for_the_caller_to_hang_up(monkeypatch: pytest.MonkeyPatch) -> None:
    bounded: list[float] = []
    messages = iter([{"type": "http.request", "body": b"", "more_body": False}, {"type": "http.disconnect"}])

    async def wait_for(waiting: Any, seconds: float) -> Any:
        bounded.append(seconds)
        return await waiting

    async def application(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "http.request"
        assert (await receive())["type"] == "http.disconnect"

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        pass

    monkeypatch.setattr(bounds.asyncio, "wait_for", wait_for)
    scope = {"type": "http", "headers": [], "path": "/v1/head", "method": "POST"}
    asyncio.run(Bounds(application, {}, unforeseen, chunk_wait_s=7)(scope, receive, send))
    assert bounded == [7]


class Keeper:
    """Has no keys, and remembers what was refused."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str]] = []

    def keys(self) -> list[Any]:
        return []

    def refused(self, act: str, name: str, error: errors.FlyballError, actor: str) -> None:
        self.told.append((act, actor, error.message))


def test_questions_of_strangers_are_no_events() -> None:
    keeper = Keeper()
    with pytest.raises(errors.UnauthenticatedError):
        Gatekeeper(keeper).known(None, "read")
    assert keeper.told == []


def test_a_fault_of_ours_goes_to_the_log_and_not_to_the_caller(
    api: registry_homes.Admin, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(self: LocalRegistry, **_: Any) -> Any:
        raise RuntimeError("secret of the house")

    monkeypatch.setattr(LocalRegistry, "names", broken)
    answer = api.ask("GET", "/v1/registry", role="reader", headers={"x-request-id": "job-18"})
    assert (answer.status, answer.document["code"]) == (500, "unexpected")
    assert b"secret" not in answer.body
    assert answer.document["next"] == "the server's log has job-18"
    logged = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    assert any("secret of the house" in str(line.get("reason")) and line["request_id"] == "job-18" for line in logged)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.UsageError("m"), 400), (errors.UnauthenticatedError("m"), 401), (errors.ForbiddenError("m"), 403),
        (errors.NotFoundError("m"), 404), (errors.GateRefusedError("m"), 409), (errors.RegistryConflictError("m"), 409),
        (errors.RegistryRefusedError("m"), 422), (errors.ModelRefusedError("m"), 422),
        (errors.ArtifactRefusedError("m"), 422), (errors.RegistryUnavailableError("m"), 503),
        (errors.ArtifactsUnavailableError("m"), 503),
        (errors.DeadlineError("m"), 504), (errors.FlyballError("m"), 500), (errors.ServerFaultError("m"), 500),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)  # fmt: skip
def test_every_kind_of_error_has_one_status(error: errors.FlyballError, status: int) -> None:
    assert status_of(error) == status


@pytest.mark.parametrize("text", ["8100", "host:", ":8100", "127.0.0.1:99999", "127.0.0.1:x"])
def test_an_address_that_is_none_is_told(text: str) -> None:
    with pytest.raises(errors.UsageError, match="is not an address"):
        Address.read(text)


@pytest.mark.parametrize("text", ["0.0.0.0:8100", "10.0.0.1:8100", "[::]:8100", "example.com:8100"])
def test_other_machines_are_served_by_tls_only_unless_somebody_says_so(text: str) -> None:
    with pytest.raises(errors.UsageError, match="unencrypted") as caught:
        Address.read(text)
    assert "--tls-cert" in str(caught.value)
    assert Address.read(text, plain_beyond=True).port == 8100


def test_a_port_that_is_taken_is_told_before_anything_starts() -> None:
    first = AdminListener(_application(), Address.read("127.0.0.1:0"))
    first.start()
    try:
        taken = first.url.rpartition("/")[2]
        with pytest.raises(errors.RefusedError, match="cannot listen on"):
            AdminListener(_application(), Address.read(taken)).start()
    finally:
        first.stop()


def _application() -> Any:
    from fastapi import FastAPI

    return FastAPI()


def tar(files: dict[str, bytes]) -> bytes:
    """A plain tar of these files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def test_problems_are_json_and_nothing_else(api: registry_homes.Admin) -> None:
    answer = api.ask("GET", "/v1/registry/%00", role="reader")
    assert json.loads(answer.body)["status"] == answer.status


def test_a_refused_package_is_told_without_the_server_s_folders_and_the_history_has_none_either(
    api: registry_homes.Admin, capsys: pytest.CaptureFixture[str]
) -> None:
    body = tar(
        {**{path.name: path.read_bytes() for path in api.house.package("odd", 1).iterdir()}, "model.onnx": b"no model"}
    )
    answer = api.ask("POST", "/v1/registry/odd/register", role="deployer", body=body, headers=TAR)
    assert answer.status == 422
    history = api.ask("GET", "/v1/events", role="auditor").document
    for text in (json.dumps(answer.document), json.dumps(history)):
        assert "model.onnx" in text
        assert PREFIX not in text
        assert str(api.house.folder) not in text
    assert PREFIX in capsys.readouterr().err, "the server's own log says where it was"
