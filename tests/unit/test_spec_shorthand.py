"""The small languages of a decision: what each shorthand means, and what it is refused with."""

from datetime import timedelta

import pytest
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from flyball.decision.spec.fields import Feature, Field, Reaction, Source, Window
from flyball.decision.spec.models import Explain, Model, Remedied, Route, Score, Variant
from flyball.decision.spec.policy import Band, Policy, Range, Reasons, Rule
from flyball.decision.spec.shorthand import Duration, Rate, WholeMs, read_window
from flyball.decision.spec.spec import SLO
from flyball.decision.spec.transforms import Transform


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("500us", 0.5),
        ("20ms", 20),
        ("1.5s", 1500),
        ("10m", 600_000),
        ("1h", 3_600_000),
        ("7d", 604_800_000),
        (" 2 s ", 2000),
    ],
)
def test_a_duration_has_its_unit_and_is_written_as_it_was_read(text, ms):
    assert Duration.read(text) == ms
    assert Duration.read(str(Duration.read(text))) == ms


def test_a_duration_may_be_a_timedelta():
    assert Duration.read(timedelta(minutes=10)) == 600_000
    assert str(Duration.read(timedelta(minutes=10))) == "10m"


@pytest.mark.parametrize("wrong", [5, 5.0, True, None, "5", "0ms", "-1s", "10 minutes", "400d", "1e3ms", "٣ms", [], {}])
def test_a_duration_without_a_unit_or_beyond_its_limit_is_refused(wrong):
    with pytest.raises(PydanticCustomError, match="with its unit"):
        Duration.read(wrong)


@pytest.mark.parametrize("wrong", ["500us", "1.5ms", "0.2ms"])
def test_what_the_data_plane_counts_in_milliseconds_is_whole_ones(wrong):
    with pytest.raises(PydanticCustomError, match="whole milliseconds"):
        WholeMs.read(wrong)


def test_a_rate_is_written_as_it_was_read():
    assert (Rate.read("2000/s"), str(Rate.read("0.5 /s"))) == (2000, "0.5/s")
    for wrong in (2000, "2000", "0/s", "2000/h"):
        with pytest.raises(PydanticCustomError, match="2000/s"):
            Rate.read(wrong)


def test_what_callers_may_expect_is_read_from_one_line():
    slo = SLO.model_validate({"p99": "5ms", "timeout": "20ms", "rate": "2000/s"})
    assert (slo.p99, slo.timeout.ms, slo.rate) == (5, 20, 2000)
    assert slo == SLO(p99="5ms", timeout="20ms", rate="2000/s")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("sum(amount) by card_id last 1h", ("sum", "amount", "card_id", 3_600_000, True, None)),
        ("count() by card_id last 10m excluding current", ("count", None, "card_id", 600_000, False, None)),
        ("mean( amount ) by k last 30s including current", ("mean", "amount", "k", 30_000, True, None)),
        ("distinct(country) by k last 7d in shared", ("distinct", "country", "k", 604_800_000, True, "shared")),
    ],
)
def test_a_window_is_read_from_its_sentence(text, parts):
    window = Window.model_validate(text)
    assert (window.op, window.of, window.by, window.last.ms, window.current, window.source) == parts
    assert window == Window.model_validate(read_window(text))


@pytest.mark.parametrize(
    "wrong", ["count by k last 1h", "count(x) by k last 1h", "sum() by k last 1h", "median(x) by k last 1h",
              "sum(x) by k last 1", "sum(x) last 1h by k", ""],
)  # fmt: skip
def test_a_window_that_is_no_sentence_is_refused(wrong):
    with pytest.raises(ValueError, match=r"last 1h|count, sum, mean or distinct|with its unit"):
        Window.model_validate(wrong)


def test_a_field_may_be_its_type_alone_and_missing_says_that_it_is_not_required():
    assert Field.model_validate("float") == Field(type="float")
    assert Field.model_validate({"type": "int", "missing": -1}) == Field(type="int", required=False, default=-1)
    assert Field.model_validate({"type": "int", "missing": None}) == Field(type="int", required=False)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"type": "int", "missing": -1, "default": 2}, "missing sets both"),
        ({"type": "category", "values": ["a"], "values_file": "x"}, "not both"),
        ({"type": "category", "values": [1, 2]}, "in quotes"),
        ({"type": "float", "min": float("nan")}, "finite"),
        ({"type": "float", "default": [1]}, "a text, a finite number"),
    ],
)
def test_a_field_that_contradicts_itself_is_refused(wrong, told):
    with pytest.raises(ValueError, match=told):
        Field.model_validate(wrong)


