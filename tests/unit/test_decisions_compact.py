"""Compaction: what is in Parquet is what was recorded, whenever it is killed, and whatever is changed in it is found."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flyball.decision_log.proof.verify_parquet import verify_parquet
from flyball.decision_log.read.parquet_log import ParquetLog
from flyball.decision_log.read.views import opened
from flyball.decision_log.read.whole_log import WholeLog
from flyball.decision_log.retention.compact import compact, compaction_lock
from flyball.decision_log.retention.retired import Retired, append_retired, read_retired
from flyball.errors import EvidenceError, LockedError
from tests.support import journal_folders
from tests.support.journal_folders import JournalFolder

# Changes of the disk between two kills.
EVERY = 1 if os.environ.get("FLYBALL_TESTS") == "full" else 3


def records(journal: JournalFolder) -> list[dict[str, Any]]:
    return list(WholeLog(journal.path).records())


def parts(journal: JournalFolder) -> list[Path]:
    return sorted((journal.path / "parquet").rglob("*.parquet"))


def test_a_compacted_log_has_the_same_records_and_no_sealed_segment(tmp_path: Path) -> None:
    journal = journal_folders.filled(tmp_path, [5, 0, 7], hours=13)
    before = records(journal)
    done = compact(WholeLog(journal.path))
    assert (done.segments, done.records, done.stopped) == (3, 12, None)
    assert [path.name for path in (tmp_path / "segments").iterdir()] == ["0000000000000004.fbj"]
    assert records(journal) == before
    assert verify_parquet(tmp_path).findings == []
    assert WholeLog(tmp_path).verify().findings == []


def test_records_lie_by_day_and_decision_and_events_apart(tmp_path: Path) -> None:
    journal = JournalFolder(tmp_path)
    identity = journal.decide("loan")
    journal.add("outcome", identity, decision="loan", when=None, truth="repaid", source="ledger", caller=None)
    journal.add("registry", sequence=1, hash=bytes(32), generation=1, environment="production")
    journal.now_ns += 25 * journal_folders.HOUR_NS
    journal.decide("odd name/ü")
    journal.seal()
    compact(WholeLog(tmp_path))
    folders = [str(part.parent.relative_to(tmp_path / "parquet")) for part in parts(journal)]
    assert folders == [
        "day=2026-11-16/decision=_events",
        "day=2026-11-16/decision=loan",
        "day=2026-11-17/decision=odd%20name%2F%C3%BC",
    ]


def test_columns_say_what_records_say_and_hold_nothing_personal(tmp_path: Path) -> None:
    journal = JournalFolder(tmp_path)
    journal.decide("loan", "approve", subject=b"s" * 32, personal=b"ciphertext")
    journal.seal()
    compact(WholeLog(tmp_path))
    [row] = pq.ParquetFile(parts(journal)[0]).read().to_pylist()
    expected = ("decision", "loan", "approve", "high", 0.914, "champion", "shop", True)
    assert (
        tuple(row[name] for name in ("kind", "decision", "outcome", "band", "score", "route", "caller", "personal"))
        == expected
    )
    assert json.loads(row["input"]) == {"amount": 4100.0, "country": "DE"}
    assert json.loads(row["models"])[0]["model"] == "fraud"
    assert "ciphertext" not in json.dumps({name: str(value) for name, value in row.items() if name != "payload"})


def test_duckdb_reads_the_folder_as_it_lies(tmp_path: Path) -> None:
    journal_folders.filled(tmp_path, [6])
    compact(WholeLog(tmp_path))
    files = str(tmp_path / "parquet" / "*" / "*" / "*.parquet")
    found = duckdb.connect().execute(
        "SELECT decision, count(*) FROM read_parquet(?, hive_partitioning = false) GROUP BY 1 ORDER BY 1", [files]
    )
    assert found.fetchall() == [("card-fraud", 3), ("loan", 3)]


def test_a_segment_that_no_checkpoint_covers_stays(tmp_path: Path) -> None:
    journal_folders.filled(tmp_path, [3])
    (tmp_path / "checkpoints").unlink()
    assert compact(WholeLog(tmp_path)).segments == 0
    assert (tmp_path / "segments" / "0000000000000001.fbj").exists()


def test_a_segment_that_does_not_verify_stays_and_so_do_all_after_it(tmp_path: Path) -> None:
    journal = journal_folders.filled(tmp_path, [3, 3, 3])
    broken = journal.file(2)
    content = bytearray(broken.read_bytes())
    content[-5] ^= 1
    broken.write_bytes(bytes(content))
    done = compact(WholeLog(tmp_path))
    assert done.segments == 1
    assert done.stopped is not None
    assert "segment 2" in done.stopped
    assert broken.read_bytes() == bytes(content)
    assert list(read_retired(tmp_path)) == [1]


def test_two_compactions_at_once_are_refused(tmp_path: Path) -> None:
    journal_folders.filled(tmp_path, [1])
    with compaction_lock(tmp_path), pytest.raises(LockedError):
        compact(WholeLog(tmp_path))


class KilledError(BaseException):
    """Ends a run as SIGKILL would: nothing catches it."""


def kill_at(monkeypatch: pytest.MonkeyPatch, step: int) -> list[str]:
    """Ends the run before its n-th change of the disk."""
    taken: list[str] = []

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if len(taken) == step:
                raise KilledError(name)
            taken.append(name)
            return real(*arguments, **options)

        return call

    for owner, name in ((Path, "replace"), (Path, "unlink"), (Path, "mkdir"), (pq.ParquetWriter, "write_table")):
        monkeypatch.setattr(owner, name, counted(name, getattr(owner, name)))
    monkeypatch.setattr("os.fsync", counted("fsync", os.fsync))
    monkeypatch.setattr(shutil, "rmtree", counted("rmtree", shutil.rmtree))
    return taken


@pytest.mark.timeout(120)
def test_killed_before_any_change_of_the_disk_it_can_be_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)  # a step like any other, but no power is lost here, and it takes long
    made = journal_folders.filled(tmp_path / "made", [2, 0, 1], hours=13)
    before = records(made)
    step, ended = 0, False
    while not ended:
        folder = tmp_path / f"killed-{step}"
        shutil.copytree(made.path, folder)
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, step)
            try:
                compact(WholeLog(folder))
                ended = True
            except KilledError:
                pass
        assert list(WholeLog(folder).records()) == before, f"after a kill at step {step}"
        assert WholeLog(folder).verify().findings == [], f"after a kill at step {step}"
        compact(WholeLog(folder))
        assert list(WholeLog(folder).records()) == before, f"run again after a kill at step {step}"
        assert WholeLog(folder).verify().findings == []
        assert len(list((folder / "segments").iterdir())) == 1
        shutil.rmtree(folder)
        step += EVERY
    assert step > 30


@pytest.mark.timeout(120)
def test_the_child_killed_at_random_moments_loses_nothing(tmp_path: Path) -> None:
    journal = journal_folders.filled(tmp_path, [40] * 6)
    before, chance = records(journal), random.Random(8)
    command = [sys.executable, "-m", "flyball", "decisions", "compact", "--here", "--journal-folder", str(tmp_path)]
    for _ in range(4):
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            child.wait(chance.uniform(0.3, 1.5))
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            child.wait()
        assert records(journal) == before
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    assert records(journal) == before
    assert WholeLog(tmp_path).verify().findings == []


def rewritten(change: Callable[[pa.Table], pa.Table]) -> Callable[[JournalFolder], None]:
    def apply(journal: JournalFolder) -> None:
        part = parts(journal)[-1]
        pq.write_table(change(pq.ParquetFile(part).read()), part)

    return apply


def cell(name: str, value: object) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index(name)
        cells = [value, *table[name].to_pylist()[1:]]
        return table.set_column(place, table.schema.field(name), pa.array(cells, table.schema.field(name).type))

    return change


def moved(journal: JournalFolder) -> None:
    part = parts(journal)[-1]
    goal = part.parent.with_name("decision=other") / part.name
    goal.parent.mkdir()
    part.rename(goal)


def without_header(table: pa.Table) -> pa.Table:
    return table.replace_schema_metadata({})


def flipped(journal: JournalFolder) -> None:
    part = parts(journal)[-1]
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 0x20
    part.write_bytes(bytes(content))


@pytest.mark.parametrize(
    "tamper",
    [
        rewritten(cell("outcome", "approve!")),
        rewritten(cell("score", 0.1)),
        rewritten(cell("payload", b"\xa0")),
        rewritten(cell("prev", bytes(32))),
        rewritten(cell("leaf", bytes(32))),
        rewritten(cell("seq", 77)),
        rewritten(lambda table: table.slice(1)),
        rewritten(lambda table: pa.concat_tables([table, table.slice(0, 1)])),
        rewritten(without_header),
        moved,
        flipped,
        lambda journal: parts(journal)[-1].unlink(),
    ],
    ids=[
        "outcome",
        "score",
        "payload",
        "prev",
        "leaf",
        "seq",
        "row-gone",
        "row-twice",
        "metadata",
        "moved",
        "byte",
        "file-gone",
    ],
)
def test_whatever_is_changed_in_parquet_is_found_and_its_segment_is_named(
    tmp_path: Path, tamper: Callable[[JournalFolder], None]
) -> None:
    journal = journal_folders.filled(tmp_path, [4, 6])
    compact(WholeLog(tmp_path))
    tamper(journal)
    assert {finding.segment for finding in verify_parquet(tmp_path).findings} == {2}
    assert WholeLog(tmp_path).verify().findings


@pytest.mark.parametrize("place", range(12))
def test_a_changed_byte_of_parquet_is_found_wherever_it_is(tmp_path: Path, place: int) -> None:
    journal = journal_folders.filled(tmp_path, [3])
    compact(WholeLog(tmp_path))
    chance = random.Random(place)
    part = chance.choice(parts(journal))
    content = bytearray(part.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    part.write_bytes(bytes(content))
    assert [finding.segment for finding in verify_parquet(tmp_path).findings][:1] == [1]


def test_a_changed_list_of_retired_segments_is_found_by_the_checkpoints(tmp_path: Path) -> None:
    journal_folders.filled(tmp_path, [3, 3])
    compact(WholeLog(tmp_path))
    listed = tmp_path / "state" / "retired.json"
    lines = [json.loads(line) for line in listed.read_text().splitlines()]
    lines[0]["root"] = "00" * 32
    listed.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert WholeLog(tmp_path).verify().findings


def test_a_list_that_calls_a_segment_in_the_middle_gone_hides_nothing(tmp_path: Path) -> None:
    journal = journal_folders.filled(tmp_path, [3, 3, 3])
    facts = WholeLog(tmp_path).segments()
    forged = [
        Retired(one.segment, one.first_seq, one.frames, one.root, one.last, one.created_unix_ns, one.created_unix_ns, "", 1)
        for one in facts[:2]
    ]
    append_retired(tmp_path, forged)
    journal.file(2).unlink()
    verified = WholeLog(tmp_path).verify()
    assert [finding.segment for finding in verified.findings] == [2]
    assert "only the start of a log" in verified.findings[0].what
    assert verified.retired_segments == "1-2"


def test_half_a_line_that_a_killed_run_left_is_cut_by_the_next(tmp_path: Path) -> None:
    journal = journal_folders.filled(tmp_path, [3, 3])
    before = records(journal)
    compact(WholeLog(tmp_path))
    listed = tmp_path / "state" / "retired.json"
    whole = listed.read_bytes()
    listed.write_bytes(whole + b'{"segment": 3, "fir')
    assert list(read_retired(tmp_path)) == [1, 2]
    assert records(journal) == before
    append_retired(tmp_path, [])
    assert listed.read_bytes() == whole


def test_a_segment_in_quarantine_stops_no_compaction(tmp_path: Path) -> None:
    journal = journal_folders.filled(tmp_path, [3, 3, 3])
    (tmp_path / "roots").write_bytes(b"".join(segment.root for segment in journal.sealed))
    (tmp_path / "quarantine").mkdir()
    journal.file(2).rename(tmp_path / "quarantine" / journal.file(2).name)
    done = compact(WholeLog(tmp_path))
    assert (done.segments, done.stopped) == (2, None)
    assert list(read_retired(tmp_path)) == [1, 3]
    assert [finding.segment for finding in WholeLog(tmp_path).verify().findings] == [2]


@pytest.mark.parametrize("at", [1, 3, 5])
def test_a_reader_sees_each_record_once_while_compaction_moves_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    journal = journal_folders.filled(tmp_path, [4, 4, 4])
    before = records(journal)
    monkeypatch.setattr("flyball.decision_log.read.whole_log._MOST", 2)
    reader = WholeLog(tmp_path).records()
    seen = [next(reader) for _ in range(at)]
    compact(WholeLog(tmp_path))
    assert seen + list(reader) == before


def test_a_segment_that_vanishes_between_two_looks_is_read_from_parquet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = journal_folders.filled(tmp_path, [4, 4])
    before, chunk = records(journal), WholeLog.chunk

    def compacted_first(log: WholeLog, *arguments: Any) -> tuple[bytes, int, bool]:
        monkeypatch.setattr(WholeLog, "chunk", chunk)
        compact(WholeLog(tmp_path))
        return log.chunk(*arguments)

    monkeypatch.setattr(WholeLog, "chunk", compacted_first)
    assert records(journal) == before


def test_a_query_sees_each_record_once_while_compaction_moves_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal_folders.filled(tmp_path, [4, 4, 4])
    chunk, calls = WholeLog.chunk, iter(range(1000))

    def compacted_between(log: WholeLog, *arguments: Any) -> tuple[bytes, int, bool]:
        if next(calls) == 1:
            compact(WholeLog(tmp_path))
        return chunk(log, *arguments)

    monkeypatch.setattr("flyball.decision_log.read.views._CHUNK", 2)
    monkeypatch.setattr(WholeLog, "chunk", compacted_between)
    with opened(WholeLog(tmp_path)) as connection:
        seqs = [seq for (seq,) in connection.execute("SELECT seq FROM records ORDER BY seq").fetchall()]
    assert seqs == list(range(1, 14))


def test_a_log_without_its_checkpoints_does_not_verify(tmp_path: Path) -> None:
    journal_folders.filled(tmp_path, [3, 3])
    verified = WholeLog(tmp_path).verify()
    assert verified.findings == []
    assert verified.signed is not None
    assert (verified.signed.segment, verified.unsigned) == (3, 1)
    (tmp_path / "checkpoints").unlink()
    [finding] = WholeLog(tmp_path).verify().findings
    assert (finding.segment, "no checkpoint signs" in finding.what) == (1, True)


def test_a_decision_is_found_in_parquet_with_what_was_told_of_it_later(tmp_path: Path) -> None:
    journal = JournalFolder(tmp_path)
    identity = journal.decide()
    journal.seal(hours=30)
    journal.add("outcome", identity, decision="card-fraud", when=None, truth="fraud", source=None, caller=None)
    journal.seal(hours=30)
    compact(WholeLog(tmp_path))
    journal.add("override", identity, decision="card-fraud", outcome="approve", by="ann", why="known", caller=None)
    journal.write()
    assert [record["kind"] for record in WholeLog(tmp_path).find(str(identity))] == ["decision", "outcome", "override"]
    proof = WholeLog(tmp_path).prove(1)
    assert (proof.segment, proof.index, proof.findings) == (1, 0, [])


def test_missing_parquet_is_an_error_and_not_an_empty_answer(tmp_path: Path) -> None:
    journal = journal_folders.filled(tmp_path, [2])
    compact(WholeLog(tmp_path))
    shutil.rmtree(journal.path / "parquet")
    with pytest.raises(EvidenceError, match="segment 1"):
        records(journal)
    assert ParquetLog(tmp_path).parts(1) == []


def test_checkpoints_are_read_once_however_many_segments_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal_folders.filled(tmp_path, [1, 1, 1, 1])
    notes, looks = WholeLog.checkpoints, []

    def counted(log: WholeLog) -> list[str]:
        looks.append(1)
        return notes(log)

    monkeypatch.setattr(WholeLog, "checkpoints", counted)
    assert compact(WholeLog(tmp_path)).segments == 4
    assert len(looks) == 1
