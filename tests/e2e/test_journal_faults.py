"""The journal under faults: a disk that is full, tails that are torn, bytes that changed, a receiver that is gone.

Fail-closed decisions are refused before anything is computed; others are answered, and stand in a gap record.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.reference import journal
from tests.support import journal_servers as journals
from tests.support import serving
from tests.support.decision_documents import Json, ask, decided, problem
from tests.support.journal_servers import ids_of, records
from tests.support.serving import Server, until
from tests.support.wire import metrics

Begin = Callable[..., Server]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with journals.small_disk(tmp_path / "disk", 6) as place:
        yield place


@pytest.fixture
def begin(start: Callable[..., Server], tmp_path: Path) -> Begin:
    def begun(place: Path, record: Json | None = None, **settings: object) -> Server:
        return start(*journals.command(tmp_path, place, record, **settings))

    return begun


def verified(place: Path) -> None:
    ending = journals.verify(place)
    assert ending.code == 0, ending.text


# A full disk.


# Room for the keys of subjects, and for no further segment.
KEYS_BYTES = 512 << 10


def test_a_full_disk_refuses_before_any_model_runs_and_recovers_by_itself(begin: Begin, disk: Path) -> None:
    place = disk / "journal"
    server = begin(place, {"durability": "sync", "when_unavailable": "fail_closed"})
    filler = journals.fill(disk / "filler", but_bytes=KEYS_BYTES)
    before = journals.until_full(server)
    reading = metrics(server)
    told = problem(ask(server, 100), 503)
    assert told["type"] == "urn:flyball:fault:record_failed"
    assert problem(journals.post_rows(server, 20), 503)["type"] == told["type"]
    after = metrics(server)
    runs = [one.sum("flyball_batch_rows_count") for one in (reading, after)]
    assert runs[0] == runs[1] > 0, "a model ran for decisions that were refused"
    filler.unlink()
    answer = until("it decides again", lambda: again if (again := ask(server, 100)).status == 200 else None)
    journals.adds_up(server)
    assert server.stop().code == 0
    assert before | ids_of([decided(answer)]) <= journal.ids(journals.kept(place)).keys()
    assert records(place, "gap") == []
    verified(place)


def test_of_a_request_that_the_disk_takes_in_part_the_rows_that_it_took_are_answered(begin: Begin, disk: Path) -> None:
    place = disk / "journal"
    server = begin(place, {"durability": "sync", "when_unavailable": "fail_closed"})
    until("the next segment is made ahead", lambda: (place / "segments" / "next").exists() or None)
    filler = journals.fill(disk / "filler", but_bytes=KEYS_BYTES)
    # Two segments hold less than three thousand records; the third thousand begins while there is still room.
    rows = [row for _ in range(3) for row in journals.ask_rows(server, 1000)]
    refused = [row["fault"]["type"] for row in rows if "fault" in row]
    assert set(refused) == {"urn:flyball:fault:record_failed"}
    assert len(refused) < 1000
    filler.unlink()
    journals.adds_up(server)
    assert server.stop().code == 0
    assert ids_of(rows) == journal.ids(journals.kept(place)).keys()
    assert records(place, "gap") == []
    verified(place)


def test_decisions_that_are_answered_without_a_record_stand_in_a_gap_record(begin: Begin, disk: Path) -> None:
    place = disk / "journal"
    server = begin(place, {"when_unavailable": "serve_unlogged"})
    filler = journals.fill(disk / "filler", but_bytes=KEYS_BYTES)
    before = journals.until_full(server)
    unlogged = ids_of(journals.ask_rows(server, 300))
    assert len(unlogged) == 300
    filler.unlink()
    until("it records again", lambda: journals.unavailable(server) is None or None)
    after = ids_of(journals.ask_rows(server, 10))
    reading = journals.adds_up(server)
    made = journals.decisions_made(reading)
    assert reading.sum("flyball_journal_gap_decisions_total") >= 300
    assert server.stop().code == 0
    recorded = journal.ids(journals.kept(place))
    gaps = [gap for gap in records(place, "gap") if not gap["open"]]
    assert made == len(recorded) + sum(gap["count"] for gap in gaps)
    assert len((before | unlogged | after) - recorded.keys()) == sum(gap["count"] for gap in gaps)
    assert after <= recorded.keys()
    assert not unlogged & recorded.keys()
    assert all(sum(gap["reasons"].values()) == gap["count"] and gap["from"] <= gap["to"] for gap in gaps)
    verified(place)


@pytest.mark.parametrize("but_bytes", [0, KEYS_BYTES], ids=["no room at all", "room for keys"])
def test_a_gap_that_is_open_when_the_server_ends_has_its_count_in_the_log(begin: Begin, disk: Path, but_bytes: int) -> None:
    place = disk / "journal"
    server = begin(place, {"when_unavailable": "serve_unlogged"})
    journals.fill(disk / "filler", but_bytes=but_bytes)
    journals.until_full(server)
    journals.ask_rows(server, 50)
    reading = journals.adds_up(server)
    assert server.stop().code == 0
    recorded = journal.ids(journals.kept(place)).total()
    # What is said to be open is said again when it is closed.
    gaps = [gap for gap in records(place, "gap") if not gap["open"]]
    assert journals.decisions_made(reading) == recorded + sum(gap["count"] for gap in gaps)
    verified(place)


# Files that are not as they were left.


def test_a_torn_tail_is_cut_and_recorded(begin: Begin, tmp_path: Path) -> None:
    place = tmp_path / "journal"
    server = begin(place, {"durability": "sync"})
    acknowledged = ids_of(journals.ask_rows(server, 200))
    server.kill()
    (*_, segment) = journal.segments(place)
    last = segment.frames[-1]
    with segment.path.open("r+b") as file:
        file.seek(last.offset)
        half = file.read(last.end - last.offset)[: len(last.payload) // 2]
        file.seek(last.end)
        file.write(half)  # a record whose write was under way
    server = begin(place, {"durability": "sync"})
    later = ids_of(journals.ask_rows(server, 20))
    assert server.stop().code == 0
    (told,) = records(place, "recovered")
    assert (told["segment"], told["kept_frames"]) == (segment.number, len(segment.frames))
    assert 0 < told["cut_bytes"] <= len(half)
    assert acknowledged | later == journal.ids(journals.kept(place)).keys()
    verified(place)


def test_an_end_that_was_on_the_disk_and_is_gone_is_no_torn_tail(begin: Begin, tmp_path: Path) -> None:
    place = tmp_path / "journal"
    server = begin(place, {"durability": "sync"})
    journals.ask_rows(server, 200)
    server.kill()
    (*_, segment) = journal.segments(place)
    with segment.path.open("r+b") as file:
        file.truncate(segment.frames[150].offset)
    server = begin(place, {"durability": "sync"})
    assert server.stop().code == 0
    kinds = journal.kinds(journal.segments(place))
    assert (kinds["quarantined"], kinds["recovered"]) == (1, 0)
    # What is gone left no trace but the copy and the record.
    assert [path for path in (place / "quarantine").iterdir() if path.stat().st_size < segment.frames[150].end]


def test_a_byte_that_changed_in_the_middle_is_quarantined_and_told(begin: Begin, tmp_path: Path) -> None:
    place = tmp_path / "journal"
    server = begin(place, {"durability": "sync"})
    journals.ask_rows(server, 200)
    server.kill()
    (*_, segment) = journal.segments(place)
    broken = segment.frames[100]
    with segment.path.open("r+b") as file:
        file.seek(broken.offset + 60)
        byte = file.read(1)[0]
        file.seek(broken.offset + 60)
        file.write(bytes([byte ^ 1]))
    server = begin(place, {"durability": "sync"})
    later = ids_of(journals.ask_rows(server, 20))
    assert server.stop().code == 0
    found = journal.segments(place)
    told = [frame.record for frame in journal.counted(found) if frame.kind == "quarantined"]
    assert [one["segment"] for one in told] == [segment.number]
    assert told[0]["why"]
    assert list((place / "quarantine").iterdir())
    assert later <= journal.ids(found).keys()
    # It is not accepted in silence either: what is missing has its place named.
    ending = journals.verify(place, "--json")
    assert ending.code != 0
    assert str(segment.number) in "\n".join(ending.stdout)


def test_a_second_server_does_not_take_a_journal_that_is_in_use(begin: Begin, tmp_path: Path) -> None:
    place = tmp_path / "journal"
    begin(place)
    (tmp_path / "second").mkdir()
    ending = serving.run(journals.command(tmp_path / "second", place, None))
    assert ending.code != 0
    assert "another process writes to the journal" in ending.text


# Those who read along.


def test_a_receiver_that_is_gone_changes_nothing_on_the_path(begin: Begin, tmp_path: Path) -> None:
    place = tmp_path / "journal"
    server = begin(place, {"durability": "buffered"})
    gone = f"http://127.0.0.1:{serving.free_port()}/events"
    push = [*serving.flyball(), "decisions", "push", "--journal-folder", str(place), "--to", gone, "--give-up-s", "0"]
    acknowledged = ids_of(journals.ask_rows(server, 50))
    ending = serving.run(push)
    assert ending.code == 5, ending.text  # it says that nobody took them
    acknowledged |= ids_of(journals.ask_rows(server, 50))
    reading = journals.adds_up(server)
    assert reading.sum("flyball_journal_gap_decisions_total") == 0
    assert journals.unavailable(server) is None
    assert server.stop().code == 0
    assert acknowledged <= journal.ids(journals.kept(place)).keys()
