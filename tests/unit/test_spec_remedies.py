"""A remedy and an outcome never share a word silently."""

import pytest

import flyball as fb
from tests.support.decision_folders import WHOLE, folder, whole

TIMEOUT = "timeout:           rules"


def refused(tmp_path, *changes):
    text = WHOLE
    for right, wrong in changes:
        assert right in text
        text = text.replace(right, wrong)
    with pytest.raises(fb.DecisionRefusedError) as caught:
        whole(tmp_path, text).check()
    return [str(fault) for fault in caught.value.faults]


def test_reject_is_no_remedy_and_the_message_has_both_ways_to_write_it(tmp_path):
    (fault,) = refused(tmp_path, (TIMEOUT, "timeout: reject"))
    assert "remedies.timeout" in fault
    assert "error to answer with an error" in fault
    assert "{outcome: reject} for the outcome" in fault


@pytest.mark.parametrize("word", ["error", "shed", "retry", "rules", "previous_version"])
def test_a_word_that_is_both_is_refused_with_how_to_write_each(tmp_path, word):
    others = [(f"{cause:<19}{do}", "") for cause, do in
              (("model_unavailable:", "rules"), ("queue_full:", "shed"), ("guard_violated:", "review"))]  # fmt: skip
    named = [('review: "< 0.80"', f'{word}: "< 0.80"'), ("then: review", f"then: {word}"), (TIMEOUT, f"timeout: {word}")]
    fault = refused(tmp_path, *others, *named, ("feature_error:     review", ""))[-1]
    assert f"{{outcome: {word}}} for the outcome" in fault
    assert "give the outcome another name" in fault


def test_the_outcome_can_always_be_written_out_and_what_is_left_out_is_never_ambiguous(tmp_path):
    text = WHOLE.replace(TIMEOUT, "timeout: {outcome: reject}")
    assert whole(tmp_path, text).check().compiled.document["remedies"]["timeout"] == {"outcome": "reject"}
    named = WHOLE.replace('reject: ">= 0.80"', 'error: ">= 0.80"').replace("then: reject", "then: error")
    remedies = whole(tmp_path, named).check().compiled.document["remedies"]
    assert remedies["invalid_input"] == "error"


def test_the_command_says_it_with_the_line(run, tmp_path):
    file = folder(tmp_path, WHOLE.replace(TIMEOUT, "timeout: reject"))
    code, out, _ = run("check", file)
    assert code == 3
    assert "remedies.timeout" in out
    assert "card-fraud.yaml:" in out