def test_a_lookup_names_its_source_as_a_word_or_as_the_host_of_redis():
    short = Feature.model_validate({"lookup": "redis://cards", "key": "card_id", "field": "home"})
    assert short == Feature.model_validate({"lookup": "cards", "key": "card_id", "field": "home"})


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({}, "exactly one of window, lookup and compute"),
        ({"lookup": "cards", "compute": "1", "key": "k"}, "exactly one of"),
        ({"lookup": "cards"}, "key with lookup"),
        ({"compute": "amount", "key": "k"}, "only with lookup"),
    ],
)
def test_a_feature_comes_from_one_place(wrong, told):
    with pytest.raises(ValueError, match=told):
        Feature.model_validate(wrong)


@pytest.mark.parametrize(
    ("text", "parts"),
    [("missing", ("missing", None)), ("use_stale", ("use_stale", None)), ("other", ("value", "other")), (-1, ("value", -1)),
     (False, ("value", False)), ({"value": "missing"}, ("value", "missing"))],
)  # fmt: skip
def test_a_reaction_is_a_word_or_the_value_that_stands_for_it(text, parts):
    reaction = Reaction.model_validate(text)
    assert (reaction.do, reaction.value) == parts


def test_a_source_is_an_address_or_a_file():
    assert Source.model_validate("redis://127.0.0.1:6379").redis == "redis://127.0.0.1:6379"
    assert Source.model_validate("cards.store").store == "cards.store"
    with pytest.raises(ValueError, match="one of redis"):
        Source.model_validate({"redis": "redis://h", "store": "x"})
    with pytest.raises(ValueError, match="do not support TLS"):
        Source.model_validate("rediss://127.0.0.1:6379")


def test_a_step_is_a_column_a_list_of_columns_or_an_object():
    assert Transform.model_validate({"log1p": "amount"}) == Transform.model_validate({"log1p": {"of": ["amount"]}})
    two = Transform.model_validate({"standardize": ["a", "b"]})
    assert (two.op, two.step.of, two.step.mean) == ("standardize", ["a", "b"], None)
    one = Transform.model_validate({"one_hot": {"of": "x", "values": ["a", "b"]}})
    assert one.step.values == [["a", "b"]]
    assert Transform.model_validate({"impute": {"of": "x", "values": 3}}).step.values == [3]
    assert Transform.model_validate({"encode": {"of": "x", "maps": {"a": 1}, "default": 0}}).step.maps == [{"a": 1.0}]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({}, "exactly one step"),
        ({"log": "a", "log1p": "a"}, "exactly one step"),
        ({"standardize": {"of": ["a", "b"], "mean": [1], "scale": [1]}}, "each of the 2 columns"),
        ({"standardize": {"of": "a", "mean": 1}}, "mean and scale, or neither"),
        ({"scale": {"of": "a", "factor": 1}}, "factor and offset, or neither"),
        ({"clip": "a"}, "min, max or both"),
        ({"hash": {"of": "a", "buckets": 0}}, "1 to 2147483647"),
        ({"date_parts": {"of": "t", "parts": ["second"]}}, "weekday"),
        ({"one_hot": {"of": "a", "values": ["x", 3]}}, "a list of texts for one column"),
        ({"log1p": []}, "a column, or a list of columns"),
    ],
)
def test_a_step_that_cannot_be_is_refused(wrong, told):
    with pytest.raises(ValueError, match=told):
        Transform.model_validate(wrong)


def test_a_score_is_an_output_and_its_element():
    assert Score.model_validate("probabilities[1]") == Score(output="probabilities", element=1)
    assert Score.model_validate("margin") == Score(output="margin")
    with pytest.raises(ValueError, match=r"probabilities\[1\]"):
        Score.model_validate("p[x]")


