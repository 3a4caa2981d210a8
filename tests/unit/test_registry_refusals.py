"""Refused acts are events, and nobody fills the log with theirs: over HTTP and in the registry itself."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flyball.errors import FlyballError, ForbiddenError, RegistryUnavailableError
from flyball.registry.acts import refusals
from flyball.registry.acts.interface import Actor
from flyball.registry.acts.refusals import PER_HOUR_MAX, Refusals
from flyball.registry.events.log import EventLog
from tests.support import registry_homes
from tests.support.registry_events import new_sqlite, opened

TAR = {"content-type": "application/x-tar"}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    database, found = opened(new_sqlite(tmp_path))
    yield found
    database.close()


def refuse(kept: Refusals, times: int, actor: str = "reader", **said: Any) -> None:
    for _ in range(times):
        error = ForbiddenError("no")
        kept.write("promote", "fraud", error, words=said.pop("words", "no"), actor=Actor(actor), **said)
        assert error.recorded


def test_the_log_grows_by_so_many_an_hour_and_one_event_counts_the_rest(log: EventLog) -> None:
    now = [0.0]
    kept = Refusals(log, clock=lambda: now[0])
    refuse(kept, PER_HOUR_MAX + 240)
    assert log.head().sequence == PER_HOUR_MAX
    now[0] = 3600.0
    refuse(kept, 1)
    told = log.since(PER_HOUR_MAX)
    assert [event.body.get("left_out") for event in told] == [240, None]
    assert (told[0].actor, told[0].name, told[0].body["code"]) == ("reader", "@refused", "left_out")


def test_one_caller_s_hour_is_not_another_s(log: EventLog) -> None:
    kept = Refusals(log)
    refuse(kept, PER_HOUR_MAX + 1)
    refuse(kept, 1, "deployer")
    assert log.since(PER_HOUR_MAX)[0].actor == "deployer"


def test_a_count_that_cannot_be_written_is_kept(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Refusals(log)
    refuse(kept, PER_HOUR_MAX + 3)

    def away(*_: Any, **__: Any) -> Any:
        raise RegistryUnavailableError("the database is away")

    with monkeypatch.context() as patched:
        patched.setattr(log, "append", away)
        with pytest.raises(RegistryUnavailableError):
            kept.settle(now=True)
    kept.settle(now=True)
    kept.settle(now=True)
    assert [event.body["left_out"] for event in log.since(PER_HOUR_MAX)] == [3]


def test_letters_that_no_log_can_keep_do_not_hide_a_refusal(log: EventLog) -> None:
    refuse(Refusals(log), 1, words="fra\x00ud@1: no", reason="\x1b[2J")
    (event,) = log.since(0)
    assert (event.body["words"], event.reason) == ("fra\ufffdud@1: no", "\ufffd[2J")


def test_a_registry_that_is_closed_tells_what_it_left_out(tmp_path: Path) -> None:
    house = registry_homes.make(tmp_path)
    with house.opened() as registry:
        for _ in range(PER_HOUR_MAX + 5):
            with pytest.raises(FlyballError):
                registry.rollback("nobody", "production", actor=Actor("ada"))
        assert registry.history()[-1].body["code"] == "name_not_found"
    with house.opened() as registry:
        last = registry.history()[-1]
        assert (last.actor, last.body["left_out"]) == ("ada", 5)
        assert registry.verify(quick=True).findings == []


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[registry_homes.Admin]:
    house = registry_homes.make(tmp_path_factory.mktemp("refused"))
    with house.opened() as registry:
        house.approved(registry)
    with registry_homes.admin(house, bytes_max=1 << 20) as running:
        yield running


def events_after(api: registry_homes.Admin, sequence: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.ask("GET", f"/v1/events?after={sequence}", role="auditor").document["events"]
    return found


def head(api: registry_homes.Admin) -> int:
    sequence: int = api.ask("GET", "/v1/head", role="reader").document["sequence"]
    return sequence


MALFORMED = [
    ("promote", {"version": "1", "colour": "red"}, {}, 422, "invalid_request", "body.environment, body.colour"),
    ("promote", b"{", {"content-type": "application/json"}, 400, "malformed_request", "is not JSON"),
    ("promote", {"version": "1" * (65 << 10)}, {}, 413, "body_too_large", "larger than"),
    ("register", b"no tar", TAR, 422, "malformed_package", "the body is not a tar"),
    ("register", b"{}", {"content-type": "application/json"}, 415, "unsupported_media", "application/x-tar"),
    ("rollback", {"environment": "staging"}, {}, 409, "not_placed", "staging serves no fraud"),
]


@pytest.mark.parametrize("case", MALFORMED, ids=[f"{one[0]} {one[4]}" for one in MALFORMED])
def test_whatever_is_refused_of_a_known_key_is_one_event(api: registry_homes.Admin, case: tuple[Any, ...]) -> None:
    act, body, headers, status, code, words = case
    before = head(api)
    answer = api.ask("POST", f"/v1/registry/fraud/{act}", role="deployer", body=body, headers=headers)
    assert answer.status == status
    (event,) = events_after(api, before)
    assert (event["name"], event["actor"], event["body"]["act"]) == ("fraud", "deployer", act)
    assert event["body"]["code"] == code
    assert words in event["body"]["words"]


@pytest.mark.parametrize(("role", "status"), [("reader", 403), ("", 401)])
def test_who_may_not_is_told_so_before_the_body_is_looked_at(api: registry_homes.Admin, role: str, status: int) -> None:
    headers = {"content-type": "application/json"}
    answer = api.ask("POST", "/v1/registry/fraud/promote", role=role, body=b"{", headers=headers)
    assert answer.status == status


@pytest.mark.parametrize(("role", "status"), [("reader", 403), ("", 401)], ids=["a reader's key", "strangers"])
def test_nobody_fills_the_log_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str, status: int) -> None:
    monkeypatch.setattr(refusals, "PER_HOUR_MAX", 3)
    with registry_homes.admin(registry_homes.make(tmp_path)) as api:
        before = head(api)
        for _ in range(8):
            assert api.ask("POST", "/v1/registry/fraud/retire", role=role, body={"version": "1"}).status == status
        assert head(api) == before + 3
    with api.house.opened() as registry:
        assert registry.history()[-1].body["left_out"] == 5
