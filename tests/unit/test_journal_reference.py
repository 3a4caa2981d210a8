"""The reader that judges the journal is judged itself: by what another author wrote, and by what was changed in it."""

import uuid
from pathlib import Path

import pytest

from tests.reference import journal
from tests.support import journal_folders

WHY = [None, True, "é", -7]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = journal_folders.JournalFolder(tmp_path / "journal")
    for segment in range(3):
        for number in range(5):
            folder.add("decision", uuid.UUID(bytes=bytes([segment, number] * 8)), score=number / 3, why=WHY)
        folder.seal()
    return folder.path


def test_it_reads_what_another_author_wrote(log: Path) -> None:
    found = journal.segments(log)
    assert journal.faults(found) == []
    assert journal.kinds(found) == {"decision": 15}
    frame = found[1].frames[4]
    assert (frame.kind, frame.id) == ("decision", bytes([1, 4] * 8))
    assert (frame.record["score"], frame.record["why"]) == (4 / 3, WHY)


@pytest.mark.parametrize("place", [0, 2, 4])
def test_it_finds_a_byte_that_changed(log: Path, place: int) -> None:
    frame = journal.segments(log)[1].frames[place]
    path = journal.segments(log)[1].path
    data = bytearray(path.read_bytes())
    data[frame.end - 1] ^= 1
    path.write_bytes(data)
    assert journal.faults(journal.segments(log))


def test_it_finds_a_segment_that_is_gone(log: Path) -> None:
    journal.segments(log)[1].path.unlink()
    assert journal.faults(journal.segments(log))
