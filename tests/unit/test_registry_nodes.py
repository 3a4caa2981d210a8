"""What servers say, as reports and as events: one for each change, bounded; and none stays as if it were there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flyball.errors import NotFoundError, RegistryRefusedError
from flyball.registry.acts.interface import Actor
from flyball.registry.events.event import Event, time_of
from flyball.registry.events.log import EventLog
from flyball.registry.events.verify import verify
from flyball.registry.tables.database import Database
from flyball.registry.tables.nodes import CHANGES_AN_HOUR, GONE_US, WAITING, NodeReport, Nodes
from flyball.registry.tables.timeline import Timeline
from tests.support import registry_events

NODE, PLACE = "web-1", "production"
OLD, NEW = registry_events.digest("old"), registry_events.digest("new")
SECOND = 1_000_000


class Servers:
    """A registry under a clock, and one server that says what it is told to."""

    def __init__(self, folder: Path) -> None:
        self.database = Database.open(registry_events.new_sqlite(folder))
        self.now = 1_700_000_000 * SECOND
        self.log = EventLog(self.database, clock=lambda: self.now)
        self.nodes = Nodes(self.database, self.log)

    def says(self, *reports: NodeReport) -> list[Event]:
        return self.nodes.report(NODE, PLACE, reports, actor="host")

    def of(self, state: str = "applied", name: str = "fraud", **others: Any) -> NodeReport:
        """By default it serves version 2, as it should."""
        facts: dict[str, Any] = {"digest": NEW, "version": 2, "serving_version": 2, "serving_digest": NEW, "reason": ""}
        return NodeReport(
            node=NODE, environment=PLACE, deployment=name, generation=7, state=state, seen_at=self.now, **(facts | others)
        )

    def refuses(self, **others: Any) -> NodeReport:
        return self.of("refused", reason="bad: no", serving_version=1, serving_digest=OLD, **others)

    def at(self, at: int) -> list[tuple[str, int | None, bool]]:
        said = Timeline(self.database).at(time_of(at)).said
        return [(one.confirmation.state, one.confirmation.serving_version, one.gone_since is not None) for one in said]

    def wrote(self) -> list[Event]:
        return self.log.of(f"@nodes.{PLACE}")


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    made = Servers(tmp_path)
    monkeypatch.setattr("flyball.registry.tables.nodes.now_us", lambda: made.now)
    yield made
    assert verify(made.database).holds
    made.database.close()


def test_an_event_is_written_for_each_change_and_not_for_each_report(servers: Servers) -> None:
    for _ in range(5):
        servers.now += 10 * SECOND
        servers.says(servers.of())
    (event,) = servers.wrote()
    assert (event.kind, event.actor) == ("acknowledged", "host")
    assert (event.body["state"], event.body["serving"]["version"]) == ("applied", 2)
    servers.says(servers.refuses())
    servers.says(servers.refuses())
    assert [one.body["state"] for one in servers.wrote()] == ["applied", "refused"]


def test_a_refusal_says_what_should_be_served_and_what_is(servers: Servers) -> None:
    servers.says(servers.of(digest=OLD, version=1, serving_version=1, serving_digest=OLD))
    begun = servers.now
    servers.now += 60 * SECOND
    (event,) = servers.says(servers.refuses())
    assert (event.body["version"], event.body["digest"], event.body["reason"]) == (2, NEW, "bad: no")
    assert event.body["serving"] == {"version": 1, "digest": OLD, "since": begun}, "it has served that all the time"
    (report,) = servers.nodes.all()
    assert (report.version, report.serving_version, report.serving_since) == (2, 1, begun)


def test_what_served_at_a_time_is_what_the_server_said_then_and_not_what_was_placed(servers: Servers) -> None:
    servers.says(servers.of(digest=OLD, version=1, serving_version=1, serving_digest=OLD))
    first = servers.now
    servers.now += 60 * SECOND
    servers.says(servers.refuses())
    servers.now += 60 * SECOND
    servers.says(servers.of())
    servers.now += 60 * SECOND
    servers.says()
    assert servers.at(first - 1) == []
    assert servers.at(first) == [("applied", 1, False)]
    assert servers.at(first + 61 * SECOND) == [("refused", 1, False)]
    assert servers.at(first + 121 * SECOND) == [("applied", 2, False)]
    assert servers.at(first + 181 * SECOND) == []
    assert servers.log.rebuild() == 4
    assert servers.at(first + 61 * SECOND) == [("refused", 1, False)]


def test_what_a_server_has_not_judged_yet_is_shown_and_acknowledges_nothing(servers: Servers) -> None:
    servers.says(servers.of(digest=OLD, version=1, serving_version=1, serving_digest=OLD))
    assert servers.says(servers.of(WAITING, serving_version=1, serving_digest=OLD)) == []
    assert [one.state for one in servers.nodes.all()] == [WAITING]


def test_a_server_that_flaps_is_written_so_often_an_hour_and_the_rest_is_counted(servers: Servers) -> None:
    for turn in range(40):
        servers.now += SECOND
        servers.says(servers.refuses() if turn % 2 else servers.of())
    assert len(servers.wrote()) == CHANGES_AN_HOUR
    (report,) = servers.nodes.all()
    assert (report.state, report.unsaid) == ("refused", 40 - CHANGES_AN_HOUR), "what is shown is what it says now"
    servers.says(servers.of(name="churn"), servers.refuses())
    assert servers.wrote()[-1].body["name"] == "churn", "another name has its own budget"
    for _ in range(13):  # it goes on reporting, as it is
        servers.now += 299 * SECOND
        servers.says(servers.of(name="churn"), servers.refuses())
    (event,) = [one for one in servers.wrote() if one.body["unsaid"]]
    assert (event.body["state"], event.body["unsaid"]) == ("refused", 40 - CHANGES_AN_HOUR)
    assert {one.unsaid for one in servers.nodes.all()} == {0}


def test_words_of_a_reason_that_differ_each_time_are_no_change_and_any_letter_is_taken(servers: Servers) -> None:
    servers.says(servers.of("refused", reason="no\x1b[31m\x00 memory"))
    assert servers.says(servers.of("refused", reason="no other memory")) == []
    assert servers.wrote()[0].body["reason"] == "no [31m  memory"


def test_a_server_that_was_silent_is_gone_then_and_was_gone_later(servers: Servers) -> None:
    servers.says(servers.of())
    heard = servers.now
    servers.now += GONE_US + SECOND
    assert servers.at(servers.now) == [("applied", 2, True)]
    assert servers.at(heard + GONE_US) == [("applied", 2, False)]
    (event,) = servers.says(servers.of())
    assert event.body["silent_since"] == heard
    assert servers.at(heard + SECOND) == [("applied", 2, True)], "nobody had heard of it from then on"
    assert servers.at(servers.now) == [("applied", 2, False)]


def test_a_server_that_is_gone_can_be_forgotten_and_its_past_stays(servers: Servers) -> None:
    servers.says(servers.of(), servers.of(name="churn"))
    heard = servers.now
    with pytest.raises(RegistryRefusedError, match="is not gone") as refused:
        servers.nodes.forget(NODE, actor=Actor("ana"))
    assert refused.value.code == "node_not_gone"
    servers.now += GONE_US
    (event,) = servers.nodes.forget(NODE, actor=Actor("ana"), reason="taken down")
    assert (event.kind, event.body["silent_since"], event.reason) == ("forgotten", heard, "taken down")
    assert (servers.nodes.all(), servers.at(servers.now)) == ([], [])
    assert servers.at(heard) == [("applied", 2, False)] * 2
    with pytest.raises(NotFoundError):
        servers.nodes.forget(NODE, actor=Actor("ana"))
    servers.says(servers.of())
    assert servers.at(servers.now) == [("applied", 2, False)], "one that comes back is known again"
