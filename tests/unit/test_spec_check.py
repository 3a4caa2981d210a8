"""What a decision means is judged by the data plane's compiler, and told at the author's lines."""

import pytest

import flyball as fb
from tests.support.decision_folders import WHOLE, folder, whole


def faults(tmp_path, *changes):
    text = WHOLE
    for right, wrong in changes:
        assert right in text
        text = text.replace(right, wrong, 1)
    with pytest.raises(fb.DecisionRefusedError) as caught:
        whole(tmp_path, text).check()
    return [str(fault).replace(f"{tmp_path}/", "") for fault in caught.value.faults]


def test_a_good_decision_has_its_stages(tmp_path):
    checked = whole(tmp_path).check()
    assert [stage.stage for stage in checked.stages][:2] == ["parse", "route"]
    assert checked.compiled.name == "card-fraud"


def test_a_name_that_no_field_has_is_told_at_the_rule_with_the_nearest(tmp_path):
    (fault,) = faults(tmp_path, ("country != 'DE'", "contry != 'DE'"))
    assert fault.startswith("card-fraud.yaml:37  policy.rules[0].when   ")
    assert "country" in fault


def test_a_score_that_belongs_to_no_band_is_told_at_the_bands(tmp_path):
    (fault,) = faults(tmp_path, ('review: "< 0.80"', 'review: "< 0.75"'))
    assert fault.startswith("card-fraud.yaml:39  policy.bands")
    assert "0.75" in fault
    assert "no band" in fault


def test_faults_of_meaning_are_told_all_at_once(tmp_path):
    told = faults(
        tmp_path,
        ("country != 'DE'", "contry != 'DE'"),
        ('review: "< 0.80"', 'review: "< 0.75"'),
        ("of: risk, min", "of: rsk, min"),
        ("by card_id last 1h}", "by card last 1h}"),
        ("score: probabilities[1]", "score: probabilities[7]"),
        ("feature_error:     review", "feature_error:     revew"),
    )
    places = [fault.split("   ")[0].removeprefix("card-fraud.yaml:") for fault in told]
    assert {place.split("  ")[0] for place in places} >= {"15", "27", "32", "37", "39", "45"}, told


def test_a_column_that_is_not_there_is_told_at_the_columns(tmp_path):
    told = faults(tmp_path, ("columns: from transforms", "columns: [amount, spent, risk]"))
    assert any(fault.startswith("card-fraud.yaml:31  model.columns") for fault in told), told


def test_a_remedy_without_a_fallback_is_told(tmp_path):
    (fault,) = faults(tmp_path, ("model_unavailable: rules", "model_unavailable: previous_version"))
    assert fault.startswith("card-fraud.yaml:43  remedies.model_unavailable   ")


def test_the_explanation_of_another_file_is_told(tmp_path):
    folder(tmp_path)
    (tmp_path / "trees.json").write_text("{}")
    told = faults(tmp_path, ("score: probabilities[1]", "score: probabilities[1]\n  explain: {trees: trees.json}"))
    assert all(fault.startswith("card-fraud.yaml:33  model.explain") for fault in told), told


def test_a_masked_field_that_is_none_is_told_at_its_line(tmp_path):
    (fault,) = faults(tmp_path, ("owner:", "record: {mask: [contry]}\nowner:"))
    assert fault.startswith("card-fraud.yaml:2  record.mask[0]")
    assert "country" in fault
