"""The chain of events on SQLite and on a real PostgreSQL: what is kept, who is refused, and that nothing can be changed."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from flyball.errors import RegistryConflictError, RegistryRefusedError
from flyball.registry.events.event import GENESIS, Draft, canonical, hash_of
from flyball.registry.events.log import EventLog
from flyball.registry.tables.database import Database
from flyball.registry.tables.projections import Projections
from tests.support import registry_events
from tests.support.registry_events import approved, promoted, registered


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path) -> Iterator[Database]:
    if request.param == "sqlite":
        url = registry_events.new_sqlite(tmp_path)
    else:
        url = request.getfixturevalue("postgres").new_database()
    opened = Database.open(url)
    yield opened
    opened.close()


@pytest.fixture
def log(database: Database) -> EventLog:
    return EventLog(database)


def test_every_event_names_the_hash_of_the_one_before(log):
    events = log.append_all([registered("fraud", 1), registered("churn", 1)])
    events.append(log.append("fraud", 1, "retired", {"version": 1}, actor="ana"))
    assert [event.sequence for event in events] == [1, 2, 3]
    assert [(event.name, event.revision) for event in events] == [("fraud", 1), ("churn", 1), ("fraud", 2)]
    assert [event.previous for event in events] == [GENESIS, events[0].hash, events[1].hash]
    assert [hash_of(event) for event in events] == [event.hash for event in events]
    assert log.head() == events[-1].head
    assert log.since(0) == events
    assert log.of("fraud") == [events[0], events[2]]
    assert log.of("fraud", after_revision=1) == [events[2]]
    assert log.latest("fraud", 1) == [events[2]]
    assert log.get(2) == events[1]


def test_a_new_registry_ends_at_nothing(log):
    assert (log.head().sequence, log.head().hash) == (0, GENESIS)
    assert log.revision("fraud") == 0
    with pytest.raises(RegistryRefusedError, match="no event 1"):
        log.get(1)


def test_a_writer_who_has_not_seen_the_newest_is_told_who_did_what(log):
    log.append_all([registered("fraud", 1), registered("fraud", 2)])
    log.append_all([replace(promoted("fraud", 2, actor="bo"), expected_revision=2)])
    with pytest.raises(
        RegistryConflictError, match=r"bo \(not authenticated\) promoted fraud@2 to production \(better\)"
    ) as refused:
        log.append_all([replace(promoted("fraud", 1, actor="di"), expected_revision=2)])
    assert refused.value.code == "registry_conflict"
    assert "flyball registry history fraud" in str(refused.value)
    assert log.revision("fraud") == 3


def test_refused_acts_are_kept_and_nobody_trips_over_them(log):
    log.append_all([registered("fraud", 1)])
    body = {"act": "promote", "code": "approvals_missing", "words": "it needs 2 approvals"}
    log.append("fraud", None, "refused", body, actor="eve")
    event = log.append("fraud", 1, "retired", {"version": 1}, actor="ana")
    assert event.revision == 3
    with pytest.raises(RegistryConflictError, match=r"ana \(not authenticated\) retired fraud@1"):
        log.append("fraud", 1, "retired", {"version": 1}, actor="bo")


def test_a_writer_who_expects_more_than_there_is_is_refused(log):
    log.append_all([registered("fraud", 1)])
    with pytest.raises(RegistryConflictError, match="has 1 events and 5 were expected"):
        log.append("fraud", 5, "retired", {"version": 1}, actor="ana")


def test_several_events_are_kept_together_or_not_at_all(log, database):
    log.append_all([registered("fraud", 1)])
    head = log.head()
    drafts = [registered("churn", 1), replace(promoted("fraud", 1), expected_revision=0)]
    with pytest.raises(RegistryConflictError):
        log.append_all(drafts)
    assert log.head() == head
    assert [row.name for row in Projections(database).newest()] == ["fraud"]


def test_a_clock_that_is_set_back_never_puts_an_event_before_its_forerunner(database):
    times = iter([1_000_000, 400_000, 2_000_000])
    log = EventLog(database, clock=lambda: next(times))
    events = [log.append_all([registered("fraud", number)])[0] for number in (1, 2, 3)]
    assert [event.at for event in events] == [1_000_000, 1_000_000, 2_000_000]


def test_a_name_that_differs_only_in_case_is_refused(log):
    log.append_all([registered("fraud", 1)])
    with pytest.raises(RegistryConflictError, match="Fraud differs only in case from fraud"):
        log.append_all([registered("Fraud", 1)])


def test_texts_of_every_script_come_back_as_they_were_written(log):
    reason = "größer als 0,5 – 日本語 🎯\nand a second line"
    draft = replace(registered("fraud", 1), reason=reason, actor="Zoë")
    event = log.append_all([draft])[0]
    assert log.get(1) == event
    assert (log.get(1).reason, log.get(1).actor) == (reason, "Zoë")


@pytest.mark.parametrize("statement", ["UPDATE events SET actor = 'eve'", "DELETE FROM events"])
def test_the_database_itself_refuses_to_change_events(log, database, statement):
    log.append_all([registered("fraud", 1)])
    with pytest.raises(Exception, match="append-only"), database.writing() as connection:
        connection.exec_driver_sql(statement)
    assert log.get(1).actor == "ana"


def test_sqlite_refuses_to_replace_an_event(tmp_path):
    database, log = registry_events.opened(registry_events.new_sqlite(tmp_path))
    log.append_all([registered("fraud", 1), approved("fraud", 1)])
    columns = "sequence, name, revision, kind, at, actor, authenticated, reason, body, previous, hash"
    forged = f"INSERT OR REPLACE INTO events SELECT {columns.replace('actor', repr('eve'))} FROM events WHERE sequence = 1"
    with pytest.raises(Exception, match="append-only"), database.writing() as connection:
        connection.exec_driver_sql(forged)
    database.close()


def test_postgresql_refuses_to_empty_the_table(postgres):
    database, log = registry_events.opened(postgres.new_database())
    log.append_all([registered("fraud", 1)])
    with pytest.raises(Exception, match="append-only"), database.writing() as connection:
        connection.exec_driver_sql("TRUNCATE events")
    database.close()


BAD = {
    "a name with a slash": (replace(registered("fraud", 1), name="a/b"), "is not a name"),
    "a name with a line's end": (replace(registered("fraud", 1), name="fraud\n"), "is not a name"),
    "no actor": (replace(registered("fraud", 1), actor=""), "actor"),
    "an actor with a NUL": (replace(registered("fraud", 1), actor="a\0b"), "actor"),
    "a reason with half a letter": (replace(registered("fraud", 1), reason="\ud800"), "reason"),
    "a reason without end": (replace(registered("fraud", 1), reason="x" * 5000), "reason"),
    "an unknown kind": (replace(registered("fraud", 1), kind="blessed"), "no event of kind 'blessed'"),
    "an unknown key": (registered("fraud", 1, colour="red"), "colour: no such key"),
    "a root that is no digest": (registered("fraud", 1, root="abc"), "root: is 'abc', allowed: sha256:"),
    "a version 0": (registered("fraud", 0), "version: is 0"),
    "an author with a NUL": (registered("fraud", 1, author="a\0b"), "author: is 'a\\x00b', allowed: a text of 1 to 256"),
    "evidence that is no JSON": (promoted("fraud", 1, evidence=[{"at": object()}]), "is not JSON"),
    "evidence that is no number": (promoted("fraud", 1, evidence=[{"p99": float("nan")}]), "is not JSON"),
    "too much evidence": (promoted("fraud", 1, evidence=[{"log": "x" * 300_000}]), "keep large evidence as an artifact"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_has_no_form_is_refused_before_anything_is_written(tmp_path, case):
    draft, words = BAD[case]
    database, log = registry_events.opened(registry_events.new_sqlite(tmp_path))
    with pytest.raises(RegistryRefusedError) as refused:
        log.append_all([draft])
    assert words in str(refused.value)
    assert log.head().sequence == 0
    database.close()


def test_all_faults_of_a_body_are_told_at_once(tmp_path):
    database, log = registry_events.opened(registry_events.new_sqlite(tmp_path))
    with pytest.raises(RegistryRefusedError) as refused:
        log.append("fraud", 0, "rolled_back", {"environment": "..", "version": "7"}, actor="ana")
    assert [fault.path for fault in refused.value.faults] == ["environment", "from", "version"]
    database.close()


def test_the_hash_is_over_canonical_json_as_the_reference_page_says():
    draft = Draft("fraud", "retired", {"version": 1}, "Zoë", "old", authenticated="key")
    from flyball.registry.events.event import sealed

    event = sealed(draft, sequence=7, revision=3, at=1_794_801_421_371_916, previous="ab" * 32)
    text = (
        '{"actor":"Zo\\u00eb","at":1794801421371916,"authenticated":"key","body":{"version":1},"kind":"retired","name":"fraud",'
        '"previous":"abababababababababababababababababababababababababababababababab","reason":"old","revision":3,"sequence":7}'
    )
    document = {key: value for key, value in event.document().items() if key not in ("hash", "at_us")}
    assert canonical({**document, "at": event.at}) == text
    import hashlib

    assert event.hash == hashlib.sha256(text.encode()).hexdigest()
    assert json.loads(text)["at"] == event.at
    assert event.document()["at"] == "2026-11-16T03:57:01.371916Z"
