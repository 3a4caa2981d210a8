"""What a decision compiles to: shorthands expanded, files read, columns in order; and what cannot be compiled."""

import hashlib
import json
from pathlib import Path

import pytest

import flyball as fb
from flyball.decision.compile.bundle import bundle_of
from flyball.decision.compile.columns import kinds, open_steps, touched
from flyball.decision.compile.document import compile_spec
from flyball.decision.fit.fitted import Fitted
from flyball.decision.spec.faults import Origin
from flyball.decision.spec.read import read_spec
from flyball.documents.snapshot import parse
from tests.support.decision_folders import COLUMNS, WHOLE, folder, fraud_model


@pytest.fixture
def compiled(tmp_path):
    """Compiles the whole decision, changed; gives the document or its faults."""

    def call(*changes, files=()):
        text = WHOLE
        for right, wrong in changes:
            assert right in text
            text = text.replace(right, wrong, 1)
        path = folder(tmp_path, text)
        for name, content in files:
            (tmp_path / name).write_text(content)
        spec, origin = read_spec(path)
        return compile_spec(spec, path.parent, origin)

    return call


def faults(compiled, *changes, files=()):
    with pytest.raises(fb.DecisionRefusedError) as caught:
        compiled(*changes, files=files)
    return [str(fault).replace(str(Path(fault.at).parent), "").removeprefix("/") for fault in caught.value.faults]


def test_fields_are_a_list_in_their_order_with_files_read(compiled):
    document = compiled().document
    assert [item["name"] for item in document["input"]] == ["card_id", "amount", "currency", "country", "mcc", "at"]
    assert document["input"][1] == {
        "name": "amount", "type": "float", "required": True, "min": 0.0, "max": 100000.0,
        "length_max": 1024, "key": False, "pii": False,
    }  # fmt: skip
    assert (document["input"][3]["values"], document["input"][3]["unknown"]) == (["DE", "FR"], "other")
    assert (document["input"][4]["required"], document["input"][4]["default"]) == (False, -1)


def test_features_say_their_type_and_what_becomes_of_them(compiled):
    spent, payments, risk, large = compiled().document["features"]
    assert spent["window"] == {
        "op": "sum", "of": "amount", "by": "card_id", "last_ms": 3_600_000, "current": True, "source": None
    }  # fmt: skip
    assert (spent["type"], payments["type"], payments["window"]["current"]) == ("float", "int", False)
    assert risk["lookup"] == {"source": "cards", "key": "card_id", "field": "risk"}
    assert (risk["max_age_ms"], risk["on_missing"], risk["on_stale"], risk["on_error"]) == (
        600_000, {"value": 0.5}, "missing", "use_stale",
    )  # fmt: skip
    assert (large["compute"], large["type"]) == ("amount > 1000.0", "bool")


def test_sources_have_their_limits_and_a_lookup_alone_makes_one(compiled, tmp_path):
    cards = compiled().document["sources"]["cards"]
    assert cards == {
        "kind": "store", "path": str(tmp_path / "cards.store"), "set": "cards",
        "cache": {"ttl_ms": 60_000, "absent_ttl_ms": 1000, "entries_max": 100_000},
    }  # fmt: skip
    alone = compiled(("sources:\n  cards: {store: cards.store}\n", ""), ("lookup: cards", "lookup: redis://cards"))
    assert alone.document["sources"] == {
        "cards": {"kind": "redis", "url_env": "FLYBALL_REDIS_URL", "set": "cards", "timeout_ms": 5}
    }
    env = compiled(("{store: cards.store}", "{redis_env: CARDS, set: c, timeout: 3ms}")).document["sources"]["cards"]
    assert (env["kind"], env["url_env"], env["set"], env["timeout_ms"]) == ("redis", "CARDS", "c", 3)


def test_a_lookup_of_a_source_that_is_not_there_is_told(compiled):
    (fault,) = faults(compiled, ("lookup: cards", "lookup: card"))
    assert fault == 'card-fraud.yaml:17  features.risk.lookup   is "card"; allowed: one of the sources; did you mean cards?'


def test_columns_from_transforms_are_those_that_they_touched_in_order(compiled):
    (model,) = compiled().document["models"]
    assert model["inputs"] == [{"tensor": "input", "columns": COLUMNS}]
    assert model["score"] == {"output": "probabilities", "element": 1}


def test_every_step_says_what_stands_in_the_place_of_its_columns():
    steps = [
        {"op": "impute", "of": ["a"], "values": [0], "indicator": True},
        {"op": "date_parts", "of": ["t"], "parts": ["hour", "weekday"]},
        {"op": "cross", "of": ["a", "b"], "into": "ab"},
        {"op": "log", "of": ["ab"]},
    ]
    assert touched(steps, ["a", "b", "t"]) == ["a", "a=missing", "t.hour", "t.weekday", "ab"]


