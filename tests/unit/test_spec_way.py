"""The digest of the way to a score: another for whatever changes a score, the same for what is edited after a conversion."""

import json
from pathlib import Path

import pytest

from flyball import Decision
from flyball.decision.compile.score_path import way_digest
from tests.support import decision_folders

TURNED = "[risk, amount, currency=EUR, currency=USD, country=DE, country=FR, country=other, spent_1h]"


def way(path: Path, spec: str = decision_folders.WHOLE, model: int = 0) -> str:
    path.mkdir(exist_ok=True)
    document = Decision.load(decision_folders.folder(path, spec)).check().compiled.document
    return way_digest(document, document["models"][model])


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ('{pass: "< 0.30", review: "< 0.80", reject: ">= 0.80"}', '{pass: "< 0.10", review: "< 0.70", reject: ">= 0.70"}'),
        ("then: reject, reason: R11", "then: review, reason: R07"),
        ("from: contributions, most: 4", "from: contributions, most: 2"),
        ("owner: payments-risk@example.com", "owner: somebody-else@example.com"),
        ("decision: card-fraud", "decision: fraud"),
        ("timeout: 200ms", "timeout: 100ms"),
        ("min: 0, max: 100000", "min: 1, max: 500"),
        ("key: true, pii: true", "pii: false"),
        ("  mcc:      {type: int, missing: -1}\n", ""),  # no column comes from it
        ("  at:       {type: time", "  note: {type: string}\n  at:       {type: time"),
        ("count() by card_id last 1h", "count() by card_id last 2h"),  # a rule's alone
        ("amount > 1000.0", "amount > 99.0"),
        ("store: cards.store", "store: elsewhere/cards.store"),
        (
            "path: fraud.onnx",
            "path: fraud.onnx\n  name: another\n  explain: {ablation: {baseline: [0, 0, 0, 0, 0, 0, 0, 0]}}",
        ),
    ],
)
def test_what_does_not_change_a_score_is_not_in_it(was: str, now: str, tmp_path: Path) -> None:
    assert was in decision_folders.WHOLE
    assert way(tmp_path / "a") == way(tmp_path / "b", decision_folders.WHOLE.replace(was, now))


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("mean: [3.0, 50.0]", "mean: [3.0, 50.5]"),
        ("- log1p: amount", "- log: amount"),
        ("values: [EUR, USD]", "values: [USD, EUR]"),
        ("unknown: other", "unknown: rest"),
        ("{type: float, min", "{type: float, missing: 1.0, min"),
        ("by card_id last 1h}", "by card_id last 2h}"),
        ("sum(amount) by card_id", "sum(amount) by country"),
        ("on_missing: 0.5", "on_missing: 0.6"),
        ("store: cards.store", "store: cards.store, set: others"),
        ("features:", "event_time: at\nfeatures:"),
        ("probabilities[1]", "probabilities[0]"),
        ("columns: from transforms", f"columns: {TURNED}"),
    ],
)
def test_what_changes_a_score_is_in_it(was: str, now: str, tmp_path: Path) -> None:
    assert was in decision_folders.WHOLE
    assert way(tmp_path / "a") != way(tmp_path / "b", decision_folders.WHOLE.replace(was, now))


def test_a_feature_s_own_fields_are_in_it(tmp_path: Path) -> None:
    """A column comes from a feature, which comes from a feature, which comes from a field."""
    said = "  twice: {compute: 'amount * 2.0'}\n  risk: {compute: 'twice + 1.0'}\n"
    spec = decision_folders.PLAIN.replace("features:\n", f"features:\n{said}").replace("[mcc, large]", "[risk, large]")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    ways = []
    for folder, written in (("a", spec), ("b", spec.replace("amount * 2.0", "amount * 3.0"))):
        document = Decision.load(decision_folders.plain(tmp_path / folder, written)).check().compiled.document
        ways.append(way_digest(document, document["models"][0]))
    assert ways[0] != ways[1]


def test_what_was_fitted_is_in_it_wherever_it_stands(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    fitted = {"at": 1, "op": "standardize", "of": ["amount", "spent_1h"], "mean": [3.0, 50.0], "scale": [1.5, 80.0]}
    beside = decision_folders.WHOLE.replace(", mean: [3.0, 50.0], scale: [1.5, 80.0]", "")
    beside = beside.replace("transforms:\n", "fitted: ours.json\ntransforms:\n")

    def written(rows: int) -> str:
        (tmp_path / "a" / "ours.json").write_text(json.dumps({"format": 1, "rows": rows, "transforms": [fitted]}))
        return way(tmp_path / "a", beside)

    assert written(5) == written(6) == way(tmp_path / "b")
    fitted["mean"] = [3.1, 50.0]
    assert written(5) != way(tmp_path / "b")


def test_each_of_several_models_has_its_own_and_a_weight_changes_it(tmp_path: Path) -> None:
    one = "path: fraud.onnx, columns: from transforms, score: 'probabilities[1]'"
    two = f"models: {{a: {{{one}}}, b: {{{one.replace('[1]', '[0]')}}}}}\n"
    head, _, rest = decision_folders.WHOLE.partition("model:\n")
    several = head + two + rest.partition("\n\n")[2]
    assert way(tmp_path / "a") == way(tmp_path / "b", several)
    assert way(tmp_path / "a") != way(tmp_path / "b", several, model=1)
    halved = several.replace("models:", "variants: {a: {models: [a], weights: {a: 0.5}}, b: b}\nmodels:")
    assert way(tmp_path / "a") != way(tmp_path / "b", halved)
