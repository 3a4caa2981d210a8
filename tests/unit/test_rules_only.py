"""A decision without a model: rules alone, everywhere that a decision goes."""

import json
from pathlib import Path

import pytest

import flyball as fb

SPEC = """
decision: limits
owner: risk@example.com
purpose: rules alone
input:
  card_id: {type: string, key: true}
  amount: {type: float, min: 0}
features:
  twice: {compute: amount * 2.0, type: float}
policy:
  guard: {twice: ..1000000}
  outcomes: [pass, review, reject]
  rules:
    - {when: amount > 1000.0, then: reject, reason: R1}
    - {when: twice <= 100.0, then: pass}
  reasons: {texts: {R1: above the limit}}
remedies: {guard_violated: review}
"""


def row(amount):
    return {"card_id": "c-1", "amount": amount}


@pytest.fixture
def decision(tmp_path):
    with fb.Decision.from_yaml(SPEC, base=tmp_path) as made:
        yield made


def test_it_decides_by_its_rules_and_what_none_decides_is_the_most_severe_but_one(decision):
    decided = [decision.decide(row(amount)) for amount in (5.0, 500.0, 5000.0)]
    assert [one.outcome for one in decided] == ["pass", "review", "reject"]
    assert [one.score for one in decided] == [None] * 3
    assert [reason.code for reason in decided[2].reasons] == ["R1"]


def test_guards_hold_and_their_remedy_counts(decision):
    assert decision.decide(row(600_000.0)).outcome == "review"


def test_rows_in_a_list_are_decided_one_by_one(decision):
    rows = decision.decide_rows([row(5.0), row(-1.0), row(5000.0)])
    assert [one.decided.outcome if one.decided else "fault" for one in rows] == ["pass", "fault", "reject"]


def test_it_is_read_back_as_it_was_written(decision):
    assert fb.Decision.from_yaml(decision.to_yaml()) == decision


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [(("amount > 1000.0", "score > 0.5"), "policy.rules[0].when", "the decision has no model"),
     (("{twice: ..1000000}", "{score: 0..1}"), "policy.guard.score", "the decision has no model"),
     (("  outcomes:", "  bands: {pass: '< 0.5', reject: '>= 0.5'}\n  outcomes:"), "policy.bands", "there is no score"),
     (("  outcomes: [pass, review, reject]\n", ""), "policy", "`outcomes:` from mild to severe")],
)  # fmt: skip
def test_what_needs_a_score_is_refused_with_why(tmp_path, change, path, words):
    with pytest.raises(fb.DecisionRefusedError) as refused:
        fb.Decision.from_yaml(SPEC.replace(*change), base=tmp_path).check()
    assert any(path in str(fault) and words in str(fault) for fault in refused.value.faults), refused.value.faults


def test_without_a_model_and_without_rules_there_is_nothing_to_decide_by(tmp_path):
    spec = SPEC[: SPEC.index("  rules:")] + SPEC[SPEC.index("  reasons:") :]
    with pytest.raises(fb.DecisionRefusedError, match="1 fault") as refused:
        fb.Decision.from_yaml(spec, base=tmp_path).check()
    assert "a decision without a model decides by its rules" in str(refused.value.faults[0])


def test_a_model_still_needs_its_bands(tmp_path):
    spec = SPEC + "model: {path: m.onnx, columns: [amount], score: y}\n"
    with pytest.raises(fb.DecisionRefusedError):
        fb.Decision.from_yaml(spec, base=tmp_path).check()


def test_a_file_of_rows_is_scored(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("limits.yaml").write_text(SPEC)
    Path("rows.csv").write_text("card_id,amount\na,5\nb,500\nc,5000\n")
    code, _, errors = run("score", "limits.yaml", "--data", "rows.csv", "--out", "out.jsonl")
    assert code == 0, errors
    outcomes = [json.loads(line)["outcome"] for line in Path("out.jsonl").read_text().splitlines()]
    assert outcomes == ["pass", "review", "reject"]


def test_the_command_line_checks_plans_decides_and_has_nothing_to_fit(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("limits.yaml").write_text(SPEC)
    Path("row.json").write_text(json.dumps(row(5000.0)))
    Path("rows.csv").write_text("card_id,amount\na,5\n")
    assert "limits   rules alone   (risk@example.com)" in run("check", "limits.yaml")[1]
    assert "no model: the rules alone decide" in run("plan", "limits.yaml")[1]
    code, out, errors = run("decide", "limits.yaml", "row.json")
    assert (code, "reject" in out) == (0, True), errors
    code, _, errors = run("fit", "limits.yaml", "--data", "rows.csv")
    assert (code, "no transform has open parameters" in errors) == (3, True)
    code, out, errors = run("snapshot", "--decision", "limits.yaml", "--out", "snapshot")
    assert code == 0, errors
