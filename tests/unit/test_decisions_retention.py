"""What is old goes and leaves its trace; what a legal hold names stays, and its subjects are not erased."""

import datetime
import os
import time
from pathlib import Path
from typing import Any

import pytest

from flyball.decision_log.read.whole_log import WholeLog
from flyball.decision_log.retention import erase
from flyball.decision_log.retention import retire as retention
from flyball.decision_log.retention.compact import compact
from flyball.decision_log.retention.holds import holds_in_force
from flyball.decision_log.retention.retire import oldest_kept, retire
from flyball.decision_log.retention.retired import read_retired
from flyball.errors import UsageError
from tests.support.journal_folders import HOUR_NS, START_NS, JournalFolder, decision_pairs

DAY = 24 * HOUR_NS


def at(days: int) -> datetime.datetime:
    """So many days after the journals of the tests begin."""
    return datetime.datetime.fromtimestamp(START_NS / 1e9, datetime.UTC) + datetime.timedelta(days=days)


def days_of(path: Path, **held: Any) -> JournalFolder:
    """Three segments, ten days apart, of decisions `loan` and `card-fraud`; and, where told, a hold after them."""
    journal = JournalFolder(path)
    for _ in range(3):
        journal.decide("loan", subject=b"s" * 32, personal=b"c" * 20)
        journal.decide("card-fraud")
        journal.seal(hours=240)
    if held:
        journal.add(
            "hold", **{"name": "case-7", "by": "ann", "why": "court", "decision": None, "from": None, "to": None, **held}
        )
    journal.seal(hours=1)
    return journal


def kept(path: Path) -> list[int]:
    return [record["seq"] for record in WholeLog(path).records()]


@pytest.mark.parametrize(
    ("keep", "expected"),
    [("25mo", "2024-10-16"), ("90d", "2026-08-18"), ("7y", "2019-11-16"), ("9mo", "2026-02-16")],
)
def test_the_oldest_day_that_is_kept_is_counted_by_the_calendar(keep: str, expected: str) -> None:
    assert oldest_kept(keep, at(0)).date().isoformat() == expected


def test_a_month_that_is_shorter_gives_its_last_day() -> None:
    assert oldest_kept("1mo", datetime.datetime(2026, 3, 31, 5, tzinfo=datetime.UTC)).date().isoformat() == "2026-02-28"


@pytest.mark.parametrize("keep", ["", "25", "mo", "0d", "-1d", "25 mo", "99999y"])
def test_what_is_no_time_to_keep_is_refused(keep: str) -> None:
    with pytest.raises(UsageError, match=r"not a duration|too long"):
        oldest_kept(keep, at(0))


def test_old_segments_go_and_the_log_verifies_without_them(tmp_path: Path) -> None:
    days_of(tmp_path)
    compact(WholeLog(tmp_path))
    removed = retire(WholeLog(tmp_path), "15d", at(30))
    assert (removed.segments, removed.records, removed.held) == (2, 4, 0)
    assert kept(tmp_path) == [5, 6]
    verified = WholeLog(tmp_path).verify(without_keys=True)
    assert (verified.findings, verified.retired_until) == ([], "2026-11-26")
    assert not list((tmp_path / "parquet").glob("day=2026-11-16"))


def test_what_is_not_compacted_yet_is_not_removed(tmp_path: Path) -> None:
    days_of(tmp_path)
    assert retire(WholeLog(tmp_path), "1d", at(90)).segments == 0
    assert kept(tmp_path) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("held", "stay"),
    [
        ({}, {1, 2, 3, 4, 5, 6}),
        ({"decision": "loan"}, {1, 2, 3, 4, 5, 6}),
        ({"decision": "other"}, set()),
        ({"from": START_NS + 9 * DAY, "to": START_NS + 11 * DAY}, {3, 4}),
        ({"to": START_NS + 1}, {1, 2}),
    ],
    ids=["all", "decision", "other", "range", "until"],
)
def test_what_a_hold_names_stays_with_its_segment(tmp_path: Path, held: dict[str, Any], stay: set[int]) -> None:
    days_of(tmp_path, why="court", **held)
    compact(WholeLog(tmp_path))
    retire(WholeLog(tmp_path), "1d", at(400))
    assert set(kept(tmp_path)) == {*stay, 7}, "and the hold's own record stays as long as it is in force"
    assert WholeLog(tmp_path).verify(without_keys=True).findings == []


def test_after_its_release_what_a_hold_kept_goes(tmp_path: Path) -> None:
    journal = days_of(tmp_path, why="court")
    journal.add("release", name="case-7", by="ann", why="settled")
    journal.seal()
    assert holds_in_force(WholeLog(tmp_path)) == []
    compact(WholeLog(tmp_path))
    retire(WholeLog(tmp_path), "1d", at(400))
    assert kept(tmp_path) == []


