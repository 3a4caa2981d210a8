"""What the verbs of `flyball decisions` say: to people, to machines, and when they cannot."""

import json
import sys
import uuid
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from flyball.decision_log.proof import evidence_check
from flyball.decision_log.read.query import by_sql
from flyball.decision_log.read.records import find
from flyball.decision_log.read.show import Proven, lines
from flyball.decision_log.read.whole_log import WholeLog
from flyball.errors import MissingExtraError
from tests.support import journal_folders
from tests.support.handwritten_log import ID, HandwrittenLog, decision, told
from tests.support.journal_folders import HOUR_NS, JournalFolder, cbor, decision_pairs

LONG = {"story": "x" * 9_000, "amount": 12.5}


@pytest.fixture
def journal(tmp_path: Path) -> JournalFolder:
    return JournalFolder(tmp_path / "journal")


@pytest.fixture
def verb(run: Any, journal: JournalFolder) -> Any:
    def asked(*words: str) -> tuple[int, str, str]:
        journal.write()
        journal.checkpoint()
        return run("decisions", *words, "--journal-folder", str(journal.path))

    return asked


def long_decision(journal: JournalFolder, *, kept: bool = True) -> uuid.UUID:
    """Whose input lies beside the log."""
    pairs = decision_pairs("loan", "reject", journal.now_ns)
    del pairs["input"]
    content = cbor(LONG)
    digest = journal.blob(content)
    if not kept:
        (journal.path / "blobs" / f"sha256-{digest.hex()}").unlink()
    identity = uuid.UUID(int=(journal.now_ns // 1_000_000) << 80 | 0x7 << 76 | 0x8 << 60 | 77)
    journal.add("decision", identity, **pairs, input_blob=[digest, len(content)])
    journal.write()
    return identity


def without(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """As on a machine that never had them, whatever was imported here before."""
    for name in [name for name in sys.modules if name.startswith("flyball.decision_log.")]:
        monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr("flyball.decision_log." + name.rpartition(".")[2], raising=False)
    for name in packages:
        monkeypatch.setitem(sys.modules, name, None)


def test_stages_are_shown_in_the_order_of_the_walk(verb: Any, journal: JournalFolder) -> None:
    _, out, _ = verb("show", str(journal.decide()))
    assert (
        "  parse 6 µs · route 1 · admit 1 · features 9 · tensor 4 · queue 2 · infer 21 · policy 8 · record 2   total" in out
    )


def test_a_value_that_is_not_there_is_not_said_to_be_sealed(tmp_path: Path) -> None:
    reasons = [{"code": "R9", "field": "history", "contribution": 0.5}]
    log = HandwrittenLog(tmp_path, decision(1, reasons=reasons))
    shown = [line.plain for line in lines(find(log, ID.format(1)), Proven(1, 0, [], None, sealed=False), {})]
    assert "  R9   history = encrypted or not given, +0.50" in shown


def test_one_is_not_counted_as_many(verb: Any, journal: JournalFolder) -> None:
    journal.decide()
    code, out, err = verb("verify")
    assert (code, err) == (0, "verify: 1 segment\n")
    assert "verified   1 record in 1 segment, 1 checkpoint\n" in out


def serve(journal: JournalFolder, policy: dict[str, Any]) -> None:
    """Decision loan serves with a policy from now on."""
    pairs = decision_pairs("loan", "review", journal.now_ns)
    document = {"name": "loan", "decision": {"policy": policy}, "versions": [
        {"version": "7", "artifact": {"digest": "sha256:" + pairs["models"][0][2].hex()}}
    ]}  # fmt: skip
    deployment, runtime = journal.blob(json.dumps(document).encode()), journal.blob(b"{}")
    names = {name: pairs[name] for name in ("decision", "document", "policy", "schema")}
    journal.add("served", **names, deployment=deployment, runtime=runtime, base="/srv")


def test_a_review_is_settled_with_an_outcome_that_the_decision_has(verb: Any, journal: JournalFolder) -> None:
    serve(journal, {"outcomes": ["review", "grant", "decline"]})
    journal.decide("loan", "review")
    _, out, _ = verb("review")
    assert "--outcome grant --by NAME" in out


def test_rules_that_fired_are_numbered_as_in_a_plan_with_their_codes(verb: Any, journal: JournalFolder) -> None:
    rules = [{"when": "amount > 9.0", "then": "review", "reason": "TOO_MUCH"}, {"when": "true", "then": "review"}]
    serve(journal, {"outcomes": ["review"], "rules": rules})
    pairs = {**decision_pairs("loan", "review", journal.now_ns), "rules": ["0", "1"], "reasons": []}
    journal.add("decision", identity := uuid.UUID(int=(journal.now_ns // 1_000_000) << 80 | 0x7 << 76 | 0x8 << 60), **pairs)
    _, out, err = verb("show", str(identity))
    assert "  rules that fired: rule 1 (TOO_MUCH), rule 2\n" in out, err


def test_sql_and_filters_together_are_refused_by_name(verb: Any) -> None:
    code, _, err = verb("query", "select 1", "--decision", "loan")
    assert code == 2
    assert "SQL cannot be combined with --decision" in err
    assert "from decisions where decision = 'NAME'" in err


def test_what_is_revealed_is_a_column_of_sql_too(verb: Any, journal: JournalFolder) -> None:
    journal.decide()
    code, out, err = verb("query", "select revealed from decisions", "--json")
    assert (code, "revealed" in err) == (2, True), out
    log = HandwrittenLog(journal.path, decision(1, personal=None, personal_fields=["country"]))
    with by_sql(log, "select revealed from decisions", reveal=True) as answer:
        assert list(answer.rows()) == [{"revealed": {"country": "FR"}}]


def test_segments_that_ended_before_a_time_are_not_read(journal: JournalFolder) -> None:
    for _ in range(4):
        journal.decide()
        journal.seal(hours=3)
    wanted = journal.decide()
    journal.write()
    journal.file(1).write_bytes(journal.file(1).read_bytes()[:256] + b"broken")
    log = WholeLog(journal.path)
    assert log.first_since(journal.now_ns - 4 * HOUR_NS) == 3
    assert [record["id"] for record in log.records(since_ns=journal.now_ns)] == [str(wanted)]
    assert log.first_since(journal.now_ns - 100 * HOUR_NS) == log.first_since(None) == 0


def test_an_input_that_lies_beside_the_log_is_put_back(verb: Any, journal: JournalFolder) -> None:
    identity = long_decision(journal)
    log = WholeLog(journal.path)
    assert [record["input"] for record in [*log.find(str(identity)), *log.records()]] == [LONG, LONG]
    _, out, _ = verb("tail", "--limit", "1", "--json")
    assert json.loads(out)["input"] == LONG


def test_an_input_that_is_not_beside_the_log_any_more_is_missed_aloud(verb: Any, journal: JournalFolder) -> None:
    _, out, _ = verb("show", str(long_decision(journal, kept=False)))
    assert "bytes, stored beside the log, cannot be read: sha256:" in out


def test_a_pack_has_the_input_that_lay_beside_the_log_and_a_changed_one_is_found(
    verb: Any, journal: JournalFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    identity = long_decision(journal)
    journal.seal()
    assert verb("export", str(identity), "--out", str(tmp_path / "pack.zip"))[0] == 0
    with zipfile.ZipFile(tmp_path / "pack.zip") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    assert files["input.cbor"] == cbor(LONG)
    with pytest.raises(evidence_check.NotProvenError, match="the served record of the decision is missing"):
        evidence_check.check(files, None)  # the records hold; nothing was served in this journal
    name = next(name for name in files if name.endswith("decision.json") and name.startswith("records/"))
    files[name] = files[name].replace(b"12.5", b"13.5")
    with pytest.raises(evidence_check.NotProvenError, match="input of the readable record differs"):
        evidence_check.check(files, None)


def test_what_is_not_compacted_is_read_without_pyarrow(
    verb: Any, journal: JournalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = str(journal.decide())
    without(monkeypatch, "pyarrow", "duckdb")
    for words in (["show", identity], ["verify"], ["verify", identity], ["tail", "--limit", "1"], ["review"]):
        code, _, err = verb(*words)
        assert code == 0, err
    for words in (["query"], ["query", "--columns"]):
        code, _, err = verb(*words)
        assert (code, "pip install 'flyball[journal]'" in err) == (2, True), err


def test_what_is_compacted_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flyball.decision_log.retention.compact import compact

    journal_folders.filled(tmp_path, [3])
    compact(WholeLog(tmp_path))
    monkeypatch.delitem(sys.modules, "flyball.decision_log.retention.parquet_segment")
    monkeypatch.delattr("flyball.decision_log.retention.parquet_segment")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match="compacted records need pyarrow"):
        list(WholeLog(tmp_path).records())


@pytest.mark.parametrize("when", ["9999-01-01", "0001-01-01", "999999999999d"])
def test_a_time_that_no_log_has_is_refused(verb: Any, when: str) -> None:
    code, _, err = verb("query", "--since", when)
    assert (code, f"{when!r} is out of range" in err) == (2, True), err


def test_the_last_truth_counts_with_its_own_source(tmp_path: Path) -> None:
    first = told("outcome", 1, decision="card-fraud", truth="fraud", when=None, source="bank", caller=None)
    last = told("outcome", 1, decision="card-fraud", truth="paid", when=None, source=None, caller=None)
    with by_sql(HandwrittenLog(tmp_path, decision(1), first, last), "select truth, truth_source from decisions") as answer:
        assert list(answer.rows()) == [{"truth": "paid", "truth_source": None}]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["tail", "--kind", "nonsense"], 2, "unknown kind 'nonsense'"),
        (["verify", "--segment", "9"], 3, "has no segment 9"),
        (["verify", "--checkpoint", __file__], 3, "not a journal's checkpoint"),
        (["outcome", ID.format(8), "--truth", "fraud"], 3, f"has no decision {ID.format(8)}"),
        (["query", "--csv", "--json"], 2, "give either --csv or --json"),
    ],
)
def test_what_cannot_be_meant_is_refused(verb: Any, words: list[str], code: int, said: str) -> None:
    refused, _, err = verb(*words)
    assert (refused, said in err) == (code, True), err


@pytest.mark.parametrize(
    "words", [["outcome", "--truth", "bad"], ["override", "--outcome", "approve", "--by", "ana", "--reason", "known"]]
)
def test_what_is_told_of_a_record_under_another_decision_is_refused(
    verb: Any, journal: JournalFolder, words: list[str]
) -> None:
    identity = journal.decide("nokey")
    given = [words[0], str(identity), *words[1:], "--decision", "loan"]
    # Nothing listens there: that nothing was sent is seen from the error.
    code, _, err = verb(*given, "--url", "http://127.0.0.1:1")
    assert (code, f"record {identity} belongs to decision 'nokey', not 'loan'" in err) == (3, True), err


@pytest.mark.parametrize("words", [["override"], ["review", "settle"]])
def test_the_help_of_an_override_says_that_its_texts_outlive_an_erasure(run: Any, words: list[str]) -> None:
    code, out, _ = run("decisions", *words, "--help")
    plain = " ".join(out.replace("│", " ").split())
    assert (code, plain.count("that is never erased: no personal data")) == (0, 2), out


def test_json_is_json_wherever_it_is_asked_for(verb: Any, journal: JournalFolder, tmp_path: Path) -> None:
    identity = str(journal.decide())
    journal.seal()
    rows, pack = str(tmp_path / "rows.csv"), str(tmp_path / "pack.zip")
    for words in (
        ["show", identity], ["verify"], ["verify", identity], ["checkpoint"], ["review"], ["holds"],
        ["query", "--out", rows], ["query", "--columns"], ["query"], ["export", identity, "--out", pack],
    ):  # fmt: skip
        code, out, err = verb(*words, "--json")
        assert code == 0, err
        assert json.loads(out) is not None


@pytest.mark.parametrize("seals", [True, False])
def test_an_export_has_the_server_seal_first(verb: Any, journal: JournalFolder, tmp_path: Path, *, seals: bool) -> None:
    identity, asked = journal.decide(), []

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers["content-length"]))
            if seals:
                journal.seal()
            body = json.dumps({"segment": 1, "checkpoint": ""} if seals else {"detail": "Not Found"}).encode()
            self.send_response(200 if seals else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = HTTPServer(("127.0.0.1", 0), Server)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        code, out, err = verb("export", str(identity), "--out", str(tmp_path / "pack.zip"), "--url", url)
    finally:
        server.shutdown()
        server.server_close()
    assert asked == ["/v1/journal/seals"]
    if seals:
        assert (code, "1 record under a checkpoint over 1 segment" in out) == (0, True), err
    else:
        assert code == 5
        assert f"{url} did not seal the segment" in err
        assert "no proof yet" in err
