"""`flyball registry verify` and `rebuild`: heads that were kept elsewhere, and tables that are made anew."""

import json

import pytest

from flyball.registry.events.event import Head
from flyball.registry.home import Home
from tests.support import registry_events
from tests.support.registry_events import promoted, registered


@pytest.fixture
def head(tmp_path, monkeypatch) -> Head:
    """A registry with three events; no artifacts, so `verify` always has something to say of these."""
    monkeypatch.setenv("FLYBALL_REGISTRY", str(tmp_path))
    Home.create(tmp_path)
    database, log = registry_events.opened(registry_events.new_sqlite(tmp_path))
    log.append_all([registered("fraud", 1), promoted("fraud", 1), promoted("fraud", 1, "staging")])
    database.close()
    return log.head()


def findings(run, *words: str) -> list[str]:
    code, out, _ = run("registry", "verify", "--json", *words)
    assert code == 4, "the artifacts are not there"
    return [finding for finding in json.loads(out)["findings"] if not finding.startswith("fraud@1:")]


def test_a_head_that_was_kept_is_found_in_the_chain(run, head):
    assert findings(run, "--head", f"{head.sequence}:{head.hash}") == []


def test_a_chain_that_ends_before_a_head_that_was_kept_is_told(run, head, tmp_path):
    registry_events.past_the_triggers(tmp_path, "DELETE FROM events WHERE sequence = 3")
    assert run("registry", "rebuild")[0] == 0
    assert findings(run) == []
    (finding,) = findings(run, "--head", f"{head.sequence}:{head.hash}")
    assert finding == "event 3: is missing; its hash was stored elsewhere, and the chain ends before it"


def test_what_is_no_head_is_told(run, head):
    code, _, told = run("registry", "verify", "--head", "last one")
    assert code == 2
    assert "write SEQUENCE:HASH" in told


def test_tables_that_were_changed_are_made_anew(run, head, tmp_path):
    registry_events.past_the_triggers(tmp_path, "UPDATE versions SET author = 'eve'")
    (finding,) = findings(run)
    assert "table versions" in finding
    code, out, _ = run("registry", "rebuild", "--json")
    assert (code, json.loads(out)) == (0, {"events": 3})
    assert findings(run) == []