def test_a_run_that_was_killed_after_the_list_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    days_of(tmp_path)
    compact(WholeLog(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            retire(WholeLog(tmp_path), "15d", at(30))
    assert kept(tmp_path) == [5, 6]
    retire(WholeLog(tmp_path), "15d", at(30))
    assert {int(part.stem) for part in (tmp_path / "parquet").rglob("*.parquet")} == {3, 4}
    assert [entry.gone_unix_ns is None for entry in read_retired(tmp_path).values()] == [False, False, True, True]


def long_used(path: Path) -> None:
    """No writer has used what lies beside the log for a day."""
    for blob in (path / "blobs").iterdir():
        os.utime(blob, (time.time() - 86_400,) * 2)


def test_a_long_input_goes_with_the_last_record_that_names_it(tmp_path: Path) -> None:
    journal = JournalFolder(tmp_path)
    once, twice = journal.blob(b"once"), journal.blob(b"twice")
    journal.decide(input_blob=[once, 4])
    journal.decide(input_blob=[twice, 5])
    journal.seal(hours=240)
    journal.decide(input_blob=[twice, 5])
    journal.seal()
    compact(WholeLog(tmp_path))
    long_used(tmp_path)
    assert retire(WholeLog(tmp_path), "5d", at(12)).blobs == 1
    assert [path.name for path in (tmp_path / "blobs").iterdir()] == [f"sha256-{twice.hex()}"]


def one_long_input(path: Path) -> Path:
    """An old decision with a long input, and another without; gives where that lies."""
    journal = JournalFolder(path)
    name = journal.blob(b"long").hex()
    journal.decide(input_blob=[bytes.fromhex(name), 4])
    journal.seal(hours=240)
    journal.decide()
    journal.seal()
    compact(WholeLog(path))
    long_used(path)
    return path / "blobs" / f"sha256-{name}"


def test_a_long_input_that_a_writer_uses_again_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blob = one_long_input(tmp_path)
    finish = retention._finish

    def used_again(folder: Path, parquet: Any) -> None:
        finish(folder, parquet)
        blob.touch()

    monkeypatch.setattr(retention, "_finish", used_again)
    removed = retire(WholeLog(tmp_path), "5d", at(12))
    assert (removed.segments, removed.blobs, blob.read_bytes()) == (1, 0, b"long")


def test_a_long_input_that_is_named_by_a_record_not_yet_durable_stays(tmp_path: Path) -> None:
    journal = JournalFolder(tmp_path)
    name = journal.blob(b"long")
    journal.decide(input_blob=[name, 4])
    journal.seal(hours=240)
    journal.write()
    durable = (tmp_path / "durable").read_bytes()
    journal.decide(input_blob=[name, 4])
    journal.write()
    (tmp_path / "durable").write_bytes(durable)
    compact(WholeLog(tmp_path))
    long_used(tmp_path)
    removed = retire(WholeLog(tmp_path), "5d", at(12))
    assert (removed.segments, removed.blobs) == (1, 0)


@pytest.mark.parametrize("killed_by", ["replace", "unlink"])
def test_a_long_input_goes_though_the_run_was_killed_after_its_record_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_by: str
) -> None:
    blob = one_long_input(tmp_path)
    act = getattr(Path, killed_by)

    def killed(path: Path, *words: Any, **more: Any) -> Any:
        if path.name == blob.name:
            raise KeyboardInterrupt
        return act(path, *words, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Path, killed_by, killed)
        with pytest.raises(KeyboardInterrupt):
            retire(WholeLog(tmp_path), "5d", at(12))
    assert kept(tmp_path) == [2]
    assert retire(WholeLog(tmp_path), "5d", at(12)).blobs == 1
    assert not list(tmp_path.rglob(blob.name))


def serve(journal: JournalFolder, name: str) -> None:
    pairs = decision_pairs(name, "reject", journal.now_ns)
    documents = {part: pairs[part] for part in ("decision", "document", "policy", "schema")}
    journal.add("served", **documents, deployment=bytes(32), runtime=bytes(32), base="/srv")


def test_how_a_younger_decision_was_served_stays_until_that_decision_goes(tmp_path: Path) -> None:
    journal = JournalFolder(tmp_path)
    serve(journal, "loan")
    journal.seal(hours=1)
    serve(journal, "loan")
    serve(journal, "card-fraud")
    journal.decide("card-fraud")
    journal.seal(hours=1)
    serve(journal, "card-fraud")
    journal.seal(hours=240)
    journal.decide("loan")
    journal.seal(hours=1)
    compact(WholeLog(tmp_path))
    removed = retire(WholeLog(tmp_path), "5d", at(12))
    assert (removed.segments, removed.needed, kept(tmp_path)) == (2, 1, [2, 3, 4, 6])
    assert retire(WholeLog(tmp_path), "5d", at(90)).needed == 0
    assert kept(tmp_path) == []


def test_how_a_decision_that_is_not_compacted_was_served_stays(tmp_path: Path) -> None:
    journal = JournalFolder(tmp_path)
    serve(journal, "loan")
    journal.seal(hours=240)
    journal.decide("loan")
    journal.write()
    compact(WholeLog(tmp_path))
    assert retire(WholeLog(tmp_path), "5d", at(12)).needed == 1
    assert kept(tmp_path) == [1, 2]


def test_a_subject_of_several_fields_is_their_values_joined() -> None:
    assert erase.subject_of(["a", "b"]) == "a\u001fb"
    with pytest.raises(UsageError):
        erase.subject_of(["a", ""])
