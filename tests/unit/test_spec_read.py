"""A decision's file: every fault at its line, in the author's own path, with the nearest name; YAML and Python are one."""

import json
import re
from pathlib import Path

import pytest

import flyball as fb
from flyball.decision.spec.faults import near, place_of
from flyball.errors import RefusedError
from tests.support.decision_folders import WHOLE, folder

CHANGES = {
    "slo: {p99: 5ms": ("slo: {p99: 5", "4  slo.p99   is 5; allowed: a duration"),
    "owner:": ("ownr:", "2  ownr   unknown key; did you mean owner?"),
    "key: true, pii: true": ("kay: true", "7  input.card_id.kay   unknown key; did you mean key?"),
    "type: float, min: 0, max": ("type: flot, min: 0, max", '8  input.amount.type   is "flot"; allowed: bool, int, float'),
    "  mcc:": ("  2mcc:", '11  input.2mcc   is "2mcc"; allowed: 1 to 64 of A-Z'),
    "window: sum(amount)": ("window: total(amount)", '15  features.spent_1h.window.op   is "total"; allowed: count, sum'),
    "on_error: use_stale": ("on_error: []", "17  features.risk.on_error   is []; allowed: missing, use_stale"),
    "cards: {store": ("cards: {stor", "21  sources.cards.stor   unknown key; did you mean store?"),
    "- log1p: amount": ("- logp1: amount", "24  transforms[0].logp1   unknown key; did you mean log1p?"),
    "of: risk, min: 0": ("of: risk, min: no", '27  transforms[3].clip.min   is "no"; allowed: a finite number'),
    "score: probabilities[1]": ("score: probabilities[one]", "32  model.score   is"),
    "guard: {score: 0..1": ("guard: {score: 1..0", '35  policy.guard.score   is "1..0"; allowed: a range'),
    "then: reject, reason: R11": (
        "than: reject, reason: R11",
        "38  policy.rules[1].than   unknown key; did you mean then?",
    ),
    'pass: "< 0.30"': ("pass: [0, 0.3]", "39  policy.bands.pass   is [0, 0.3]; allowed: an object of at_least"),
    "most: 4": ("most: many", '40  policy.reasons.most   is "many"; allowed: a whole number, 0 to 64'),
    "queue_full:        shed": (
        "queue_fall:        shed",
        "46  remedies.queue_fall   unknown key; did you mean queue_full?",
    ),
}


def told(text):
    with pytest.raises(fb.DecisionRefusedError) as caught:
        fb.Decision.from_yaml(text)
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.parametrize("right", CHANGES)
def test_a_fault_is_told_at_its_line_with_its_path_and_what_is_allowed(right):
    wrong, words = CHANGES[right]
    assert right in WHOLE
    faults = told(WHOLE.replace(right, wrong, 1))
    assert any(fault.startswith(f"decision.yaml:{words}") for fault in faults), faults


def test_all_faults_are_told_at_once_in_the_order_of_their_lines():
    text = WHOLE
    for right, (wrong, _) in CHANGES.items():
        text = text.replace(right, wrong, 1)
    faults = told(text)
    for _, words in CHANGES.values():
        assert any(fault.startswith(f"decision.yaml:{words}") for fault in faults), words
    lines = [int(re.match(r"decision\.yaml:(\d+)", fault)[1]) for fault in faults]
    assert lines == sorted(lines)


def test_a_word_that_is_nearly_one_of_a_few_is_told_with_the_nearest():
    (fault,) = told(WHOLE.replace("type: float, min: 0, max", "type: flot, min: 0, max", 1))
    assert fault.endswith("allowed: bool, int, float, string, category or time; did you mean float?")


def test_what_is_missing_is_told_with_what_it_is_for():
    (fault,) = told(WHOLE.replace("owner: payments-risk@example.com\n", ""))
    assert fault == "decision.yaml:1  owner   is missing: who is responsible for it"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("decision: [", "decision.yaml:1  is not YAML"),
        ("a: &x 1\nb: *x", "decision.yaml:2  aliases are not supported"),
        ("- 1", "decision.yaml:1  is [1]; allowed: an object of decision, owner"),
        ("", "decision.yaml:1  is null"),
    ],
)
def test_text_that_is_no_decision_at_all_is_refused_with_its_line(text, words):
    assert told(text)[0].startswith(words)


def test_a_key_that_stands_twice_is_refused():
    assert told(WHOLE + "remedies: {}\n") == ["decision.yaml:48  remedies   is duplicated; first in line 42"]


def test_model_and_models_cannot_both_be_written():
    (fault,) = told(WHOLE + "models: {a: {path: a.onnx, score: p}}\n")
    assert "`model:` for one model, `models:` for several, or neither" in fault


def test_the_same_in_python_is_the_same_object():
    import yaml

    decision = fb.Decision(**yaml.safe_load(WHOLE))
    assert decision == fb.Decision.from_yaml(WHOLE)
    assert decision != fb.Decision.from_yaml(WHOLE.replace("4", "5"))


