"""Ids as people type them: whole, the beginning of one, or `last`."""

import uuid

import pytest

from flyball.decision_log.read.ids import full_id
from flyball.decision_log.read.records import find
from flyball.errors import NotFoundError
from flyball.native.journal import JournalLog
from tests.support.journal_folders import JournalFolder

MINUTE_NS = 60_000_000_000


@pytest.fixture
def journal(tmp_path):
    """Three decisions: two of one millisecond, one a minute later; an outcome of the first comes last."""
    folder = JournalFolder(tmp_path / "journal")
    ids = [str(folder.decide()), str(folder.decide())]
    folder.now_ns += MINUTE_NS
    ids.append(str(folder.decide()))
    folder.add("outcome", uuid.UUID(ids[0]), decision="card-fraud", truth=True)
    folder.write()
    return JournalLog(tmp_path / "journal"), ids


def test_the_beginning_of_an_id_names_the_only_decision_that_has_it(journal):
    log, ids = journal
    assert full_id(log, ids[2][:12]) == ids[2]
    assert find(log, ids[2][:12]).decision.id == ids[2]


@pytest.mark.parametrize("written", [str.upper, lambda text: text.replace("-", ""), lambda text: f" {text}"])
def test_hyphens_and_capitals_do_not_matter(journal, written):
    log, ids = journal
    assert full_id(log, written(ids[1])) == ids[1]
    assert full_id(log, written(ids[2][:20])) == ids[2]


def test_a_beginning_of_several_ids_lists_them(journal):
    log, ids = journal
    with pytest.raises(NotFoundError, match=f"several ids begin with '{ids[0][:8]}': {ids[0]}, {ids[1]}") as caught:
        full_id(log, ids[0][:8])
    assert caught.value.next_step == "give more digits of the id"


@pytest.mark.parametrize("text", ["01a8", "ffff", "0000"])
def test_a_beginning_of_no_id_is_refused(journal, text):
    with pytest.raises(NotFoundError, match=f"no decision whose id begins with '{text}'"):
        full_id(journal[0], text)


@pytest.mark.parametrize("text", ["", "019", "nonsense", "0192f6c1-0000-7000-8000-00000000000000"])
def test_what_is_no_beginning_of_an_id_is_refused(journal, text):
    with pytest.raises(NotFoundError, match="is not a decision id"):
        full_id(journal[0], text)


def test_last_is_the_newest_decision_whatever_was_recorded_after_it(journal):
    log, ids = journal
    assert full_id(log, "last") == ids[2]


def test_a_journal_without_decisions_has_no_last_one(tmp_path):
    JournalFolder(tmp_path / "journal")
    with pytest.raises(NotFoundError, match="has no decisions yet"):
        full_id(JournalLog(tmp_path / "journal"), "last")