def test_columns_are_those_of_transforms_a_list_or_a_list_for_each_tensor():
    def columns(written):
        return [(part.tensor, part.columns) for part in Model(path="m", score="p", columns=written).columns]

    assert columns("from transforms") == [(None, None)]
    assert columns(["a", "b"]) == [(None, ["a", "b"])]
    assert columns({"x": ["a"], "y": "b"}) == [("x", ["a"]), ("y", ["b"])]
    with pytest.raises(ValueError, match="from transforms"):
        columns("from transform")


def test_an_explanation_is_a_file_coefficients_or_a_baseline():
    assert Explain.model_validate({"trees": "m.trees"}).trees.path == "m.trees"
    assert Explain.model_validate({"ablation": {"baseline": 0}}).ablation.baseline == [0.0]
    with pytest.raises(ValueError, match="exactly one of trees"):
        Explain.model_validate({})


def test_a_variant_may_be_the_models_alone():
    assert Variant.model_validate("a").models == ["a"]
    assert Variant.model_validate(["a", "b"]).models == ["a", "b"]
    with pytest.raises(ValueError, match="a share of requests"):
        Route.model_validate({"split": {"b": 1.5}})


@pytest.mark.parametrize(
    ("text", "parts"),
    [("rules", ("rules", None)), ("previous_version", ("previous_version", None)), ("review", ("outcome", "review")),
     ("error", ("error", None)), ({"outcome": "reject"}, ("outcome", "reject"))],
)  # fmt: skip
def test_a_remedy_is_a_word_or_an_outcome(text, parts):
    remedied = Remedied.model_validate(text)
    assert (remedied.do, remedied.outcome) == parts


def test_a_range_includes_both_ends_and_may_lack_one():
    assert Range.model_validate("0..1") == Range(min=0, max=1)
    assert Range.model_validate("-2.5..") == Range(min=-2.5)
    assert Range.model_validate("..1e3") == Range(max=1000)
    for wrong in ("..", "1..0", "0-1", {}):
        with pytest.raises(ValueError, match="lower end first"):
            Range.model_validate(wrong)


def test_a_band_is_a_bound_or_a_range_and_may_name_its_outcome():
    assert Band.model_validate("< 0.30") == Band(below=0.3)
    assert Band.model_validate(">=0.8") == Band(at_least=0.8)
    assert Band.model_validate("0.3..0.8") == Band(at_least=0.3, below=0.8)
    assert Band.model_validate({"range": ">= 0.8", "outcome": "reject"}) == Band(at_least=0.8, outcome="reject")
    for wrong in ("> 0.8", "<= 0.3", "0.8..0.3", "much"):
        with pytest.raises(ValueError, match="a range of scores"):
            Band.model_validate(wrong)


def test_texts_of_reasons_may_be_a_file():
    assert Reasons.model_validate({"from": "rules", "texts": "r.csv"}).texts_file == "r.csv"
    assert Reasons.model_validate({"texts": {"R1": "words"}}).texts == {"R1": "words"}


def test_a_rule_that_does_nothing_is_refused():
    with pytest.raises(ValueError, match="a rule must do something"):
        Rule.model_validate({"when": "true"})


@pytest.mark.parametrize(("typo", "meant"), [("missng", "missing"), ("use_stal", "use_stale"), ("fualt", "fault")])
def test_a_reaction_that_is_nearly_one_of_the_words_is_no_value(typo, meant):
    with pytest.raises(ValidationError, match=f"{meant} .did you mean that"):
        Reaction.model_validate(typo)
    assert Reaction.model_validate({"value": typo}).value == typo


def test_bands_that_do_not_rise_need_outcomes_from_mild_to_severe():
    falling = {"reject": ">= 0.80", "review": ">= 0.30", "pass": "< 0.30"}
    with pytest.raises(ValidationError, match=r"outcomes: \[reject, review, pass\]  from mild to severe"):
        Policy.model_validate({"bands": falling})
    assert Policy.model_validate({"bands": falling, "outcomes": ["pass", "review", "reject"]}).outcomes is not None
    assert Policy.model_validate({"bands": {"pass": "< 0.30", "review": "< 0.80", "reject": ">= 0.80"}}).outcomes is None
