"""A real journal, written and read through the extension: what is told is there, what is changed is found."""

import json
import uuid

import pytest

from flyball.errors import EvidenceError, JournalRefusedError, LockedError
from flyball.feature_store.push import push
from flyball.feature_store.target import Target
from flyball.native.journal import Journal, JournalLog, verify_frames

ID = "0192f6c1-2345-7fff-bfff-ffffffffffff"


@pytest.fixture
def folder(tmp_path):
    """A journal that was opened three times: records in segments 1, 3 and 5, and an empty one behind each."""
    folder = tmp_path / "journal"
    for number in range(3):
        with Journal(folder) as journal:
            journal.append(
                {
                    "kind": "outcome",
                    "id": ID,
                    "decision": "pay",
                    "truth": {"fraud": True, "loss": 12.5},
                    "source": f"bank {number}",
                }
            )
            journal.append({"kind": "override", "id": ID, "decision": "pay", "outcome": "pass", "by": "ana", "why": "known"})
    return folder


@pytest.fixture
def run(run, folder):
    return lambda *arguments: run("decisions", *arguments, "--journal-folder", folder)


def test_what_is_told_is_read_back_in_order_with_its_place(folder):
    records = list(JournalLog(folder).records(kinds=["outcome", "override"]))
    assert [record["kind"] for record in records] == ["outcome", "override"] * 3
    first = records[0]
    assert (first["id"], first["truth"], first["source"]) == (ID, {"fraud": True, "loss": 12.5}, "bank 0")
    assert (first["segment"], first["frame"], first["when"], first["caller"]) == (1, 0, None, None)
    assert [record["seq"] for record in records] == sorted(record["seq"] for record in records)
    assert records[1]["prev"] == first["leaf"]
    assert first["time"].startswith("20")


def test_records_are_read_in_chunks_that_go_on_where_the_last_one_ended(folder):
    log, seq, end, found = JournalLog(folder), 0, False, []
    while not end:
        lines, seq, end = log.chunk(seq, 1, {"kinds": ["outcome"]})
        found += [json.loads(line)["source"] for line in lines.splitlines()]
    assert found == ["bank 0", "bank 1", "bank 2"]


def test_filters_by_time_keep_what_lies_between(folder):
    log = JournalLog(folder)
    times = [record["at"] for record in log.records(kinds=["outcome"])]
    between = list(log.records(kinds=["outcome"], since_ns=times[1], until_ns=times[2]))
    assert [record["at"] for record in between] == [times[1]]


def test_all_that_was_told_of_a_decision_is_found(folder):
    log = JournalLog(folder)
    assert [record["kind"] for record in log.find(ID)] == ["outcome", "override"] * 3
    assert log.find(str(uuid.uuid4())) == []
    with pytest.raises(JournalRefusedError, match="is not a decision id"):
        log.find("7")


def test_a_whole_log_verifies_and_a_changed_byte_is_named(folder):
    log, told = JournalLog(folder), []
    verified = log.verify(told=lambda done, total: told.append((done, total)))
    assert (verified.findings, verified.segments, told[-1]) == ([], len(told), (len(told), len(told)))
    segment = next((folder / "segments").glob("*3.fbj"))
    changed = bytearray(segment.read_bytes())
    changed[changed.index(b"bank 1")] ^= 1
    segment.write_bytes(changed)
    findings = JournalLog(folder).verify().findings
    assert findings
    assert {finding.segment for finding in findings} == {3}
    with pytest.raises(EvidenceError, match="segment 3 is damaged"):
        list(JournalLog(folder).records())


def test_what_a_listener_raises_ends_a_verification(folder):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        JournalLog(folder).verify(told=interrupt)


def test_a_record_is_proven_up_to_a_signed_checkpoint(folder):
    log = JournalLog(folder)
    first = next(log.records(kinds=["outcome"]))
    proof = log.prove(first["seq"])
    assert (proof.findings, proof.leaf, proof.segment) == ([], first["leaf"], 1)
    assert proof.checkpoint in log.checkpoints()
    with pytest.raises(JournalRefusedError, match="no record 9999"):
        log.prove(9999)


def test_frames_verify_against_the_root_of_their_segment_and_no_others(folder):
    log = JournalLog(folder)
    facts = log.segments()[0]
    frames = [(frame.seq, frame.prev, frame.payload) for frame in log.frames(0) if frame.segment == 1]
    assert len(frames) == facts.frames
    header, root = log.header(1), bytes.fromhex(facts.root)
    assert verify_frames(header, frames, root) == []
    assert verify_frames(header, frames[:-1], root)
    assert log.render(frames[0][2])["kind"] == next(log.records())["kind"]


