"""The verbs of decisions in this process: what they print for people and for machines, and how they fail."""

import csv
import json

import pytest

from tests.support.decision_folders import PLAIN, WHOLE, folder, plain

ROW = {"card_id": "c-1", "amount": 12.5, "currency": "EUR", "country": "DE"}


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder(tmp_path)
    return "card-fraud.yaml"


def test_check_explains_a_good_decision_and_shows_what_comes_next(run, spec):
    code, out, errors = run("check", spec)
    assert (code, errors) == (0, "")
    assert out.startswith("card-fraud   score card payments before authorisation   (payments-risk@example.com)\n")
    for words in (
        "card_id (key, pii)", "8 columns → fraud sha256:", "→ probabilities[1]",
        "2 rules; pass < 0.3, review 0.3..0.8, reject >= 0.8",
        "feature_error → review", "p99 5ms, timeout 200ms, rate 2000/s",
    ):  # fmt: skip
        assert words in out
    assert out.endswith(f"No faults.   Next:  flyball plan {spec}   or   flyball serve --decision {spec}\n")


@pytest.mark.parametrize("key", ["record: {durability: sync}", "expose: tensors"])
def test_what_needs_a_journal_is_served_next_with_one(run, spec, tmp_path, key):
    (tmp_path / spec).write_text(f"{WHOLE}\n{key}\n")
    serve = f"flyball serve --decision {spec} --journal-folder DIR\n"
    assert run("check", spec)[1].endswith(f"or   {serve}")
    assert run("plan", spec)[1].endswith(f"Next:  {serve}")


def test_check_tells_every_fault_with_its_line_and_changes_nothing(run, spec, tmp_path):
    text = WHOLE.replace("country != 'DE'", "contry != 'DE'").replace('review: "< 0.80"', 'review: "< 0.75"')
    (tmp_path / spec).write_text(text)
    code, out, errors = run("check", spec)
    assert (code, errors) == (3, "")
    first, second, last = out.splitlines()
    assert first.startswith("card-fraud.yaml:37  policy.rules[0].when   ")
    assert "country" in first
    assert second.startswith("card-fraud.yaml:39  policy.bands")
    assert "belongs to no band" in second
    assert last == "2 faults. Nothing was changed."
    assert (tmp_path / spec).read_text() == text


def test_check_tells_machines_of_every_file(run, spec, tmp_path):
    (tmp_path / "bad.yaml").write_text(WHOLE.replace("owner:", "ownr:"))
    code, out, _ = run("check", spec, "bad.yaml", "none.yaml", "--json")
    assert code == 3
    good, bad, none = json.loads(out)["files"]
    assert (good["good"], good["decision"], good["models"][0]["model"]) == (True, "card-fraud", "fraud")
    assert (bad["good"], {fault["path"] for fault in bad["faults"]}) == (False, {"ownr"})
    assert bad["faults"][0]["text"] == "unknown key; did you mean owner?"
    assert bad["faults"][0]["at"].startswith("bad.yaml:")
    assert "cannot read none.yaml" in none["error"]


def test_plan_shows_the_stages_in_their_order(run, spec):
    code, out, _ = run("plan", spec)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "card-fraud"
    assert out.index("parse") < out.index("features") < out.index("tensor") < out.index("infer") < out.index("policy")
    assert lines[-1] == f"Next:  flyball serve --decision {spec}"
    stages = json.loads(run("plan", spec, "--json")[1])["stages"]
    assert stages[0]["stage"] == "parse"


def test_plan_refuses_what_check_refuses(run, spec, tmp_path):
    (tmp_path / spec).write_text(WHOLE.replace("owner:", "ownr:"))
    code, out, errors = run("plan", spec)
    assert (code, out) == (3, "")
    assert "card-fraud.yaml:2  ownr   unknown key; did you mean owner?" in errors


def test_decide_runs_a_decision_of_a_file_in_this_process(run, spec):
    code, out, errors = run("decide", spec, "-", "--json", stdin=json.dumps(ROW))
    assert code == 0, errors
    decided = json.loads(out)
    assert (decided["decision"], decided["outcome"] in ("pass", "review", "reject")) == ("card-fraud", True)


def test_decide_names_each_field_that_is_wrong(run, spec):
    code, _, errors = run("decide", spec, "-", stdin=json.dumps({**ROW, "amount": -3, "currency": "EURO"}))
    assert code == 3
    assert "amount: is -3" in errors
    assert "currency: is 'EURO'" in errors


@pytest.mark.parametrize(("stdin", "told"), [("[1]", "is not an object"), ("{", "is not JSON")])
def test_decide_takes_one_object(run, spec, stdin, told):
    code, _, errors = run("decide", spec, "-", stdin=stdin)
    assert code == 3
    assert told in errors


