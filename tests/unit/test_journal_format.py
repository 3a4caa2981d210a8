"""The format's page and the golden journal say the same, and an independent reader agrees with both."""

import re
from pathlib import Path

from tests.reference import journal

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "journal"
PAGE = (ROOT / "docs" / "reference" / "journal-format.md").read_text()


def test_the_bytes_on_the_page_are_those_of_the_golden_segment() -> None:
    rows = re.findall(r"^([0-9a-f]{8})  ((?:[0-9a-f]{2} ?)+)$", PAGE, re.MULTILINE)
    shown = b"".join(bytes.fromhex(row) for _, row in rows)
    segment = (GOLDEN / "segments" / "0000000000000001.fbj").read_bytes()
    assert [int(place, 16) for place, _ in rows] == list(range(0, len(shown), 16))
    assert len(shown) == 256 + 48 + 76
    assert segment.startswith(shown)


def test_the_checkpoint_on_the_page_is_the_second_of_the_golden_journal() -> None:
    notes = (GOLDEN / "checkpoints").read_text()
    second = "flyball-journal/" + re.split(r"^flyball-journal/", notes, flags=re.MULTILINE)[2]
    assert second in PAGE


def test_an_independent_reader_finds_no_fault_in_the_golden_journal() -> None:
    found = journal.segments(GOLDEN)
    assert journal.faults(found) == []
    assert journal.kinds(found) == {"decision": 5}
