"""Bars, figures and verdicts: computed from raw values, whatever a record's summary says."""

import math

import pytest

from bench.claims.bars import Bar, at_least, at_most, count, exactly, ms, none, per_s, seconds, share, shown, times, us
from bench.claims.claim import OK, SHORT, SHOWN, UNMEASURED, Claim, Figure, NotMeasuredError, judge
from bench.claims.figures import over_best, ratio, suite_failures, wrong_of
from bench.claims.record import BEGUN, DONE, FAILED, STOPPED, Attempt
from bench.claims.settled import line_of
from bench.claims.table import suites
from tests.support.made_up_suite import BAD, GOOD, suite


@pytest.mark.parametrize(
    ("bar", "text", "good", "bad"),
    [
        (at_most(1.2, times), "<= 1.2 times", 1.2, 1.21),
        (at_least(0.9, share), ">= 90 %", 0.9, 0.89),
        (none(), "none", 0, 1),
        (none("mean batch 1"), "none, mean batch 1", 0, 1),
        (exactly(40), "= 40", 40, 39),
        (at_least(50_000, per_s), ">= 50,000/s", 50_000, 49_999),
        (at_most(4_000, us), "<= 4 ms", 4_000, 4_001),
        (at_most(100, ms), "<= 100 ms", 100, 101),
        (at_most(1, seconds), "<= 1 s", 1, 1.1),
        (at_most(25.04, us), "<= 25.04 µs", 25.04, 25.05),  # a changed limit shows, however small the change
        (at_most(8, count), "<= 8", 8, 9),
    ],
)
def test_a_bar_s_text_is_made_from_its_number(bar: Bar, text: str, good: float, bad: float) -> None:
    assert (bar.text, bar.holds(good), bar.holds(bad)) == (text, True, False)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_a_number_meets_no_bar(value: float) -> None:
    assert not at_most(1, times).holds(value)
    assert not at_least(1, times).holds(value)


def judged(figure: Figure, bar: Bar | None = None) -> tuple[str, str, str]:
    found = judge(Claim("name", "a sentence", bar or at_most(1, times), lambda _: figure), {})
    return found.kind, found.figure, found.reason


def test_a_condition_that_fails_is_a_claim_that_falls_short() -> None:
    assert judged(Figure(1.0, "2 of 2")) == (OK, "1 times (2 of 2)", "")
    assert judged(Figure(1.0, "", "99 % answered")) == (SHORT, "1 times", "99 % answered")
    assert judged(Figure(2.0)) == (SHORT, "2 times", "")


def test_a_figure_without_a_bar_is_shown_and_not_counted_as_ok() -> None:
    assert judged(Figure(7.0), shown(us)) == (SHOWN, "7.00 µs", "")
    assert judged(Figure(7.0, fault="a server ended"), shown(us))[0] == SHORT


def test_values_without_a_figure_fall_short_and_too_few_windows_are_not_measured() -> None:
    claim = suite().topic("times").claims[0]
    assert judge(claim, GOOD).kind == OK
    assert judge(claim, {}).kind == SHORT
    assert "KeyError" in judge(claim, {}).reason
    few = {
        "p50": {**GOOD["p50"], "alone": {"values": [10.0], "discarded": [{"value": 30.0, "reason": "the host took 9 %"}]}}
    }
    found = judge(claim, few)
    assert (found.kind, found.discarded) == (UNMEASURED, 1)
    assert found.reason == "alone: 1 of at least 3 windows left, 1 discarded: the host took 9 %"
    assert judge(claim, few, least=1).kind == OK


