"""`check` and `plan` warn of what is sound and may still surprise; nothing is refused for it."""

import json

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.support import onnx_models
from tests.support.decision_folders import WHOLE, folder

SPEC = """
decision: card
owner: risk@example.com
purpose: tests
input:
  card_id: {type: string, key: true}
  amount: {type: float}
features:
  spent_36h: {window: sum(amount) by card_id last 36h}
  half: {compute: amount / 2.0, type: float}
  forgotten: {compute: half * 3.0, type: float}
model: {path: m.onnx, columns: [amount, spent_36h], score: "y[0]", explain: {linear: {coefficients: [1, 1], means: [0, 0]}}}
policy:
  rules:
    - {when: amount > 900.0, then: reject}
    - {when: amount > 500.0, then: review, reason: R7}
  bands: {pass: "< 0.5", review: "< 0.8", reject: ">= 0.8"}
remedies: {timeout: {outcome: reject}}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def model(folder, *, across=False):
    x, y = onnx_models.value("x", TensorProto.FLOAT, ["n", 2]), onnx_models.value("y", TensorProto.FLOAT, ["n", 1])
    nodes = [helper.make_node("MatMul", ["x", "w"], ["sum"]), helper.make_node("Identity", ["sum"], ["y"])]
    if across:
        nodes[1:] = [
            helper.make_node("ReduceMax", ["sum"], ["most"], axes=[0], keepdims=1),
            helper.make_node("Add", ["sum", "most"], ["y"]),
        ]
    onnx_models.save(folder / "m.onnx", nodes, [x], [y], {"w": np.full((2, 1), 0.01, np.float32)})


def warnings(run, folder, spec=SPEC, **how):
    model(folder, **how)
    (folder / "card.yaml").write_text(spec)
    code, out, errors = run("check", "card.yaml", "--json")
    assert code == 0, out + errors
    (file,) = json.loads(out)["files"]
    assert file["good"] is True
    return {(one["path"], one["text"]) for one in file["warnings"]}


def told(found, path, words):
    return any(where == path and words in text for where, text in found)


def test_adverse_outcomes_without_reasons(run, here):
    found = warnings(run, here)
    assert told(found, "policy.rules[0]", "adverse outcome 'reject' without a reason")
    assert told(found, "remedies.timeout", "adverse outcome 'reject'")
    assert not told(found, "policy.reasons", "by score has no reasons")
    silent = warnings(run, here, SPEC.replace(", explain: {linear: {coefficients: [1, 1], means: [0, 0]}}", ""))
    assert told(silent, "policy.reasons", "reject by score has no reasons")
    never = warnings(run, here, SPEC.replace("remedies:", "  reasons: {from: rules}\nremedies:"))
    assert told(never, "policy.reasons", "never explains the model")


def test_reason_codes_without_text(run, here):
    assert told(warnings(run, here), "policy.reasons", "no text for reason R7")
    texts = "  reasons: {texts: {R7: a large amount}}\nremedies:"
    assert not told(warnings(run, here, SPEC.replace("remedies:", texts)), "policy.reasons", "no text")


def test_windows_that_need_hours_to_fill_and_the_command_that_fills_them(run, here):
    found = warnings(run, here)
    assert told(found, "features.spent_36h", "has run for 36 hours")
    assert told(found, "features.spent_36h", "flyball features backfill card.yaml --data")


def test_batching_that_is_off_and_why(run, here):
    assert not any(path == "model" for path, _ in warnings(run, here))
    assert told(warnings(run, here, across=True), "model", "batching is off: with 2 rows")


def test_features_that_nobody_uses_and_what_only_they_use(run, here):
    unused = {path for path, text in warnings(run, here) if "unused" in text}
    assert unused == {"features.forgotten", "features.half"}


def test_plan_says_the_same_and_strict_fails(run, here):
    found = warnings(run, here)
    code, out, _ = run("plan", "card.yaml", "--json")
    assert code == 0
    assert {(one["path"], one["text"]) for one in json.loads(out)["warnings"]} == found
    code, out, _ = run("check", "card.yaml", "--strict")
    assert code == 3
    assert out.count("\nwarning  ") >= 5
    assert "No faults." in out


def test_a_decision_without_surprises_has_no_warning_but_its_windows(run, tmp_path):
    file = folder(tmp_path, WHOLE)
    code, out, _ = run("check", file, "--json")
    assert code == 0
    paths = {one["path"] for one in json.loads(out)["files"][0]["warnings"]}
    assert {path for path in paths if not path.startswith("features.")} <= {"policy.reasons"}
