"""Erasures and legal holds while a server runs, what every reader says then, and a journal whose folder goes away."""

import json
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import command_line, journal_servers, serving
from tests.support.decision_documents import Json, deployment, document, thousandth
from tests.support.serving import Ending, Server, until
from tests.support.snapshots import write
from tests.support.wire import Http

ORDERS = ("--by", "dpo", "--reason", "request 4711 of Ann Example")
SYNC = {"durability": "sync", "when_unavailable": "fail_closed"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def server(tmp_path: Path, place: Path) -> Iterator[Server]:
    with serving.serving(journal_servers.command(tmp_path, place, SYNC)) as running:
        yield running


def decisions(*arguments: Any) -> Ending:
    return command_line.flyball("decisions", *arguments)


def ask(server: Server, method: str, path: str, document: Json | None = None) -> Any:
    with Http(server) as connection:
        body = b"" if document is None else json.dumps(document).encode()
        return connection.request(method, path, body)


def test_an_unknown_subject_is_not_found_and_not_repeated(server: Server, place: Path) -> None:
    journal_servers.ask_rows(server, 1)
    reply = ask(server, "POST", "/v1/erasures", {"subject": "nobody-17", "by": "dpo", "why": "asked"})
    assert (reply.status, reply.json["type"]) == (404, "urn:flyball:fault:record_not_found")
    assert "nobody-17" not in json.dumps(reply.json)
    ending = decisions("erase", "nobody-17", *ORDERS, "--url", server.url)
    assert (ending.code, "nobody-17" in ending.text) == (3, False)
    assert journal_servers.records(place, "erased") == []


def test_every_reader_says_erased_without_a_key(server: Server, place: Path, tmp_path: Path) -> None:
    first, other = journal_servers.ask_rows(server, 2)
    ending = decisions("erase", "a0", *ORDERS, "--url", server.url)
    assert ending.stdout == ["erased: 1 record"]
    where = ("--journal-folder", place)
    shown = decisions("show", first["decision_id"], *where).stdout
    (erased,) = [line for line in shown if line.startswith("  personal  ")]
    assert erased.startswith("  personal  erased 20")
    assert erased.endswith(", by dpo (not authenticated); show the reason with --reveal")
    assert any("encrypted; show it with --reveal" in line for line in decisions("show", other["decision_id"], *where).stdout)
    rows = decisions("query", "select id, erased from decisions order by seq", "--json", *where).stdout
    assert [json.loads(row)["erased"] for row in rows] == [True, False]
    ending = server.stop()
    assert (ending.code, "Ann Example" in ending.text) == (0, False)
    pack = tmp_path / "pack.zip"
    assert decisions("export", first["decision_id"], "--out", pack, *where).code == 0
    shutil.unpack_archive(pack, tmp_path / "pack")
    told = json.loads(next((tmp_path / "pack" / "records").glob("*-decision.json")).read_text())
    assert told["personal"] == "erased"
    log = b"".join(path.read_bytes() for path in (place / "segments").iterdir())
    assert b"Ann Example" not in log  # the reason is personal too
    assert decisions("verify", *where).code == 0


@pytest.mark.parametrize("compacted", [False, True])
def test_the_reason_of_an_erasure_is_read_with_the_key(server: Server, place: Path, *, compacted: bool) -> None:
    (first,) = journal_servers.ask_rows(server, 1)
    assert decisions("erase", "a0", *ORDERS, "--url", server.url).code == 0
    # What is recorded of the subject after an erasure is removed by the next one.
    (second,) = journal_servers.ask_rows(server, 1)
    assert decisions("erase", "a0", "--by", "ana", "--reason", "asked again", "--url", server.url).code == 0
    assert server.stop().code == 0
    where = ("--journal-folder", place)
    if compacted:
        assert decisions("compact", *where).code == 0
        assert not list((place / "segments").glob("*1.fbj"))
    for row, by, why in ((first, "dpo", ORDERS[3]), (second, "ana", "asked again")):
        shown = decisions("show", row["decision_id"], "--reveal", *where).stdout
        assert any(line.endswith(f", by {by} (not authenticated): {why}") for line in shown), shown
        told = json.loads("".join(decisions("show", row["decision_id"], "--json", *where).stdout))["erasure"]
        assert (told["by"], told["why"], told["personal"]) == (by, None, "sealed")
    asked = ("query", "select id, why from events where kind = 'erased' order by seq", "--json", *where)
    sealed = [json.loads(row) for row in decisions(*asked).stdout]
    opened = [json.loads(row) for row in decisions(*asked, "--reveal").stdout]
    assert [row["why"] for row in sealed] == [None, None]
    assert [row["why"] for row in opened] == [ORDERS[3], "asked again"]
    ending = decisions("show", opened[0]["id"], *where)
    assert (ending.code, f"{opened[0]['id']} is an erasure, not a decision" in ending.text) == (3, True)


def test_a_hold_is_ordered_and_released_over_http_and_stops_an_erasure(server: Server, place: Path) -> None:
    journal_servers.ask_rows(server, 1)
    order = {"name": "case 7", "by": "legal", "why": "court", "decision": "pay", "from": "2020-01-01T00:00:00Z"}
    assert ask(server, "POST", "/v1/holds", order).json == {"recorded": 1}
    assert ask(server, "POST", "/v1/holds", order).status == 409
    (held,) = ask(server, "GET", "/v1/holds").json["holds"]
    assert (held["name"], held["decision"], held["from"], held["to"]) == ("case 7", "pay", "2020-01-01T00:00:00Z", None)
    erasure = {"subject": "a0", "by": "dpo", "why": "asked"}
    refused = ask(server, "POST", "/v1/erasures", erasure)
    assert (refused.status, refused.json["type"]) == (409, "urn:flyball:fault:held")
    assert "case 7" in refused.json["detail"]
    release = {"by": "legal", "why": "settled"}
    assert ask(server, "DELETE", "/v1/holds/other", release).status == 404
    assert ask(server, "DELETE", "/v1/holds/case%207", release).json == {"recorded": 1}
    assert ask(server, "GET", "/v1/holds").json == {"holds": []}
    assert ask(server, "POST", "/v1/erasures", erasure).json["records"] == 1
    assert [record["name"] for record in journal_servers.records(place, "release")] == ["case 7"]


def test_a_hold_on_a_decision_that_nobody_knows_is_refused(server: Server, place: Path) -> None:
    """It would protect nothing, and its order would look as if it did."""
    order = {"name": "case 9", "by": "legal", "why": "claim", "decision": "laon"}
    reply = ask(server, "POST", "/v1/holds", order)
    assert (reply.status, "unknown decision 'laon': not served or recorded" in str(reply.json)) == (404, True)
    assert ask(server, "GET", "/v1/holds").json == {"holds": []}
    assert journal_servers.records(place, "hold") == []


def test_the_commands_order_and_release_holds_through_a_server(server: Server) -> None:
    journal_servers.ask_rows(server, 1)
    to = ("--url", server.url)
    assert decisions("hold", "case-7", *ORDERS, "--since", "1d", *to).code == 0
    assert "case-7   every decision from " in decisions("holds", *to).stdout[0]
    assert "case-7" in decisions("erase", "a0", *ORDERS, *to).text
    assert decisions("release", "case-7", *ORDERS, *to).code == 0
    assert decisions("holds", *to).stdout == ["no hold is in force"]
    assert decisions("erase", "a0", *ORDERS, *to).code == 0


def test_verify_finds_a_restored_key_and_a_missing_blob(server: Server, place: Path) -> None:
    journal_servers.ask_rows(server, 1)
    before = (place / "subjects").read_bytes()
    assert ask(server, "POST", "/v1/erasures", {"subject": "a0", "by": "dpo", "why": "asked"}).status == 200
    assert server.stop().code == 0
    assert journal_servers.verify(place).code == 0
    after = (place / "subjects").read_bytes()
    (place / "subjects").write_bytes(before + after[len(before) :])
    ending = journal_servers.verify(place)
    assert (ending.code, "its key is back" in ending.text) == (4, True)
    (place / "subjects").write_bytes(after)
    next((place / "blobs").iterdir()).unlink()
    ending = journal_servers.verify(place)
    assert (ending.code, "is missing" in ending.text) == (4, True)


@pytest.mark.parametrize(("when_unavailable", "status"), [("fail_closed", 503), ("serve_unlogged", 200)])
def test_a_deleted_journal_folder_is_noticed_and_follows_when_unavailable(
    tmp_path: Path, place: Path, when_unavailable: str, status: int
) -> None:
    record = {"durability": "buffered", "when_unavailable": when_unavailable}
    with serving.serving(journal_servers.command(tmp_path, place, record)) as server:
        journal_servers.ask_rows(server, 1)
        until("all is on the disk", lambda: ask(server, "GET", "/v1/journal").json["unsynced_records"] == 0)
        shutil.move(place, tmp_path / "away")
        until("the journal is gone", lambda: ask(server, "GET", "/v1/journal").json["unavailable"] == "gone")
        reply = ask(server, "POST", "/v1/decisions/pay", {"input": {"account": "a", "amount": 1}})
        assert reply.status == status
        assert not place.exists()
        shutil.move(tmp_path / "away", place)
        until("the journal is back", lambda: ask(server, "GET", "/v1/journal").json["unavailable"] is None)
        assert ask(server, "POST", "/v1/decisions/pay", {"input": {"account": "a", "amount": 1}}).status == 200
    assert journal_servers.verify(place).code == 0
    gaps = journal_servers.records(place, "gap")
    assert [gap["reasons"] for gap in gaps][-1:] == ([] if status == 503 else [{"gone": 1}])


def windowed(folder: Path, place: Path, features: Path) -> list[str]:
    """flyballd with a decision that counts payments of an account."""
    window = {"name": "payments", "type": "float", "window": {"op": "count", "by": "account", "last_ms": 3_600_000}}
    changes = {"input": [journal_servers.ACCOUNT, journal_servers.AMOUNT], "features": [window], "record": SYNC}
    index = write(folder, 1, [deployment(document(**changes), {"1": thousandth(folder)})])
    config = folder / "config.json"
    settings = {"journal_folder": str(place), "features_folder": str(features), "lanes": 1}
    config.write_text(json.dumps(settings))
    return [*serving.flyballd(), "--snapshot", str(index), "--listen", "127.0.0.1:0", "--config", str(config)]


def test_an_erasure_removes_windows_and_nothing_beside_the_journal_names_anybody(tmp_path: Path, place: Path) -> None:
    features = tmp_path / "features"
    with serving.serving(windowed(tmp_path, place, features)) as server:
        journal_servers.ask_rows(server, 2)
        told = ask(server, "POST", "/v1/erasures", {"subject": "a0", "by": "dpo", "why": "asked"}).json
        assert (told["records"], told["windows"]) == (1, 1)
        assert server.stop().code == 0
    for folder in (features, place):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for path in folder.rglob("*"):
            assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
    told = decisions("erase", "a1", *ORDERS, "--journal-folder", place, "--features-folder", features, "--json")
    assert json.loads("".join(told.stdout))["windows"] == 1