def test_parts_may_be_objects_in_python():
    from flyball.decision.spec.fields import Field
    from flyball.decision.spec.models import Model
    from flyball.decision.spec.policy import Band, Policy
    from flyball.decision.spec.transforms import Transform

    made = fb.Decision(
        decision="d",
        owner="o",
        purpose="p",
        slo=fb.SLO(timeout="20ms"),
        input={"amount": Field(type="float")},
        transforms=[Transform(log1p="amount")],
        model=Model(path="m.onnx", score="p[1]"),
        policy=Policy(bands={"pass": Band(below=0.5), "review": ">= 0.5"}),
    )
    text = """
        {decision: d, owner: o, purpose: p, slo: {timeout: 20ms}, input: {amount: float}, transforms: [{log1p: amount}],
         model: {path: m.onnx, score: "p[1]"}, policy: {bands: {pass: "< 0.5", review: ">= 0.5"}}}
    """
    assert made == fb.Decision.from_yaml(text)


def test_faults_of_python_have_their_paths_and_no_lines():
    with pytest.raises(fb.DecisionRefusedError) as caught:
        fb.Decision(decision="d", owner="o", purpose="p", input={"a": "flot"}, policy={"bands": {}})
    paths = [fault.path for fault in caught.value.faults]
    assert paths == ["input.a.type", "policy.bands"]
    assert caught.value.exit_code == 3


def test_a_decision_that_is_written_again_loads_as_an_equal_one():
    decision = fb.Decision.from_yaml(WHOLE)
    again = fb.Decision.from_yaml(decision.to_yaml())
    assert again == decision
    assert again.to_yaml() == decision.to_yaml()


@pytest.mark.parametrize("text", ["1e5", "on", "null", "1:30", "0x1f", "~", "- a", "a: b", "ü"])
def test_texts_that_look_like_something_else_survive_being_written(text):
    decision = fb.Decision.from_yaml(WHOLE).with_(owner=text)
    assert fb.Decision.from_yaml(decision.to_yaml()).spec.owner == text


def test_with_replaces_whole_keys_and_keeps_the_lines_of_the_others(tmp_path):
    decision = fb.Decision.load(folder(tmp_path)).with_(slo=fb.SLO(p99="4ms"))
    assert (decision.spec.slo.p99, decision.spec.slo.timeout) == (4, None)
    with pytest.raises(fb.DecisionRefusedError) as caught:
        decision.with_(policy={"bands": {"pass": "under"}})
    assert [fault.path for fault in caught.value.faults] == ["policy.bands.pass"]


def test_what_cannot_be_read_is_refused_with_its_name(tmp_path):
    with pytest.raises(RefusedError, match=r"cannot read .*none\.yaml: no such file"):
        fb.Decision.load(tmp_path / "none.yaml")
    big = tmp_path / "big.yaml"
    big.write_text("#" * 1_100_000)
    with pytest.raises(RefusedError, match="larger than 1 MiB"):
        fb.Decision.load(big)
    big.write_bytes(b"\xff\xfe")
    with pytest.raises(RefusedError, match="not text in UTF-8"):
        fb.Decision.load(big)


def test_a_decision_may_be_written_in_json(tmp_path):
    import yaml

    file = tmp_path / "d.json"
    file.write_text(json.dumps(yaml.safe_load(WHOLE), indent="\t"))
    assert fb.Decision.load(file) == fb.Decision.from_yaml(WHOLE)


def test_paths_are_taken_apart_as_they_are_put_together():
    assert place_of("policy.rules[0].when") == ("policy", "rules", 0, "when")
    assert place_of("") == ()
    assert near("contry", ["amount", "country"]) == "did you mean country?"
    assert near("x", ["amount"]) == "known: amount"


def test_the_example_of_the_page_is_a_decision():
    page = (Path(__file__).parents[2] / "docs/reference/decision-spec.md").read_text()
    shown = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert fb.Decision.from_yaml(shown[1]).name == "card-fraud"


def test_the_page_is_rendered_from_the_models_and_has_every_key():
    from pydantic import BaseModel

    from flyball.decision.spec.faults import _bare
    from flyball.decision.spec.reference import render
    from flyball.decision.spec.spec import Spec

    page = (Path(__file__).parents[2] / "docs/reference/decision-spec.md").read_text()
    assert page == render()
    seen, waiting = set(), [Spec]
    while waiting:
        model = waiting.pop()
        if model in seen or model.__name__ in ("Score", "Tensor", "Reaction", "Remedied"):
            continue  # each of these is one word or list for its author
        seen.add(model)
        for name, field in model.model_fields.items():
            assert f"| `{field.alias or name}` |" in page, f"{model.__name__}.{name}"
            inner = field.annotation
            while (bare := _bare(inner)) is not inner or getattr(inner, "__args__", None):
                inner = bare if bare is not inner else inner.__args__[-1]
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                waiting.append(inner)
    assert len(seen) > 30


def test_how_records_are_kept_is_part_of_the_document_where_it_is_written():
    text = WHOLE + "record: {durability: sync, sample: 0.25, mask: [country]}\n"
    decision = fb.Decision.from_yaml(text)
    assert fb.Decision.from_yaml(decision.to_yaml()) == decision
    assert decision.spec.record.when_unavailable == "fail_closed"
    line = len(text.splitlines())
    faults = told(text.replace("0.25", "1.25").replace("sync", "never"))
    assert faults[0].startswith(f"decision.yaml:{line}  record.durability")
    assert "buffered or sync" in faults[0]
    assert faults[1].startswith(f"decision.yaml:{line}  record.sample")
    assert "0 to 1" in faults[1]
