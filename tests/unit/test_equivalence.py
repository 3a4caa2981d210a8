"""Figures of equivalence against independent ones: scikit-learn's, a bootstrap's, and rows that are known to differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from flyball.errors import InvalidInputError, RefusedError
from flyball.models.equivalence.accuracy import labels_of, qualities
from flyball.models.equivalence.certificate import CERTIFICATE, Candidate, Data, Engine, Original, certify, read_certificate
from flyball.models.equivalence.comparison import compare, flips_by_segment
from flyball.models.equivalence.gate import Bars, evaluate
from flyball.models.equivalence.rows import like
from flyball.models.equivalence.segments import SEGMENT_ROWS_MIN, SEGMENTS_MAX, segments_of

Floats = NDArray[np.float64]


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(3)


def scored(random: np.random.Generator, rows: int, noise: float) -> tuple[Floats, Floats, Floats]:
    """Labels, the scores of a model, and those of one that is worse by some noise."""
    latent = random.normal(size=rows)
    truth = (latent + random.normal(size=rows) > 0).astype(float)
    first = 1 / (1 + np.exp(-1.5 * latent))
    second = 1 / (1 + np.exp(-1.5 * (latent + noise * random.normal(size=rows))))
    return truth, first, second


def test_figures_are_those_of_scikit_learn(random: np.random.Generator) -> None:
    truth, first, second = scored(random, 4000, 0.4)
    told, _ = qualities(labels_of(truth, first), first, second)
    by_name = {one.figure: one for one in told}
    assert by_name["auc"].was == pytest.approx(roc_auc_score(truth, first), abs=1e-12)
    assert by_name["auc"].now == pytest.approx(roc_auc_score(truth, second), abs=1e-12)
    assert by_name["logloss"].now == pytest.approx(log_loss(truth, second), abs=1e-12)
    assert by_name["accuracy"].now == pytest.approx(accuracy_score(truth, second >= 0.5), abs=1e-12)
    assert all(one.low < one.loss < one.high and one.loss > 0 for one in told)


def test_auc_with_ties_is_that_of_scikit_learn(random: np.random.Generator) -> None:
    truth = random.integers(0, 2, 500).astype(float)
    first, second = (np.round(random.random(500), 1) for _ in range(2))
    told, _ = qualities(labels_of(truth, first), first, second)
    assert told[0].now == pytest.approx(roc_auc_score(truth, second), abs=1e-12)


def test_the_interval_of_an_auc_s_loss_is_that_of_a_bootstrap(random: np.random.Generator) -> None:
    truth, first, second = scored(random, 1500, 0.5)
    told, _ = qualities(labels_of(truth, first), first, second)
    drawn = []
    for _ in range(400):
        rows = random.integers(0, 1500, 1500)
        drawn.append(roc_auc_score(truth[rows], first[rows]) - roc_auc_score(truth[rows], second[rows]))
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert told[0].low == pytest.approx(low, abs=0.2 * (high - low))
    assert told[0].high == pytest.approx(high, abs=0.2 * (high - low))


def test_several_classes_and_numbers_have_their_own_figures(random: np.random.Generator) -> None:
    raw = random.random((900, 3))
    first = raw / raw.sum(axis=1, keepdims=True)
    second = first[:, ::-1].copy()
    truth = first.argmax(axis=1).astype(float)
    told, _ = qualities(labels_of(truth, first), first, second)
    assert [one.figure for one in told] == ["logloss", "accuracy"]
    assert told[0].now == pytest.approx(log_loss(truth, second), abs=1e-12)
    assert told[1].was == 1.0

    numbers = random.normal(size=900) * 10
    close, far = numbers + random.normal(size=900), numbers + 2 * random.normal(size=900)
    (rmse,), _ = qualities(labels_of(numbers, close), close, far)
    assert (rmse.figure, rmse.loss) == ("rmse", pytest.approx(1.0, abs=0.15))


def test_a_worse_segment_fails_although_the_whole_passes(random: np.random.Generator) -> None:
    truth, first, _ = scored(random, 20_000, 0.0)
    segment = np.where(np.arange(20_000) < 400, "small", "large")
    second = np.where(segment == "small", random.random(20_000), first)
    told, left_out = qualities(labels_of(truth, first), first, second, segment)
    bars = Bars(auc=0.02, logloss=0.05, accuracy=0.02)
    verdict = evaluate(bars, [], told, left_out)
    failed = {(one.what, one.segment) for one in verdict.findings if not one.passed}
    assert not verdict.passed
    assert failed
    assert {segment for _, segment in failed} == {"small"}
    assert "of small" in verdict.message


def test_where_there_are_more_edges_than_rows_every_column_has_some() -> None:
    given = {name: np.linspace(0, 1, 50) for name in "abcdef"}
    thresholds = {name: np.linspace(2, 3, 500).tolist() for name in "abcdef"}
    made = like(given, rows=300, thresholds=thresholds)
    for name, column in made.columns.items():
        assert (column[made.kinds == "edge"] > 1.5).any(), name


def crowded() -> dict[str, Any]:
    """Rows of 20 numbers with 255 thresholds each, 15,300 edges, and one column of texts."""
    names = [f"n{index}" for index in range(20)]
    numbers = {name: np.linspace(-1, 1, 50) for name in names}
    return {
        "given": {**numbers, "country": np.array(["DE", "FR"] * 25, dtype=object)},
        "thresholds": {name: np.linspace(2, 3, 255).tolist() for name in names},
        "gaps": ["n3", "country"],
        "unseen": {"country": "elsewhere"},
        "known": {"country": ["DE", "FR", "IT", "AT"], "n7": [40.0, 50.0]},
    }


@pytest.mark.parametrize("rows", [10_000, 100])
def test_gaps_unseen_texts_categories_and_ends_are_tried_however_many_thresholds_there_are(rows: int) -> None:
    made = like(**crowded(), rows=rows)
    edge = {name: column[made.kinds == "edge"] for name, column in made.columns.items()}
    assert {None, "elsewhere", "IT", "AT"} <= set(edge["country"])
    assert np.isnan(edge["n3"]).any()
    assert {40.0, 50.0} <= set(edge["n7"])
    for name in crowded()["thresholds"]:
        assert {-1.0, 0.0, 1.0} <= set(edge[name]), name
    assert (made.kinds == "given").sum() == 50
    ends, gaps, unseen, known = 60, 2, 1, 6
    assert made.count == max(rows, 50 + ends + gaps + unseen + known)


def test_rows_grow_until_every_threshold_has_its_own_unless_that_is_too_many() -> None:
    made = like(**crowded(), rows=100, rows_max=40_000)
    for name, thresholds in crowded()["thresholds"].items():
        assert set(np.array(thresholds, dtype=np.float32)) <= set(made.columns[name]), name
    assert like(**crowded(), rows=100, rows_max=20_000).count == 20_000


def test_segments_that_tell_nothing_are_told_apart(random: np.random.Generator) -> None:
    truth, first, second = scored(random, 1000, 0.1)
    segment = np.full(1000, "all", dtype=object)
    segment[: SEGMENT_ROWS_MIN - 1] = "few"
    segment[200:400] = "one-sided"
    truth[200:400] = 1.0
    segment[400:600] = "hardly"  # an AUC of one row against the others has an interval without ends
    truth[400:600] = 0.0
    truth[400] = 1.0
    told, left_out = qualities(labels_of(truth, first), first, second, segment)
    assert {one.segment: one.why for one in left_out} == {
        "few": f"fewer than {SEGMENT_ROWS_MIN} rows",
        "one-sided": "fewer than 2 rows of a class",
        "hardly": "fewer than 2 rows of a class",
    }
    assert {one.segment for one in told} == {None, "all"}
    assert np.isfinite([(one.low, one.high) for one in told]).all()


def test_a_segment_that_is_decided_otherwise_fails_although_the_whole_passes_and_nobody_knows_the_truth() -> None:
    first = np.full(20_000, 0.4)
    segment = np.where(np.arange(20_000) < 120, "small", np.where(np.arange(20_000) < 150, "tiny", "large"))
    second = np.where(np.arange(20_000) < 20, 0.6, first)  # every sixth row of the small one
    second[120:150] = 0.6
    whole = compare(first, second, bound=0, kinds=["given"] * 20_000, thresholds=[0.5]).flips
    assert evaluate(Bars(), whole).passed
    flips, left_out = flips_by_segment(first, second, segment, [0.5])
    verdict = evaluate(Bars(), whole, skipped=left_out, of_segments=flips)
    assert [(one.what, one.segment) for one in verdict.findings if not one.passed] == [("flips", "small")]
    assert "20 of 120 rows of small change the side of 0.5; 1.00% allowed" in verdict.message
    assert [one.segment for one in verdict.skipped] == ["tiny"]  # 30 of 30 rows, but so few are not judged
    second[:20] = 0.4
    second[0] = 0.6  # one of 120 may be chance
    flips, _ = flips_by_segment(first, second, segment, [0.5])
    assert evaluate(Bars(), whole, of_segments=flips).passed


def test_classes_flip_in_segments_too_and_only_the_largest_segments_are_judged() -> None:
    names = np.repeat([f"s{index}" for index in range(SEGMENTS_MAX + 1)], SEGMENT_ROWS_MIN)
    first = np.tile([0.6, 0.4], (len(names), 1))
    flips, left_out = flips_by_segment(first, first[:, ::-1], names)
    assert len(flips) == SEGMENTS_MAX == len(segments_of(names)[0])
    assert all(told[0].flips == SEGMENT_ROWS_MIN for told in flips.values())
    assert [one.why for one in left_out] == [f"only the {SEGMENTS_MAX} largest segments are evaluated"]


def test_too_few_rows_never_pass_and_are_told_how_many_would() -> None:
    first = np.linspace(0, 1, 100)
    told = compare(first, first, bound=0, kinds=["given"] * 100, thresholds=[0.5])
    verdict = evaluate(Bars(flips=0.001), told.flips)
    assert not verdict.passed
    assert "pass 3,851 or more" in verdict.message
    many = np.linspace(0, 1, 3851)
    told = compare(many, many, bound=0, kinds=["given"] * 3851, thresholds=[0.5])
    assert evaluate(Bars(flips=0.001), told.flips).passed


def test_a_gate_without_any_figure_does_not_pass() -> None:
    assert not evaluate(Bars(), []).passed


@pytest.mark.parametrize(
    ("labels", "answers", "words"),
    [
        (np.array(["yes", "no"]), np.zeros(2), "labels must be numbers"),
        (np.array([1.0, np.nan]), np.zeros(2), "missing or infinite"),
        (np.array([0.0, 3.0]), np.zeros((2, 3)), "must be 0 to 2"),
        (np.array([-1.0, 1.0, 1.0]), np.array([0.0, 0.4, 1.0]), r"(?s)labels are -1 and 1.*the labels 0 and 1"),
        (np.array([1.0, 2.0, 1.0]), np.array([np.nan, 0.4, 0.6]), "labels are 1 and 2"),
    ],
)
def test_labels_that_cannot_be_read_are_refused(labels: Any, answers: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words) as error:
        labels_of(labels, answers)
    assert error.value.next_step


def test_answers_that_do_not_compare_are_refused_with_what_would() -> None:
    truth, answers = np.array([0.0, 0.0, 1.0, 1.0]), np.zeros((4, 2))
    for refused in (
        lambda: compare(answers, answers[:, :1], bound=0, kinds=["given"] * 4),
        lambda: compare(answers, answers, bound=0, kinds=["given"] * 4, thresholds=[0.5]),
        lambda: qualities(labels_of(truth, answers[:, 0]), answers[:3, 0], answers[:, 0]),
    ):
        with pytest.raises(InvalidInputError) as error:
            refused()
        assert error.value.next_step


def test_two_values_are_numbers_where_answers_are_no_chances() -> None:
    assert labels_of(np.array([-1.0, 1.0]), np.array([-0.7, 1.2])).task == "numbers"
    assert labels_of(np.array([-1.0, 0.5, 1.0]), np.array([0.1, 0.2, 0.3])).task == "numbers"


def test_labels_of_one_class_show_nothing() -> None:
    with pytest.raises(InvalidInputError, match="at least 2 rows"):
        labels_of(np.ones(5), np.zeros(5))


def test_the_worst_rows_come_first_with_both_answers() -> None:
    expected = np.array([0.1, 0.2, 0.3, np.nan, np.nan, 0.9])
    found = np.array([0.1, 0.2001, 0.35, np.nan, 0.4, 0.9])
    told = compare(expected, found, bound=1e-3, kinds=["given"] * 3 + ["edge"] * 3, thresholds=[0.32])
    assert [one.row for one in told.worst] == [4, 2, 1]
    assert (told.worst[0].expected, told.worst[0].found) == ([None], [0.4])
    assert (told.all.beyond, told.by_kind["given"].beyond, told.by_kind["edge"].beyond) == (2, 1, 1)
    assert told.flips[0].flips == 2
    assert not told.equal


@pytest.mark.parametrize("threshold", [0.05, 0.5, 0.95])
def test_a_score_that_comes_or_goes_has_flipped_on_whichever_side_the_other_lies(threshold: float) -> None:
    expected, found = np.array([0.1, 0.9, np.nan, np.nan, np.nan]), np.array([np.nan, np.nan, 0.1, 0.9, np.nan])
    told = compare(expected, found, bound=1e-3, kinds=["given"] * 5, thresholds=[threshold])
    assert told.flips[0].flips == 4


def test_no_bar_allows_an_answer_that_is_lost() -> None:
    first = np.linspace(0, 1, 5000)
    second = np.where(np.arange(5000) == 7, np.nan, first)
    told = compare(first, second, bound=0, kinds=["given"] * 5000, thresholds=[0.5])
    assert evaluate(Bars(), told.flips).passed
    verdict = evaluate(Bars(), told.flips, lost=1)
    assert not verdict.passed
    assert "1 row lost the numeric answer" in verdict.message


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), min_size=1, max_size=60),
    st.floats(0, 10),
    st.floats(-1e3, 1e3),
)
def test_counts_are_those_of_a_plain_loop(pairs: list[tuple[float, float]], bound: float, threshold: float) -> None:
    first, second = (np.array(side) for side in zip(*pairs, strict=True))
    told = compare(first, second, bound=bound, kinds=["given"] * len(pairs), thresholds=[threshold])
    assert told.all.beyond == sum(abs(a - b) > bound for a, b in pairs)
    assert told.all.max_abs == max(abs(a - b) for a, b in pairs)
    assert told.flips[0].flips == sum((a >= threshold) != (b >= threshold) for a, b in pairs)


def test_rows_have_every_edge_and_stay_the_same_for_one_seed() -> None:
    table = {
        "amount": np.array([1.5, np.nan, 90.0, 7.0]),
        "country": np.array(["DE", "FR", None, "DE"], dtype=object),
    }
    made = like(
        table, rows=400, thresholds={"amount": [5.3]}, gaps=["amount", "country"], unseen={"country": "elsewhere"}, seed=1
    )
    assert made.count == 400
    assert {kind: int((made.kinds == kind).sum()) for kind in ("given", "random", "edge")}["given"] == 4
    edge = made.kinds == "edge"
    at = np.float32(5.3)
    below, above = np.nextafter(at, np.float32(-np.inf)), np.nextafter(at, np.float32(np.inf))
    for value in (float(below), float(at), float(above), 0.0, 1.5, 90.0):
        assert value in made.columns["amount"][edge]
    assert np.isnan(made.columns["amount"][edge]).any()
    assert {"elsewhere", None} <= set(made.columns["country"][edge])
    again = like(
        table, rows=400, thresholds={"amount": [5.3]}, gaps=["amount", "country"], unseen={"country": "elsewhere"}, seed=1
    )
    assert np.array_equal(made.columns["amount"], again.columns["amount"], equal_nan=True)
    assert np.isnan(made.columns["amount"][1])
    assert made.columns["country"][1] == "FR"


def test_columns_that_were_not_named_never_miss_a_value() -> None:
    made = like({"amount": np.arange(10.0), "country": np.array(["DE"] * 10, dtype=object)}, rows=200)
    assert not np.isnan(made.columns["amount"]).any()
    assert set(made.columns["country"]) == {"DE"}


def certificate(**changed: Any) -> Any:
    expected = np.linspace(0, 1, 50)
    parts: dict[str, Any] = {
        "original": Original(digest="sha256:" + "a" * 64, kind="LightGBM"),
        "candidate": Candidate(digest="sha256:" + "b" * 64),
        "data": Data(digest="sha256:" + "c" * 64, rows=50, kinds={"given": 50}),
        "engine": Engine(flyball="0.1.0", onnxruntime="1.31.1", cpu="some"),
        "comparison": compare(expected, expected, bound=1e-6, kinds=["given"] * 50),
    }
    return certify(**{**parts, **changed})


def test_a_certificate_is_read_as_it_was_written(tmp_path: Path) -> None:
    made = certificate()
    (tmp_path / CERTIFICATE).write_bytes(made.to_bytes())
    assert read_certificate(tmp_path / CERTIFICATE) == made
    assert made.outcome == "equal"


def test_a_certificate_whose_outcome_does_not_follow_is_refused(tmp_path: Path) -> None:
    expected = np.linspace(0, 1, 50)
    made = certificate(comparison=compare(expected, expected + 0.1, bound=1e-6, kinds=["given"] * 50))
    assert made.outcome == "refused"
    forged = made.to_bytes().replace(b'"outcome": "refused"', b'"outcome": "equal"')
    assert forged != made.to_bytes()
    (tmp_path / CERTIFICATE).write_bytes(forged)
    with pytest.raises(RefusedError, match="does not follow"):
        read_certificate(tmp_path / CERTIFICATE)


NOT_EQUAL = '"beyond": 0,\n      "max_abs": 0.9'
FORGERIES = {
    "rows beyond are not counted": ('"beyond": 0,\n      "max_abs": 0.0', NOT_EQUAL, "number of rows beyond the bound"),
    "nor where the largest difference is no number": ('"max_abs": 0.0', '"max_abs": NaN', "number of rows beyond the bound"),
    "a bound without end": ('"bound": 1e-6', '"bound": Infinity', "its bound is not a finite number"),
    "a bound that is no number": ('"bound": 1e-6', '"bound": NaN', "its bound is not a finite number"),
    "other rows": ('"rows": 50,\n    "kinds"', '"rows": 60,\n    "kinds"', "the number of rows"),
    "another outcome": ('"outcome": "equal"', '"outcome": "refused"', "the outcome"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_certificate_whose_figures_contradict_each_other_is_refused(name: str, tmp_path: Path) -> None:
    was, now, words = FORGERIES[name]
    whole = certificate().to_bytes().decode()
    assert was in whole
    (tmp_path / CERTIFICATE).write_text(whole.replace(was, now))
    with pytest.raises(RefusedError, match=words):
        read_certificate(tmp_path / CERTIFICATE)


@pytest.mark.parametrize(
    ("beyond", "max_abs", "taken"),
    [(0, 0.9, True), (1, 0.9, True), (1, 1e-7, False), (0, float("nan"), False), (0, np.finfo(float).max, False)],
)
def test_a_bound_that_grows_with_the_answer_leaves_open_what_the_largest_difference_means(
    beyond: int, max_abs: float, taken: bool
) -> None:
    """Of an answer of a million 0.9 is little; what lies within the absolute bound lies within every other."""
    expected = np.linspace(0, 1, 50)
    told = compare(expected, expected, bound=1e-6, kinds=["given"] * 50)
    figures = told.all.model_copy(update={"beyond": beyond, "max_abs": max_abs})
    comparison = told.model_copy(update={"relative": 1e-6, "all": figures, "by_kind": {"given": figures}})
    if taken:
        assert certificate(comparison=comparison).outcome == ("refused" if beyond else "equal")
    else:
        with pytest.raises(ValidationError, match="the number of rows beyond the bound does not follow"):
            certificate(comparison=comparison)


@pytest.mark.parametrize(
    ("findings", "words"),
    [([], "the gate's verdict"), ([False], "the gate's verdict"), ([True], "the finding on flips")],
)
def test_a_gate_that_passed_against_its_findings_is_refused(findings: list[bool], words: str, tmp_path: Path) -> None:
    expected = np.linspace(0, 1, 50)
    told = compare(expected, expected[::-1], bound=1e-6, kinds=["given"] * 50, thresholds=[0.5])
    whole = json.loads(certificate(comparison=told, gate=evaluate(Bars(), told.flips)).to_bytes())
    assert whole["outcome"] == "refused"
    told_by = whole["gate"]["findings"][0]
    whole["gate"] |= {"passed": True, "findings": [{**told_by, "passed": passed} for passed in findings]}
    whole["outcome"] = "within_gate"
    (tmp_path / CERTIFICATE).write_text(json.dumps(whole))
    with pytest.raises(RefusedError, match=f"{words} does not follow"):
        read_certificate(tmp_path / CERTIFICATE)


def test_a_certificate_of_before_the_way_was_named_is_read(tmp_path: Path) -> None:
    whole = json.loads(certificate().to_bytes())
    del whole["candidate"]["way"]
    (tmp_path / CERTIFICATE).write_text(json.dumps(whole))
    assert read_certificate(tmp_path / CERTIFICATE).candidate.way is None


def test_a_certificate_that_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="cannot read") as error:
        read_certificate(tmp_path / CERTIFICATE)
    assert CERTIFICATE in (error.value.next_step or "")
    (tmp_path / CERTIFICATE).write_bytes(b" " * ((4 << 20) + 1))
    with pytest.raises(RefusedError, match="limit of 4 MiB") as error:
        read_certificate(tmp_path / CERTIFICATE)
    assert "flyball convert" in (error.value.next_step or "")


@pytest.mark.parametrize("bound", [float("nan"), float("inf"), -1e-9])
def test_a_bound_that_bounds_nothing_is_refused(bound: float) -> None:
    with pytest.raises(InvalidInputError, match="is not allowed") as error:
        compare(np.zeros(3), np.ones(3), bound=bound, kinds=["given"] * 3)
    assert error.value.next_step == "use a finite number of 0 or more"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_models_that_answer_nothing_are_not_equal(value: float) -> None:
    nothing = np.full(3, value)
    with pytest.raises(InvalidInputError, match="so nothing is compared"):
        compare(nothing, nothing, bound=1e-6, kinds=["given"] * 3)
    one = np.array([value, value, 0.5])
    assert compare(one, one, bound=1e-6, kinds=["given"] * 3).equal
    # Where the original answers, the rows are told as lost, and not that there are none.
    assert compare(one, nothing, bound=1e-6, kinds=["given"] * 3).all.beyond == 1


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"format": "flyball.equivalence/2"}'])
def test_what_is_no_certificate_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / CERTIFICATE).write_bytes(content)
    with pytest.raises(RefusedError, match="not a valid equivalence certificate"):
        read_certificate(tmp_path / CERTIFICATE)
