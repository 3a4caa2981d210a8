"""`verify` finds what someone with the database's file could do to it, and says where."""

from dataclasses import replace
from pathlib import Path

import pytest

from flyball.errors import UsageError
from flyball.registry.acts.registry import Registry
from flyball.registry.events.event import GENESIS, Head, hash_of
from flyball.registry.events.heads import heads_of, read_head, unlike
from flyball.registry.events.log import EventLog, row_of
from flyball.registry.events.verify import FINDINGS_MAX, verify
from flyball.registry.home import Home
from flyball.registry.tables.database import Database
from flyball.registry.tables.schema import events
from tests.support import registry_events
from tests.support.registry_events import approved, promoted, registered


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A registry with ten events in `registry.db`."""
    database, log = registry_events.opened(registry_events.new_sqlite(tmp_path))
    log.append_all([registered("fraud", number) for number in (1, 2, 3)])
    log.append_all([approved("fraud", 1), approved("fraud", 2, "di"), promoted("fraud", 1), promoted("fraud", 2)])
    log.append_all([registered("churn", 1), promoted("churn", 1, "staging"), promoted("fraud", 1)])
    assert verify(database).holds
    database.close()
    return tmp_path


def verdict(home: Path):
    database = Database.open(registry_events.sqlite_url(home))
    found = verify(database)
    database.close()
    return found


EDITS = {
    "an actor": ("UPDATE events SET actor = 'eve' WHERE sequence = 6", "event 6: was changed: its content"),
    "a reason": ("UPDATE events SET reason = 'worse' WHERE sequence = 6", "event 6: was changed: its content"),
    "a time": ("UPDATE events SET at = at + 1 WHERE sequence = 10", "event 10: was changed: its content"),
    "a time far away": ("UPDATE events SET at = 9e18 WHERE sequence = 10", "event 10: was changed"),
    "a kind": ("UPDATE events SET kind = 'rejected' WHERE sequence = 6", "event 6: was changed: its content"),
    "a kind that is none": ("UPDATE events SET kind = 'x' WHERE sequence = 6", "event 6: has the unknown kind 'x'"),
    "a version": (
        """UPDATE events SET body = replace(body, '"version":1', '"version":3') WHERE sequence = 6""",
        "event 6: was changed: its content",
    ),
    "a space in a body": ("UPDATE events SET body = body || ' ' WHERE sequence = 6", "event 6: was changed: its body"),
    "a body that is no JSON": ("UPDATE events SET body = '{' WHERE sequence = 6", "event 6: was changed: its body"),
    "a body that is nothing": (
        "UPDATE events SET body = x'00' WHERE sequence = 6",
        "event 6: was changed: a column has the wrong",
    ),
    "a hash": ("UPDATE events SET hash = previous WHERE sequence = 6", "event 6: was changed: its content"),
    "what it follows": (
        "UPDATE events SET previous = hash WHERE sequence = 6",
        "event 6: does not follow the previous event",
    ),
    "a revision": ("UPDATE events SET revision = 60 WHERE sequence = 7", "event 7: is revision 60 of fraud, and must be 7"),
    "the first event gone": ("DELETE FROM events WHERE sequence = 1", "event 2: follows a gap: 1 is missing"),
    "an event gone": ("DELETE FROM events WHERE sequence = 6", "event 7: follows a gap: 6 is missing"),
    "three events gone": ("DELETE FROM events WHERE sequence IN (4, 5, 6)", "event 7: follows a gap: 4 to 6 is missing"),
    "the last event gone": ("DELETE FROM events WHERE sequence = 10", "table placements: does not match the events of"),
    "two events in another order": (
        "UPDATE events SET sequence = CASE sequence WHEN 6 THEN -7 ELSE -6 END WHERE sequence IN (6, 7)",
        "event -7: follows a gap",
    ),
    "a table's row": ("UPDATE versions SET author = 'eve' WHERE number = 2", "table versions: does not match the events of"),
    "a table's row gone": ("DELETE FROM approvals WHERE number = 2", "table approvals: does not match the events of"),
    "a word for a time": (
        "UPDATE events SET at = 'noon' WHERE sequence = 6",
        "event 6: was changed: a column has the wrong type",
    ),
    "a word for a place": (
        "UPDATE events SET sequence = 'x' WHERE sequence = 6",
        "event x: was changed: a column has the wrong",
    ),
    "bytes in a table": ("UPDATE placements SET reason = x'00ff'", "table placements: does not match the events of"),
    "a row that nobody wrote": (
        "INSERT INTO spots VALUES ('fraud', 'champion', 'moon')",
        "table spots: does not match the events of fraud: 2 rows for 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_found_and_its_place_is_told(home, edit):
    statement, words = EDITS[edit]
    registry_events.past_the_triggers(home, statement)
    found = verdict(home)
    assert not found.holds
    assert any(words in str(finding) for finding in found.findings), [str(finding) for finding in found.findings]


def test_an_event_that_was_written_anew_with_its_hash_breaks_the_chain_behind_it(home):
    database, log = registry_events.opened(registry_events.sqlite_url(home))
    event = log.get(6)
    forged = replace(event, actor="eve")
    forged = replace(forged, hash=hash_of(forged))
    registry_events.past_the_triggers(home, f"UPDATE events SET actor = 'eve', hash = '{forged.hash}' WHERE sequence = 6")
    database.close()
    assert [finding.where for finding in verdict(home).findings if finding.where.startswith("event")] == ["event 7"]


def forge_the_rest(home: Path) -> None:
    """What the owner of the machine can do: change an event and write every one behind it anew, tables too."""
    database, log = registry_events.opened(registry_events.sqlite_url(home))
    chain = log.since(0)
    for place in range(5, 10):
        actor = "eve" if place == 5 else chain[place].actor
        changed = replace(chain[place], actor=actor, previous=chain[place - 1].hash)
        chain[place] = replace(changed, hash=hash_of(changed))
    registry_events.past_the_triggers(home, "DELETE FROM events")
    with database.writing() as connection:
        connection.execute(events.insert(), [row_of(event) for event in chain])
    EventLog(database).rebuild()
    database.close()


def test_a_chain_that_was_forged_whole_is_found_by_a_head_that_was_kept_elsewhere(home):
    Home.create(home)
    registry = Registry.open(home)
    heads = [event.head for event in registry.handle.log.since(0)]
    forge_the_rest(home)
    assert verdict(home).holds
    assert list(unlike(registry, [Head(0, GENESIS), *heads[:5]])) == []
    (finding,) = unlike(registry, [heads[2], heads[7]])
    assert finding.startswith("event 8: has another hash than the one stored elsewhere")
    registry.close()


def test_a_tail_that_was_cut_off_is_found_by_a_head_that_was_kept_elsewhere(home):
    Home.create(home)
    registry = Registry.open(home)
    log = registry.handle.log
    head = log.head()
    registry_events.past_the_triggers(home, "DELETE FROM events WHERE sequence > 7")
    log.rebuild()
    assert verdict(home).holds
    (finding,) = unlike(registry, [head])
    assert finding.startswith("event 10: is missing; its hash was stored elsewhere")
    registry.close()


def test_heads_are_read_as_people_and_journals_keep_them():
    digest = "ab" * 32
    assert read_head(f"7:{digest}") == read_head(f"7:sha256:{digest}") == Head(7, digest)
    records = [{"sequence": 7, "hash": f"sha256:{digest}"}, {"sequence": 7, "hash": f"sha256:{digest}", "generation": 2}]
    assert heads_of(records) == {Head(7, digest)}
    for text in ("", "7", f"x:{digest}", f"7:{digest[1:]}", f"7:{digest}\n"):
        with pytest.raises(UsageError, match="is not a head"):
            read_head(text)


def test_findings_are_counted_and_not_all_told(home):
    database, log = registry_events.opened(registry_events.sqlite_url(home))
    log.append_all([registered("churn", number) for number in range(2, 200)])
    registry_events.past_the_triggers(home, "UPDATE events SET actor = 'eve'")
    found = verify(database)
    database.close()
    assert len(found.findings) == FINDINGS_MAX
    assert found.more >= 208 - FINDINGS_MAX


def test_tables_that_were_changed_are_right_again_once_they_are_built_anew(home):
    registry_events.past_the_triggers(
        home, "UPDATE placements SET actor = 'eve'", "DELETE FROM names", "DELETE FROM versions"
    )
    assert not verdict(home).holds
    database, log = registry_events.opened(registry_events.sqlite_url(home))
    assert log.rebuild() == 10
    assert verify(database).holds
    database.close()
