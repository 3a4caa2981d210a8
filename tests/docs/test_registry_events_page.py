"""docs/reference/registry-events.md says what the code does: kinds and their keys, fields, and the hash."""

import hashlib
import re
from pathlib import Path

import pytest

from flyball.registry.events.kinds import BODIES
from flyball.registry.tables.schema import events
from tests.support import registry_events
from tests.support.registry_events import promoted, registered

PAGE = Path(__file__).resolve().parents[2].joinpath("docs/reference/registry-events.md").read_text()


def test_the_page_has_every_kind_with_the_keys_of_its_body():
    rows = re.findall(r"^\| `(\w+)` \| ((?:`\w+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    told = {kind: re.findall(r"\w+", keys) for kind, keys in rows}
    assert told == {
        kind: [field.alias or name for name, field in body.model_fields.items()] for kind, body in BODIES.items()
    }


def test_the_page_has_every_field_of_an_event():
    section = PAGE.partition("## An event")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)`", section, re.MULTILINE) == [column.name for column in events.columns]


def test_the_hash_on_the_page_is_that_of_the_text_on_the_page():
    (text,) = re.findall(r"^(\{.*\})$", PAGE, re.MULTILINE)
    assert hashlib.sha256(text.encode()).hexdigest() in PAGE


def test_the_reader_on_the_page_follows_a_chain_and_finds_an_edit(tmp_path, monkeypatch):
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    database, log = registry_events.opened(registry_events.new_sqlite(tmp_path))
    log.append_all([registered("fraud", 1, actor="Zoë"), promoted("fraud", 1)])
    database.close()
    monkeypatch.chdir(tmp_path)
    found: dict[str, object] = {}
    exec(program, found)  # noqa: S102 - it is our own page
    assert found["previous"] == log.head().hash
    registry_events.past_the_triggers(tmp_path, "UPDATE events SET actor = 'eve' WHERE sequence = 1")
    with pytest.raises(AssertionError, match="eve"):
        exec(program, {})  # noqa: S102 - as above
    database.close()