def test_parameters_come_from_the_fitted_file_where_they_are_not_given(compiled):
    open_ = "standardize: {of: [amount, spent_1h], mean: [3.0, 50.0], scale: [1.5, 80.0]}"
    fitted = Fitted(
        10, [{"at": 1, "op": "standardize", "of": ["amount", "spent_1h"], "mean": [1.0, 2.0], "scale": [3.0, 4.0]}]
    )
    changes = (
        (open_, "standardize: [amount, spent_1h]"),
        ("model:\n", "fitted: f.json\nmodel:\n"),
    )
    steps = compiled(*changes, files=[("f.json", fitted.content().decode())]).document["transforms"]
    assert steps[1] == {
        "op": "standardize", "of": ["amount", "spent_1h"], "mean": [1.0, 2.0], "scale": [3.0, 4.0]
    }  # fmt: skip
    other = Fitted(10, []).content().decode()
    assert "the fitted file belongs to other transforms" in faults(compiled, *changes, files=[("f.json", other)])[0]
    (fault,) = faults(compiled, *changes, files=[("f.json", "{")])
    assert "is not JSON" in fault


def test_a_step_whose_parameters_are_nowhere_is_told_with_the_way_out(compiled):
    open_ = "standardize: {of: [amount, spent_1h], mean: [3.0, 50.0], scale: [1.5, 80.0]}"
    (fault,) = faults(compiled, (open_, "standardize: [amount, spent_1h]"))
    assert fault.startswith("card-fraud.yaml:25  transforms[1].standardize   ")
    assert "flyball fit SPEC" in fault
    (fault,) = faults(compiled, ("one_hot: [currency, country]", "one_hot: [curency, country]"))
    assert "did you mean currency?" in fault


def test_one_hot_has_the_values_of_its_field_and_what_others_are_taken_for(compiled):
    assert compiled().document["transforms"][2]["values"] == [["EUR", "USD"], ["DE", "FR", "other"]]


def test_what_fitting_reads_is_not_in_the_document(compiled):
    change = ("clip: {of: risk, min: 0, max: 1}", "impute: {of: risk, values: 0.5, by: mean}")
    assert compiled(change).document["transforms"][3] == {
        "op": "impute", "of": ["risk"], "values": [0.5], "indicator": False
    }  # fmt: skip


def test_fitting_is_given_steps_and_types(tmp_path):
    spec, _ = read_spec(folder(tmp_path))
    assert open_steps(spec)[0] == {"op": "log1p", "of": ["amount"]}
    assert kinds(spec)["payments_1h"] == "int"
    assert kinds(spec)["risk"] == "float"


def test_bands_get_their_other_end_from_the_band_beside(compiled):
    bands = compiled().document["policy"]["bands"]
    assert bands == [
        {"name": "pass", "to": 0.3},
        {"name": "review", "from": 0.3, "to": 0.8},
        {"name": "reject", "from": 0.8},
    ]
    falling = '{reject: ">= 0.8", review: ">= 0.3", pass: "< 0.3"}\n  outcomes: [pass, review, reject]'
    assert compiled(('{pass: "< 0.30", review: "< 0.80", reject: ">= 0.80"}', falling)).document["policy"]["bands"] == [
        {"name": "reject", "from": 0.8},
        {"name": "review", "from": 0.3, "to": 0.8},
        {"name": "pass", "to": 0.3},
    ]


def test_outcomes_are_those_of_the_bands_and_the_last_is_adverse(compiled):
    policy = compiled().document["policy"]
    assert (policy["outcomes"], policy["adverse"]) == (["pass", "review", "reject"], ["reject"])
    assert policy["guards"] == [{"of": "score", "min": 0.0, "max": 1.0}, {"of": "amount", "min": 0.0}]
    assert policy["rules"][1] == {
        "when": "payments_1h > 20", "then": "reject", "reason": "R11", "priority": 0, "final": False, "missing": False
    }  # fmt: skip
    named = compiled(("  bands:", "  outcomes: [pass, review, reject, call]\n  adverse: [review]\n  bands:"))
    assert named.document["policy"]["outcomes"][-1] == "call"
    assert named.document["policy"]["adverse"] == ["review"]


def test_texts_and_codes_of_reasons_come_from_the_table(compiled):
    reasons = compiled().document["policy"]["reasons"]
    assert reasons["codes"] == {"amount": "R02"}
    assert reasons["texts"]["R11"] == "many payments"
    rules = compiled(("from: contributions", "from: rules")).document["policy"]["reasons"]
    assert rules["when"] == "never"


def test_a_table_of_reasons_that_is_none_is_told(compiled):
    (fault,) = faults(compiled, ("texts: reasons.csv", "texts: countries.txt"))
    assert fault.startswith("card-fraud.yaml:40  policy.reasons.texts   ")
    assert "first line has code, text" in fault


def test_remedies_are_words_or_outcomes(compiled):
    remedies = compiled().document["remedies"]
    assert remedies["feature_error"] == {"outcome": "review"}
    assert (remedies["timeout"], remedies["queue_full"], remedies["invalid_input"]) == ("rules", "shed", "error")
    assert (
        compiled(("model_unavailable: rules", "model_unavailable: previous_version")).document["remedies"][
            "model_unavailable"
        ]
        == "previous"
    )