def test_a_journal_that_is_held_says_so_and_what_to_do(folder):
    with Journal(folder), pytest.raises(LockedError) as caught:
        Journal(folder)
    assert "--url" in caught.value.next_step


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"kind": "outcome", "id": "7", "decision": "pay", "truth": 1}, "is not a decision id"),
        ({"kind": "outcome", "id": ID, "decision": "pay", "truth": [1]}, "truth must be"),
        ({"kind": "override", "id": ID, "decision": "pay", "outcome": "pass", "by": "", "why": "x"}, "by is empty"),
        ({"kind": "decision", "id": ID}, "unknown variant"),
    ],
)
def test_what_cannot_be_told_is_refused_and_nothing_is_written(folder, event, message):
    before = len(list(JournalLog(folder).records(kinds=["outcome", "override"])))
    with Journal(folder) as journal, pytest.raises(JournalRefusedError, match=message):
        journal.append(event)
    assert len(list(JournalLog(folder).records(kinds=["outcome", "override"]))) == before


def test_an_erasure_is_recorded_by_token_and_the_log_still_verifies(folder):
    rows, store = folder.parent / "cards.csv", folder.parent / "cards.redb"
    rows.write_text("card,limit\n4242,7\n")
    push(rows, Target(store=store), "cards", "card")
    with Journal(folder) as journal:
        told = journal.erase("4242", by="ana", why="asked by letter", stores=[store])
    assert (told["records"], told["stored"]) == (0, 1)
    log = JournalLog(folder, reveal=True)
    (erased,) = log.records(kinds=["erased"])
    assert (erased["subject"], erased["by"], erased["why"]) == (log.token("4242"), "ana", "asked by letter")
    (sealed,) = JournalLog(folder).records(kinds=["erased"])
    assert "why" not in sealed
    assert sealed["personal"] == "sealed"
    assert log.verify().findings == []
    with pytest.raises(JournalRefusedError, match="without a key"):
        JournalLog(folder).token("4242")


def test_an_unknown_subject_is_not_erased_and_its_value_is_not_repeated(run, folder):
    code, _, told = run("erase", "card-4242", "--by", "ana", "--reason", "asked")
    assert (code, "the journal has no record of this subject" in told, "4242" in told) == (3, True, False)
    assert list(JournalLog(folder).records(kinds=["erased"])) == []


def test_a_hold_is_ordered_once_and_released_once(run, folder):
    orders = ("--by", "legal", "--reason", "case 7")
    assert run("hold", "case-7", *orders)[0] == 0
    assert run("hold", "case-7", *orders)[0] == 3
    assert "case-7" in run("holds")[1]
    assert run("release", "case-7", *orders)[0] == 0
    code, _, told = run("release", "case-7", *orders)
    assert (code, "in force: none" in told) == (3, True)


def test_a_folder_that_is_no_journal_is_refused_with_the_option(tmp_path):
    with pytest.raises(JournalRefusedError) as caught:
        JournalLog(tmp_path)
    assert "--journal-folder" in caught.value.next_step


def test_verify_says_verified_and_ends_with_4_where_it_is_not(run, folder):
    code, out, _ = run("verify")
    assert (code, out.split()[0]) == (0, "verified")
    segment = next((folder / "segments").glob("*1.fbj"))
    segment.write_bytes(segment.read_bytes()[:-1])
    code, out, errors = run("verify")
    assert code == 4
    assert "segment 1" in out
    assert "changed or damaged" in errors
    code, out, _ = run("verify", "--json")
    assert (code, bool(json.loads(out)["findings"])) == (4, True)


def test_a_checkpoint_kept_elsewhere_finds_a_log_whose_end_was_cut_off(run, folder, tmp_path):
    code, note, _ = run("checkpoint")
    assert (code, note.splitlines()[0].partition("/")[0]) == (0, "flyball-journal")
    (tmp_path / "kept.note").write_text(note)
    assert run("verify", "--checkpoint", tmp_path / "kept.note")[0] == 0
    for name in ("checkpoints", "durable", "roots"):
        (folder / name).unlink(missing_ok=True)
    max((folder / "segments").glob("*.fbj")).unlink()
    assert run("verify", "--checkpoint", tmp_path / "kept.note")[0] == 4


def test_query_and_tail_read_the_journal_itself(run):
    code, out, errors = run("query", "select source, truth from outcomes order by seq", "--json")
    assert code == 0, errors
    assert [json.loads(line)["source"] for line in out.splitlines()] == ["bank 0", "bank 1", "bank 2"]
    code, out, errors = run("tail", "--kind", "override", "--limit", "2", "--last", "2")
    assert code == 0, errors
    assert out.count("outcome=pass") == 2
