"""What becomes of a real server's records: compacted, held, erased and exported, they say the same and still verify."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import command_line, decision_documents
from tests.support.serving import Server, flyball, until
from tests.support.wire import Http

SPEC = """
decision: loan
owner: tests@example.com
purpose: tests
slo: {timeout: 1s}
input:
  account: {type: string, key: true, pii: true}
  amount:  {type: float, min: 0, max: 1000000}
features:
  letters: {compute: "size(account)", type: int}
model: {path: thousandth.onnx, columns: [amount], score: score}
policy:
  guard: {score: 0..1}
  bands: {approve: "< 0.5", decline: ">= 0.5"}
record: {durability: sync}
"""


def run(*words: str | Path, code: int = 0) -> str:
    ending = command_line.flyball("decisions", *words)
    assert ending.code == code, ending.text
    return ending.text


def loan(start: Callable[..., Server], folder: Path, *more: str) -> Server:
    decision_documents.thousandth(folder)
    (folder / "loan.yaml").write_text(SPEC)
    journal = ("--journal-folder", str(folder / "journal"), *more)
    return start(
        *flyball(), "serve", "--decision", folder / "loan.yaml", "--listen", "127.0.0.1:0", "--lanes", "1", *journal
    )


def sealed(journal: Path) -> None:
    """The last segment of a server that ended is sealed when the next writer begins."""
    run(
        "hold",
        "any",
        "--since",
        "2099-01-01",
        "--by",
        "tests",
        "--reason",
        "to begin a segment",
        "--journal-folder",
        journal,
    )


def decide(server: Server, account: str, amount: float = 700.0) -> str:
    with Http(server) as http:
        reply = http.post("/v1/decisions/loan", json.dumps({"input": {"account": account, "amount": amount}}).encode())
    assert reply.status == 200, reply.body
    return str(json.loads(reply.body)["id"])


def shown(journal: Path, identity: str) -> dict[str, Any]:
    """The decision as `show` reveals it."""
    document = json.loads(run("show", identity, "--json", "--reveal", "--journal-folder", journal))
    records = document["records"] if isinstance(document, dict) else document
    return next(record for record in records if record["kind"] == "decision")


@pytest.mark.timeout(120)
def test_a_subject_erased_before_compaction_is_erased_in_parquet_and_others_are_not(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    server, journal = loan(start, tmp_path), tmp_path / "journal"
    ann, bob = decide(server, "ann"), decide(server, "bob")
    with Http(server) as http:
        document = {"subject": "ann", "by": "dpo", "why": "asked"}
        assert http.post("/v1/erasures", json.dumps(document).encode()).status == 200
    assert server.stop().code == 0
    sealed(journal)
    run("compact", "--journal-folder", journal)
    assert list((journal / "parquet").rglob("*.parquet"))
    assert shown(journal, ann)["personal"] == "erased"
    assert "letters" not in shown(journal, ann)["features"]
    assert shown(journal, bob)["input"]["account"] == "bob"
    assert shown(journal, bob)["features"]["letters"]["value"] == 3
    asked = "SELECT id, erased, revealed FROM decisions ORDER BY seq"
    rows = [json.loads(line) for line in run("query", asked, "--reveal", "--json", "--journal-folder", journal).splitlines()]
    assert [(row["id"], row["erased"], row["revealed"]) for row in rows] == [
        (ann, True, "erased"),
        (bob, False, {"account": "bob", "letters": 3}),
    ]
    assert "verified" in run("verify", "--journal-folder", journal)


@pytest.mark.timeout(120)
def test_a_subject_erased_after_compaction_is_erased_in_parquet_unless_it_is_held(
    start: Callable[..., Server], tmp_path: Path
) -> None:
    server, journal = loan(start, tmp_path), tmp_path / "journal"
    ann = decide(server, "ann")
    assert server.stop().code == 0
    sealed(journal)
    run("compact", "--journal-folder", journal)
    orders = ("--by", "dpo", "--reason", "asked", "--journal-folder", journal)
    run("hold", "case-7", "--decision", "loan", *orders)
    assert "case-7" in run("erase", "ann", *orders, code=3)
    assert shown(journal, ann)["input"]["account"] == "ann"
    run("release", "case-7", *orders)
    run("erase", "ann", *orders)
    assert shown(journal, ann)["personal"] == "erased"
    run("compact", "--journal-folder", journal)
    assert "verified" in run("verify", "--journal-folder", journal)


@pytest.mark.timeout(120)
def test_an_exported_decision_is_proven_by_its_own_script(start: Callable[..., Server], tmp_path: Path) -> None:
    server, journal = loan(start, tmp_path), tmp_path / "journal"
    ann = decide(server, "ann")
    with Http(server) as http:
        document = {"id": ann, "decision": "loan", "truth": "repaid", "source": "ledger"}
        assert http.post("/v1/outcomes", json.dumps(document).encode()).status == 200
    assert server.stop().code == 0
    sealed(journal)
    pack = tmp_path / "pack.zip"
    run("export", ann, "--out", pack, "--reveal", "--journal-folder", journal)
    with zipfile.ZipFile(pack) as archive:
        archive.extractall(tmp_path / "pack")
    key = json.loads((journal / "node.json").read_text())["key"]
    command = [sys.executable, "-I", str(tmp_path / "pack" / "verify.py"), "--key", key]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert answer.stdout.splitlines()[-1] == "PROVEN", answer.stdout + answer.stderr
    assert "decision.json" in answer.stdout
    assert "runtime.json" in answer.stdout
    assert json.loads((tmp_path / "pack" / "policy.json").read_text())


@pytest.mark.timeout(120)
def test_a_server_with_a_schedule_compacts_beside_itself(start: Callable[..., Server], tmp_path: Path) -> None:
    config = tmp_path / "server.json"
    config.write_text(json.dumps({"journal_segment_s": 1, "journal_checkpoint_s": 1}))
    server = loan(start, tmp_path, "--compact-every", "1s", "--config", str(config))
    identity = decide(server, "ann")
    until("a segment in Parquet", lambda: list((tmp_path / "journal" / "parquet").rglob("decision=loan/*.parquet")), 60)
    assert identity in run("show", identity, "--journal-folder", tmp_path / "journal")
    assert decide(server, "bob")
    assert server.stop().code == 0
    assert "verified" in run("verify", "--journal-folder", tmp_path / "journal")