def attempt(number: int, raw: object, **changes: object) -> Attempt:
    terms = {"p50": suite().topic("times").terms(suite().topic("times").claims[0])}
    given = {"state": DONE, "raw": raw, **changes}
    return Attempt("times", number, terms, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("attempts", "kind", "held"),
    [
        ([attempt(1, GOOD)], OK, (1, 1)),
        ([attempt(1, BAD), attempt(2, GOOD)], SHORT, (1, 2)),  # trying again does not undo it
        ([attempt(1, GOOD), attempt(2, BAD)], SHORT, (1, 2)),
        ([attempt(1, {}, unmeasured={"p50": "no Redis"}), attempt(2, GOOD)], OK, (1, 1)),
        ([attempt(1, {}, state=BEGUN), attempt(2, GOOD)], OK, (1, 1)),
        ([attempt(1, GOOD, state=STOPPED)], UNMEASURED, (0, 0)),
        ([attempt(1, {}, state=FAILED, error="the server died"), attempt(2, GOOD)], SHORT, (1, 2)),
        ([], UNMEASURED, (0, 0)),
    ],
)
def test_the_worst_attempt_that_measured_a_claim_counts(attempts: list[Attempt], kind: str, held: tuple[int, int]) -> None:
    topic = suite().topic("times")
    line = line_of(topic, topic.claims[0], attempts)
    assert (line.verdict.kind, (line.held, line.measured)) == (kind, held)


def test_a_topic_that_failed_says_why_at_each_of_its_claims() -> None:
    topic = suite().topic("times")
    line = line_of(topic, topic.claims[0], [attempt(1, {}, state=FAILED, error="the server died")])
    assert line.verdict.reason == "the server died"


def test_a_claim_that_is_newer_than_its_record_is_not_measured() -> None:
    topic = suite().topic("count")
    line = line_of(topic, topic.claims[0], [attempt(1, GOOD)])
    assert (line.verdict.kind, line.verdict.reason) == (UNMEASURED, "the claim is newer than the record")


def test_figures_that_many_claims_share() -> None:
    sides = {name: {"values": [value] * 3, "discarded": []} for name, value in (("ours", 30.0), ("a", 10.0), ("b", 15.0))}
    claim = Claim("over", "over the best", at_least(2, times), over_best("rates", "ours", ("a", "b")))
    assert judge(claim, {"rates": sides}).figure == "2 times (30/s, b 15/s)"
    wrong = Claim("wrong", "wrong rows", none(), wrong_of("rows"))
    assert judge(wrong, {"rows": {"total": 10, "wrong": 1, "examples": ["row 3"]}}).figure == "1 (of 10: row 3)"
    assert judge(wrong, {"rows": {"total": 0, "wrong": 0}}).kind == UNMEASURED
    assert ratio(1, 0) == math.inf


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        ({"passed": 5, "failed": 0, "skipped": 0, "exit": 0}, OK),
        ({"passed": 4, "failed": 1, "skipped": 0, "exit": 1}, SHORT),
        ({"passed": 4, "failed": 0, "skipped": 1, "exit": 0}, UNMEASURED),
        ({"passed": 0, "failed": 0, "skipped": 0, "exit": 0}, SHORT),
        ({"passed": 5, "failed": 0, "skipped": 1, "exit": 2}, SHORT),
    ],
)
def test_a_test_suite_holds_if_all_of_it_passed(found: dict[str, int], kind: str) -> None:
    claim = Claim("suite", "tests that fail", none(), suite_failures("suite"))
    assert judge(claim, {"suite": {**found, "why_skipped": "", "end": "said"}}).kind == kind


def test_not_measured_says_its_reason() -> None:
    def figure(_: object) -> Figure:
        raise NotMeasuredError("too noisy here")

    assert judge(Claim("name", "a sentence", none(), figure), {}).reason == "too noisy here"


def test_every_claim_of_the_table_has_one_name_a_subject_and_a_sample() -> None:
    for one in suites():
        names = [f"{topic.name}.{claim.name}" for topic, claim in one.claims()]
        assert len(set(names)) == len(names) > 0
        assert not any(" " in name for name in names)  # they are words of ledgers
        assert all(all(topic.terms(claim).values()) for topic, claim in one.claims())
