"""A server with a journal: what is told of decisions later, who may erase, and what a start says that cannot be."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flyball.native.journal import JournalLog
from tests.support import journal_servers, serving
from tests.support.serving import Server
from tests.support.wire import Http, metrics

ID = "01a8b0c4-7f2e-7c11-9d5e-3f6f0c8a1b2d"
OVERRIDE = {"id": ID, "decision": "pay", "outcome": "pass", "by": "ann", "why": "a letter came"}
ERASURE = {"subject": "a0", "by": "ann", "why": "request 4711"}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def server(tmp_path: Path, place: Path) -> Iterator[Server]:
    with serving.serving(journal_servers.command(tmp_path, place, {"durability": "sync"})) as running:
        yield running


def tell(server: Server, path: str, document: Any) -> Any:
    with Http(server) as connection:
        return connection.post(path, document)


def test_what_is_told_is_recorded_under_its_decision(server: Server, place: Path) -> None:
    [decided] = journal_servers.ask_rows(server, 1)
    known = decided["decision_id"]
    told = tell(
        server, "/v1/outcomes", {"id": known, "decision": "pay", "truth": {"paid": False}, "when": "2026-11-16T09:30:00Z"}
    )
    assert (told.status, told.json) == (200, {"recorded": 1})
    assert tell(
        server, "/v1/outcomes", {"outcomes": [{"id": known, "decision": "pay", "truth": n} for n in range(3)]}
    ).json == {"recorded": 3}
    assert tell(server, "/v1/overrides", {**OVERRIDE, "id": known}).json == {"recorded": 1}
    outcomes = journal_servers.records(place, "outcome")
    assert [record["truth"] for record in outcomes] == [{"paid": False}, 0, 1, 2]
    assert outcomes[0]["when"] == 1_794_821_400 * 10**9
    assert {record["id"] for record in outcomes} == {uuid.UUID(known).bytes}
    assert [record["why"] for record in journal_servers.records(place, "override")] == ["a letter came"]


def test_an_erased_subject_is_gone_and_the_log_still_verifies(server: Server, place: Path) -> None:
    journal_servers.ask_rows(server, 2)
    before = (place / "subjects").read_bytes()
    told = {"recorded": 1, "records": 1, "windows": 0, "cached": 0, "stored": 0}
    assert tell(server, "/v1/erasures", ERASURE).json == told
    after = (place / "subjects").read_bytes()
    changed = [at for at in range(0, len(before), 128) if before[at] == 1 and before[at : at + 128] != after[at : at + 128]]
    assert len(changed) == 1  # beside it the key of the reason is new
    assert after[changed[0]] == 2
    assert after[changed[0] + 48 : changed[0] + 108] == bytes(60)
    assert len(journal_servers.records(place, "erased")) == 1


@pytest.mark.parametrize(
    ("path", "document", "says"),
    [
        ("/v1/outcomes", {"id": "x", "decision": "pay", "truth": 1}, "'x' is not a decision id"),
        ("/v1/outcomes", {"id": ID, "decision": "pay", "truth": [1]}, "truth must be"),
        ("/v1/outcomes", {"id": ID, "decision": "pay", "truth": 1, "colour": 2}, "unknown field `colour`"),
        ("/v1/outcomes", {"id": ID, "decision": "pay", "truth": 1, "when": "yesterday"}, "when is no time"),
        (
            "/v1/outcomes",
            {"outcomes": [{"id": ID, "decision": "pay", "truth": 1}, {"id": "y", "decision": "pay", "truth": 1}]},
            "outcomes[1]",
        ),
        ("/v1/overrides", {**OVERRIDE, "by": " "}, "by is empty"),
        ("/v1/erasures", {"subject": "a0"}, "missing field `by`"),
        ("/v1/journal/seals", {"segment": 7}, "unknown field `segment`"),
    ],
)
def test_what_is_not_as_the_page_says_is_refused_and_named(server: Server, path: str, document: Any, says: str) -> None:
    reply = tell(server, path, document)
    assert reply.status == 400
    assert reply.json["type"] == "urn:flyball:fault:malformed_request"
    assert says in reply.json["detail"]


def test_each_verb_of_the_journal_needs_its_own_right_and_the_caller_is_recorded(tmp_path: Path, place: Path) -> None:
    callers = tmp_path / "callers.json"
    rights = {
        "truth": "outcome:pay",
        "desk": "override:pay",
        "dpo": "erase",
        "operator": "control",
        "other": "override:loan",
    }
    add = [*serving.flyball(), "caller", "add", "--callers", str(callers)]
    told = {name: serving.run([*add, name, "--may", right, "--may", "decide:pay"]).text for name, right in rights.items()}
    keys = {name: next(word for word in text.split() if word.startswith("fb_")) for name, text in told.items()}
    asked = {
        "truth": ("/v1/outcomes", {"id": ID, "decision": "pay", "truth": 1}),
        "desk": ("/v1/overrides", OVERRIDE),
        "dpo": ("/v1/erasures", ERASURE),
        "operator": ("/v1/journal/seals", {}),
    }
    settings = {"callers": str(callers), "allow_anonymous": True}
    with serving.serving(journal_servers.command(tmp_path, place, None, **settings)) as server, Http(server) as connection:
        row = {"input": {"account": ERASURE["subject"], "amount": 1}}
        assert connection.post("/v1/decisions/pay", row, **{"x-api-key": keys["truth"]}).status == 200
        for entitled, (path, document) in asked.items():
            for name, key in keys.items():
                status = connection.post(path, document, **{"x-api-key": key}).status
                assert status == (200 if name == entitled else 403), (name, path)
            assert connection.post(path, document).status == 403, "nobody gave anonymous callers a right"
    for kind, caller in (("outcome", "truth"), ("override", "desk"), ("erased", "dpo")):
        assert [record["caller"] for record in journal_servers.records(place, kind)] == [caller]


def test_an_override_names_an_outcome_of_the_policy_of_a_decision_that_serves(server: Server) -> None:
    refused = tell(server, "/v1/overrides", {**OVERRIDE, "outcome": "banana"})
    assert (refused.status, refused.json["detail"]) == (
        400,
        "'banana' is no outcome of decision 'pay'; allowed: pass, review, reject",
    )
    for path, document in (("/v1/overrides", OVERRIDE), ("/v1/outcomes", {"id": ID, "truth": 1})):
        reply = tell(server, path, {**document, "decision": "loan"})
        assert (reply.status, reply.json["detail"]) == (404, "unknown decision 'loan'; serving: pay")


def test_a_seal_puts_what_was_decided_under_a_checkpoint(server: Server, place: Path) -> None:
    journal_servers.ask_rows(server, 5)
    sealed = tell(server, "/v1/journal/seals", {}).json
    log = JournalLog(place)
    assert sealed == {"segment": 1, "checkpoint": log.checkpoints()[-1]}
    for record in log.records(kinds=["decision"]):
        proof = log.prove(record["seq"])
        assert (proof.findings, proof.checkpoint) == ([], sealed["checkpoint"])
    assert tell(server, "/v1/journal/seals", {}).json["segment"] == 1  # nothing came since


def test_how_the_journal_is(server: Server) -> None:
    journal_servers.ask_rows(server, 5)
    with Http(server) as connection:
        facts = connection.get("/v1/journal").json
    assert facts["records"]["decision"] == 5
    assert (facts["unavailable"], facts["loss_ms_max"]) == (None, 1000)
    page = metrics(server)
    assert page.sum("flyball_journal_records_total", kind="decision") == 5
    assert page.sum("flyball_journal_available") == 1
    assert page.sum("flyball_journal_sync_seconds_count") == page.sum("flyball_journal_syncs_total") > 0


def test_without_a_journal_nothing_is_taken_and_the_log_says_so(tmp_path: Path, place: Path) -> None:
    command = journal_servers.command(tmp_path, place, None, journal_folder=None)
    with serving.serving(command) as server:
        for path, document in (
            ("/v1/outcomes", {"id": ID, "decision": "pay", "truth": 1}),
            ("/v1/overrides", OVERRIDE),
            ("/v1/erasures", ERASURE),
            ("/v1/journal/seals", {}),
        ):
            reply = tell(server, path, document)
            assert (reply.status, reply.json["type"]) == (503, "urn:flyball:fault:record_failed")
        with Http(server) as connection:
            assert connection.get("/v1/journal").status == 503
    assert not place.exists()


def test_two_servers_do_not_share_a_journal(tmp_path: Path, server: Server, place: Path) -> None:
    ending = serving.run(journal_servers.command(tmp_path, place, None))
    assert ending.code != 0
    assert str(place) in ending.text


def test_another_key_is_found_out_at_the_start(tmp_path: Path, place: Path) -> None:
    with serving.serving(journal_servers.command(tmp_path, place, None)):
        pass
    (place / "kek").write_text("00" * 32)
    ending = serving.run(journal_servers.command(tmp_path, place, None))
    assert ending.code != 0
    assert "another key-encryption key" in ending.text


def test_what_was_decided_before_a_drain_is_recorded_and_sealed(tmp_path: Path, place: Path) -> None:
    with serving.serving(journal_servers.command(tmp_path, place, None)) as server:
        decided = journal_servers.ids_of(journal_servers.ask_rows(server, 50))
        assert server.stop().code == 0
    assert {record["id"] for record in journal_servers.records(place, "decision")} == decided
