"""Records and ledgers: what was measured cannot be edited, removed or replaced unseen."""

import gzip
import json
from pathlib import Path

import pytest

from bench.claims import ages, ledger
from bench.claims.check import rewritten
from bench.claims.ledger import EditedError
from bench.claims.record import Record, canonical
from tests.support.made_up_suite import BAD, GOOD, LOST, add, stored, suite


def edit(path: Path, change) -> None:
    content = json.loads(gzip.decompress(path.read_bytes()))
    change(content)
    path.write_bytes(gzip.compress(canonical(content)))


def file_of(folder: Path) -> Path:
    (path,) = folder.glob("*.json.gz")
    return path


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder, record = stored(tmp_path, suite(), {"times": GOOD, "count": LOST})
    assert ledger.verified(folder) == [record]
    assert Record.read(file_of(folder)) == record


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["attempts"][0]["raw"]["p50"]["alone"]["values"].__setitem__(0, 20.0),
        lambda record: record["attempts"][0].__setitem__("state", "stopped"),
        lambda record: record["attempts"][0]["terms"]["p50"].__setitem__("bar", "<= 9 times"),
        lambda record: record["attempts"][0]["unmeasured"].__setitem__("p50", "no reason"),
        lambda record: record["head"].__setitem__("commit", "d" * 12),
        lambda record: record["attempts"].pop(0),
    ],
    ids=["raw value", "state", "terms", "reason", "commit", "attempt removed"],
)
def test_an_edited_record_is_found(tmp_path: Path, change) -> None:
    folder, _ = stored(tmp_path, suite(), {"times": BAD, "count": LOST})
    edit(file_of(folder), change)
    with pytest.raises(EditedError):
        ledger.verified(folder)


def test_an_edited_record_with_a_new_digest_differs_from_the_ledger(tmp_path: Path) -> None:
    folder, _ = stored(tmp_path, suite(), {"times": BAD})
    record = Record.read(file_of(folder))
    record.attempts[0].raw = GOOD
    record.attempts[0].digest = record.digest_of(record.attempts[0])
    record.write(folder)
    with pytest.raises(EditedError, match="its digest is not that"):
        ledger.verified(folder)


def test_a_removed_run_is_missed(tmp_path: Path) -> None:
    folder, _ = stored(tmp_path, suite(), {"times": BAD}, number=1)
    stored(tmp_path, suite(), {"times": GOOD}, number=2)
    (folder / "2026-01-01T000000Z-cccccccc.json.gz").unlink()
    with pytest.raises(EditedError, match="which is not stored"):
        ledger.verified(folder)


def test_lines_that_are_removed_from_a_ledger_break_its_chain(tmp_path: Path) -> None:
    folder, _ = stored(tmp_path, suite(), {"times": BAD}, number=1)
    stored(tmp_path, suite(), {"times": GOOD}, number=2)
    (folder / "2026-01-01T000000Z-cccccccc.json.gz").unlink()
    lines = (folder / ledger.NAME).read_text().splitlines(keepends=True)
    (folder / ledger.NAME).write_text("".join(line for line in lines if "2026-01-01" not in line))
    with pytest.raises(EditedError, match="its hash does not follow"):
        ledger.verified(folder)


def test_a_ledger_that_was_made_again_differs_from_the_committed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = stored(tmp_path, suite(), {"times": BAD})
    before = (folder / ledger.NAME).read_text()
    monkeypatch.setattr(ages, "earlier_versions", lambda _: [before])
    assert rewritten(tmp_path) == []
    (folder / ledger.NAME).unlink()
    file_of(folder).unlink()
    stored(tmp_path, suite(), {"times": GOOD})
    ledger.verified(folder)
    assert len(rewritten(tmp_path)) == 1


def test_a_second_attempt_is_added_and_the_first_stays(tmp_path: Path) -> None:
    folder, record = stored(tmp_path, suite(), {"times": BAD})
    add(folder, record, suite(), "times", GOOD)
    (read,) = ledger.verified(folder)
    assert [attempt.raw for attempt in read.of("times")] == [BAD, GOOD]


def test_an_attempt_that_never_ended_stays_known(tmp_path: Path) -> None:
    folder, record = stored(tmp_path, suite(), {"times": GOOD})
    attempt = record.of("times")[0]
    begun = type(attempt)("count", 1, {})
    record.attempts.append(begun)
    record.write(folder)
    ledger.begun(folder, record, begun)
    (read,) = ledger.verified(folder)
    assert (read.finished("times"), read.finished("count")) == (True, False)
    record.attempts.remove(begun)
    record.write(folder)
    with pytest.raises(EditedError, match="attempt 1 at count"):
        ledger.verified(folder)