def test_requests_stick_to_the_key_and_one_model_is_the_champion(compiled):
    document = compiled().document
    assert document["route"] == {"split": {}, "sticky": "card_id", "shadow": [], "fallback": None}
    assert document["variants"] == [{"name": "champion", "models": ["fraud"], "weights": {"fraud": 1.0}}]


def test_the_version_before_is_kept_as_the_fallback(compiled, tmp_path):
    fraud_model(tmp_path, "old")
    made = compiled(("  score: probabilities[1]", "  score: probabilities[1]\n  previous: old.onnx"))
    assert [(item.name, item.version, item.path.name) for item in made.artifacts] == [
        ("fraud", "1", "fraud.onnx"), ("fraud-previous", "2", "old.onnx"),
    ]  # fmt: skip
    assert made.document["route"]["fallback"] == "previous"
    assert made.document["variants"][1]["models"] == ["fraud-previous"]


SEVERAL = """\
models:
  first:  {path: fraud.onnx, score: "probabilities[1]"}
  second: {path: two.onnx, columns: [first.score, amount], score: "probabilities[1]"}
variants:
  chain:    [first, second]
  together: {models: [first, second], weights: {first: 0.25, second: 0.75}}
  alone:    first
route: {split: {together: 0.1}, sticky: card_id, shadow: [alone], fallback: alone}
"""


def test_several_models_make_chains_ensembles_splits_and_shadows(compiled, tmp_path):
    fraud_model(tmp_path, "two", 2)
    one = WHOLE[WHOLE.index("model:\n") : WHOLE.index("policy:\n")]
    made = compiled((one, SEVERAL))
    assert [(item.name, item.version) for item in made.artifacts] == [("first", "1"), ("second", "2")]
    assert made.document["variants"] == [
        {"name": "chain", "models": ["first", "second"], "weights": {"second": 1.0}},
        {"name": "together", "models": ["first", "second"], "weights": {"first": 0.25, "second": 0.75}},
        {"name": "alone", "models": ["first"], "weights": {"first": 1.0}},
    ]
    assert made.document["route"]["split"] == {"together": 0.1}
    alone = compiled((one, SEVERAL[: SEVERAL.index("variants")]))
    assert [item["name"] for item in alone.document["variants"]] == ["first", "second"]


def test_a_digest_that_was_given_is_verified(compiled, tmp_path):
    fraud_model(tmp_path)
    digest = "sha256:" + hashlib.sha256((tmp_path / "fraud.onnx").read_bytes()).hexdigest()
    made = compiled(("path: fraud.onnx", f"path: fraud.onnx\n  digest: {digest}"))
    assert made.artifacts[0].files.digest == digest
    wrong = "sha256:" + "0" * 64
    (fault,) = faults(compiled, ("path: fraud.onnx", f"path: fraud.onnx\n  digest: {wrong}"))
    assert fault.startswith("card-fraud.yaml:31  model.digest   ")
    assert digest in fault


def test_a_file_that_explains_is_named_by_path_and_digest(compiled, tmp_path):
    change = ("  score: probabilities[1]", "  score: probabilities[1]\n  explain: {trees: fraud.trees}")
    made = compiled(change, files=[("fraud.trees", "{}")])
    explain = made.document["models"][0]["explain"]
    assert explain == {
        "by": "trees", "path": str(tmp_path / "fraud.trees"), "digest": "sha256:" + hashlib.sha256(b"{}").hexdigest()
    }  # fmt: skip
    assert made.artifacts[0].explain == tmp_path / "fraud.trees"
    baseline = compiled(("  score: probabilities[1]", "  score: probabilities[1]\n  explain: {ablation: {baseline: 0}}"))
    assert baseline.document["models"][0]["explain"] == {"by": "ablation", "baseline": [0.0]}


def test_every_file_that_is_not_there_is_told_at_its_line(compiled):
    told = faults(
        compiled,
        ("countries.txt", "lands.txt"),
        ("path: fraud.onnx", "path: frau.onnx"),
        ("texts: reasons.csv", "texts: reason.csv"),
    )
    places = ["10  input.country.values_file", "30  model.path", "40  policy.reasons.texts"]
    assert [fault.split("   ")[0] for fault in told] == [f"card-fraud.yaml:{place}" for place in places]
    assert all("no such file" in fault for fault in told)


def test_no_columns_from_transforms_where_there_are_none(compiled):
    steps = WHOLE[WHOLE.index("transforms:\n") : WHOLE.index("model:\n")]
    (fault,) = faults(compiled, (steps, ""))
    assert "there are no transforms" in fault


def test_a_bundle_has_the_decision_beside_its_models(compiled):
    made = compiled()
    (document,) = bundle_of([made]).documents
    deployment = parse("deployment", document)
    assert (deployment.name, deployment.slo.deadline_ms) == ("card-fraud", 200)
    assert deployment.decision == json.loads(json.dumps(made.document))
    assert [item.version for item in deployment.versions] == ["1"]


def test_a_decision_of_python_finds_its_files_from_its_base(tmp_path):
    import yaml

    folder(tmp_path)
    decision = fb.Decision(base=tmp_path, **yaml.safe_load(WHOLE))
    assert compile_spec(decision.spec, decision.base, Origin()).artifacts[0].path == tmp_path / "fraud.onnx"
