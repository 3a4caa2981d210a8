"""Who records by command signs with the journal's own key, and never becomes its signer by chance."""

import json

import pytest
from typer.testing import CliRunner

from flyball.cli.decisions import decisions
from flyball.decision_log.annotations import record_outcomes, record_override
from flyball.errors import JournalRefusedError, NotFoundError
from flyball.native.journal import Journal, JournalLog

ID = "01890a5d-ac96-774b-bcce-b302099a8057"
VERBS = {
    "hold": ["hold", "case-1", "--by", "ana", "--reason", "asked"],
    "erase": ["erase", ID, "--by", "ana", "--reason", "asked"],
}


@pytest.fixture
def key(tmp_path):
    path = tmp_path / "key"
    path.write_text("07" * 32)
    path.chmod(0o600)
    return path


@pytest.fixture
def folder(tmp_path, key):
    with Journal(tmp_path / "journal", key=key) as journal:
        journal.append({"kind": "outcome", "id": ID, "decision": "pay", "truth": "pass"})
    return tmp_path / "journal"


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_records_needs_the_key_that_the_journal_names(folder, key, verb):
    named = json.loads((folder / "node.json").read_text())["key"]
    before = len(list(JournalLog(folder).records()))
    refused = CliRunner().invoke(decisions, [*VERBS[verb], "--journal-folder", str(folder)])
    assert refused.exit_code != 0
    assert "key FILE" in str(refused.exception)
    assert len(list(JournalLog(folder).records())) == before
    done = CliRunner().invoke(decisions, [*VERBS[verb], "--journal-folder", str(folder), "--journal-key", str(key)])
    # Of an erasure's subject nothing is recorded here, which is found out after the key is.
    assert isinstance(done.exception, NotFoundError) if verb == "erase" else done.exit_code == 0, done.output
    assert json.loads((folder / "node.json").read_text())["key"] == named
    assert JournalLog(folder).verify().findings == []


def test_outcomes_and_overrides_are_told_with_that_key_alone(folder, key):
    told = {"by": "ana", "why": "known", "url": None, "folder": folder}
    with pytest.raises(JournalRefusedError, match="key FILE"):
        record_outcomes([{"id": ID, "decision": "pay", "truth": "fraud"}], url=None, folder=folder)
    with pytest.raises(JournalRefusedError, match="key FILE"):
        record_override("pay", ID, "pass", **told)
    record_outcomes([{"id": ID, "decision": "pay", "truth": "fraud"}], url=None, folder=folder, key=key)
    record_override("pay", ID, "pass", **told, key=key)
    assert [record["kind"] for record in JournalLog(folder).find(ID)] == ["outcome", "outcome", "override"]