def test_score_decides_every_row_and_says_how_many_of_each(run, spec, tmp_path):
    rows = [{**ROW, "spent_1h": 20.0, "payments_1h": place % 30, "risk": 0.1} for place in range(600)]
    rows[7]["amount"] = -1
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, errors = run("score", spec, "--data", "rows.jsonl", "--out", "scored.csv")
    assert code == 0, errors
    assert "1 could not be decided: see the column fault" in out
    assert "600 rows in" in errors
    scored = list(csv.DictReader((tmp_path / "scored.csv").read_text().splitlines()))
    assert len(scored) == 600
    assert [row["payments_1h"] for row in scored] == [str(place % 30) for place in range(600)]
    assert "amount" in scored[7]["fault"]
    assert scored[25]["outcome"] == "reject"  # more than 20 payments


def test_score_that_fails_leaves_what_was_there(run, spec, tmp_path):
    (tmp_path / "rows.jsonl").write_text(json.dumps({**ROW, "spent_1h": 1, "payments_1h": 1, "risk": 0}) + "\n{\n")
    (tmp_path / "o.csv").write_text("before")
    code, _, errors = run("score", spec, "--data", "rows.jsonl", "--out", "o.csv")
    assert code == 3
    assert "rows.jsonl:2 is not JSON" in errors
    assert (tmp_path / "o.csv").read_text() == "before"
    assert not list(tmp_path.glob(".o.*"))


def test_score_names_the_columns_that_the_file_lacks(run, spec, tmp_path):
    (tmp_path / "rows.csv").write_text("card_id,amount,currency,country\nc,1,EUR,DE\n")
    code, _, errors = run("score", spec, "--data", "rows.csv", "--out", "o.csv")
    assert code == 3
    assert "rows.csv has no column 'spent_1h', 'payments_1h', 'risk'" in errors
    assert "rows need their features" in errors
    assert not (tmp_path / "o.csv").exists()


def test_score_does_not_write_over_columns(run, spec, tmp_path):
    (tmp_path / "rows.csv").write_text(
        "card_id,amount,currency,country,spent_1h,payments_1h,risk,score\nc,1,EUR,DE,1,1,0,7\n"
    )
    code, _, errors = run("score", spec, "--data", "rows.csv", "--out", "o.csv")
    assert (code, "--prefix" in errors) == (3, True)
    code, out, errors = run("score", spec, "--data", "rows.csv", "--out", "o.csv", "--prefix", "new_", "--json")
    assert code == 0, errors
    assert json.loads(out)["rows"] == 1
    (row,) = csv.DictReader((tmp_path / "o.csv").read_text().splitlines())
    assert (row["score"], bool(row["new_outcome"])) == ("7", True)


def test_serve_wants_decisions_beside_models_only(run, spec):
    code, _, errors = run("serve", "--decision", spec, "--snapshot", "index.json")
    assert code == 2
    assert "give one source to serve" in errors


def test_serve_refuses_a_decision_with_its_faults(run, spec, tmp_path):
    (tmp_path / spec).write_text(WHOLE.replace("owner:", "ownr:"))
    code, _, errors = run("serve", "--decision", spec, "--listen", "127.0.0.1:0")
    assert code == 3
    assert "card-fraud.yaml:2  ownr" in errors


def test_a_snapshot_of_a_decision_may_be_moved_and_decides_the_same(run, tmp_path, monkeypatch):
    import flyball as fb
    from flyball.decision.local import LocalServer
    from flyball.documents.snapshot import read

    monkeypatch.chdir(tmp_path)
    file = plain(tmp_path)
    with fb.Decision.load(file) as decision:
        before = decision.decide(ROW)
    code, out, errors = run("snapshot", "--decision", file, "--out", "packed", "--json")
    assert code == 0, errors
    assert [item["name"] for item in json.loads(out)["deployments"]] == ["plain"]
    (tmp_path / "packed").rename(tmp_path / "moved")
    (tmp_path / "plain.onnx").unlink()
    server = LocalServer(read(tmp_path / "moved/index.json"))
    try:
        after = server.client.decide("plain", ROW)
    finally:
        server.close()
    assert (after.score, after.policy, after.models) == (before.score, before.policy, before.models)


def test_the_files_that_explain_models_are_packed_by_digest(tmp_path):
    from flyball.decision.compile.bundle import pack_decisions
    from flyball.decision.compile.document import compile_spec
    from flyball.decision.decision import Decision
    from flyball.decision.spec.faults import Origin

    trees = PLAIN.replace('score: "probabilities[1]"}', 'score: "probabilities[1]", explain: {trees: t.json}}')
    (tmp_path / "t.json").write_text("{}")
    decision = Decision.load(plain(tmp_path, trees))
    bundle = pack_decisions([compile_spec(decision.spec, tmp_path, Origin())], tmp_path / "packed")
    explain = bundle.deployments()[0].decision["models"][0]["explain"]
    assert (tmp_path / "packed" / explain["path"]).read_text() == "{}"
