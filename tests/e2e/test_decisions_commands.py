"""The log of a real server, read by the commands that its operators have."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import command_line, serving
from tests.support.journal_servers import ask_rows, command
from tests.support.serving import Ending, Server
from tests.support.wire import Http

SYNC = {"durability": "sync"}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """A journal of 20 decisions, and what its server answered. No account can occur in an id, a hash or a time by chance."""
    folder = tmp_path_factory.mktemp("recorded")
    place = folder / "journal"
    asked = [{"id": str(at), "input": {"account": f"owner-{at}", "amount": at}} for at in range(20)]
    with serving.serving(command(folder, place, SYNC)) as server:
        with Http(server) as connection:
            reply = connection.post("/v1/decisions/pay", {"rows": asked})
        assert reply.status == 200, reply.body
        assert server.stop().code == 0
    return place, reply.json["rows"]


def decisions(place: Path, *arguments: str) -> Ending:
    return command_line.flyball("decisions", *arguments, "--journal-folder", place)


def lines(ending: Ending) -> list[dict[str, Any]]:
    assert ending.code == 0, ending.stderr
    return [json.loads(line) for line in ending.stdout]


def test_every_decision_that_was_answered_is_found_by_a_query(recorded: tuple[Path, list[dict[str, Any]]]) -> None:
    place, rows = recorded
    found = lines(decisions(place, "query", "--decision", "pay", "--json"))
    assert [row["id"] for row in found] == [row["decision_id"] for row in rows]
    assert not any("row" in row for row in found)
    assert [row["outcome"] for row in found] == [row["outcome"] for row in rows]
    assert all("account" not in row["input"] for row in found)


def test_what_is_personal_is_shown_only_where_it_is_asked_for(recorded: tuple[Path, list[dict[str, Any]]]) -> None:
    place, _ = recorded
    (one,) = lines(decisions(place, "query", "--subject", "owner-7", "--reveal", "--json"))
    assert one["revealed"] == {"account": "owner-7", "row": "7"}
    shown = decisions(place, "show", one["id"])
    assert any("personal  encrypted" in line for line in shown.stdout)
    assert not any("owner-7" in line for line in shown.stdout)
    revealed = decisions(place, "show", one["id"], "--reveal")
    assert any("account = owner-7" in line for line in revealed.stdout)


def test_a_shown_decision_has_its_proof_and_verifies_alone(recorded: tuple[Path, list[dict[str, Any]]]) -> None:
    place, _ = recorded
    first = lines(decisions(place, "query", "select id from decisions order by seq limit 1", "--json"))[0]["id"]
    shown = decisions(place, "show", first)
    assert shown.code == 0, shown.stderr
    assert shown.stdout[0].startswith(f"{first}   pay   ")
    assert any(line.startswith("  proof: segment 000001, frame ") and "signed" in line for line in shown.stdout)
    assert decisions(place, "verify", first).code == 0
    assert decisions(place, "verify").code == 0


def test_tail_shows_what_is_decided_while_it_looks(start: Callable[..., Server], tmp_path: Path) -> None:
    place = tmp_path / "journal"
    server = start(*command(tmp_path, place, SYNC))
    ask_rows(server, 3)
    told = decisions(place, "tail", "--kind", "decision", "--last", "3", "--limit", "3", "--json")
    assert [record["input"]["amount"] for record in lines(told)] == [0, 1, 2]
    assert all(record["personal"] == "sealed" and "row" not in record for record in lines(told))
