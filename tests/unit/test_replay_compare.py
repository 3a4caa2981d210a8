"""Classes of replay, from recorded JSON: what is the same to the bit, what is near, what differs, what cannot be told."""

from typing import Any

import pytest

from flyball.client import Decided
from flyball.client.decisions import Reason
from flyball.decision_log.replay.compare import Class, compare, compare_declared, near, same_bits
from flyball.decision_log.replay.replay import differences
from flyball.decision_log.replay.rows import NotReplayable, ReplayRow, replay_row

ID = "0192f6c1-2345-7fff-bfff-ffffffffffff"
RECORD: dict[str, Any] = {
    "kind": "decision",
    "id": ID,
    "seq": 7,
    "decision": "card",
    "document": "sha256:d",
    "variant": "champion",
    "route": "champion",
    "explain": True,
    "input": {"amount": 12.5, "country": "FR"},
    "personal_fields": ["email"],
    "features": {
        "seen": {"value": 3.0, "origin": "window", "age_ms": None},
        "large": {"value": False, "origin": "computed", "age_ms": None},
        "home": {"value": None, "origin": "none", "age_ms": None},
    },
    "scores": {"a": 0.25, "b": 0.5},
    "score": 0.41,
    "outcome": "review",
    "band": "review",
    "reasons": [
        {"code": "R11", "field": None, "contribution": None},
        {"code": "R02", "field": "amount", "contribution": 0.31},
    ],
    "remedy": None,
}
DECIDED = Decided(
    id=ID,
    decision="card",
    outcome="review",
    band="review",
    score=0.41,
    scores={"a": 0.25, "b": 0.5},
    reasons=(Reason("R11"), Reason("R02", "amount", "amount", 0.31)),
    document="sha256:d",
)


def decided(**changes: Any) -> Decided:
    from dataclasses import replace

    return replace(DECIDED, **changes)


def test_the_same_decision_is_bit_exact() -> None:
    assert compare(RECORD, DECIDED).cls is Class.BIT_EXACT


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"outcome": "pass"}, "outcome review → pass"),
        ({"band": None}, "band review → none"),
        ({"score": 0.42}, "score 0.41 → 0.42"),
        ({"score": None}, "score 0.41 → none"),
        ({"scores": {"a": 0.25, "b": 0.6}}, "score of b 0.5 → 0.6"),
        ({"reasons": DECIDED.reasons[1:]}, "rules' reasons R11 → none"),
        ({"reasons": DECIDED.reasons[:1]}, "the model's reasons R02 by amount → none"),
        (
            {"reasons": (DECIDED.reasons[0], Reason("R02", None, "amount", 0.32))},
            "contribution of amount 0.31 → 0.32",
        ),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_difference_is_told_by_its_name(change: dict[str, Any], told: str) -> None:
    compared = compare(RECORD, decided(**change))
    assert compared.cls is Class.DIFFERS
    assert compared.notes == (told,)


def test_a_score_may_be_near_and_is_then_within_tolerance() -> None:
    moved = decided(score=0.41 * (1 + 5e-7))
    assert compare(RECORD, moved).cls is Class.WITHIN
    assert compare(RECORD, moved).scores
    assert compare(RECORD, moved, 1e-8).cls is Class.DIFFERS


def test_a_near_score_on_the_other_side_of_a_band_differs() -> None:
    assert compare(RECORD, decided(score=0.41 * (1 + 5e-7), outcome="pass")).cls is Class.DIFFERS


def test_reasons_that_a_late_answer_went_without_are_no_difference() -> None:
    assert compare({**RECORD, "reasons": RECORD["reasons"][:1]}, DECIDED).cls is Class.BIT_EXACT


def test_bits_know_the_sign_of_zero_and_what_is_no_number() -> None:
    assert not same_bits(0.0, -0.0)
    assert same_bits("NaN", float("nan"))
    assert same_bits(None, None)
    assert not same_bits(None, 0.0)
    assert not near("NaN", 1.0, 1.0)
    assert near(1.0, 1.0 + 1e-7, 1e-6)


def test_a_score_that_is_not_finite_is_none_in_an_answer() -> None:
    record = {**RECORD, "scores": {"a": "NaN", "b": 0.5}}
    assert compare(record, decided(scores={"a": None, "b": 0.5})).cls is Class.BIT_EXACT


def test_a_row_brings_features_as_used_and_lets_computed_ones_be_computed() -> None:
    row = replay_row(RECORD)
    assert row == ReplayRow({"amount": 12.5, "country": "FR", "seen": 3.0, "home": None}, {"variant": "champion"}, True)


def test_rules_and_a_kill_switch_go_their_own_ways() -> None:
    by_rules = replay_row({**RECORD, "route": "rules", "variant": None})
    killed = replay_row({**RECORD, "route": "kill_switch", "variant": None})
    assert isinstance(by_rules, ReplayRow)
    assert isinstance(killed, ReplayRow)
    assert (by_rules.forced_route, killed.forced_route) == ({"rules": True}, None)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"personal": "erased"}, "its subject was erased"),
        ({"personal": "sealed"}, "its personal fields are encrypted; give --journal-kek SOURCE"),
        ({"sampled": False}, "not sampled: its input was not recorded"),
        ({"masked": ["email"]}, "masked: email"),
        ({"input": None}, "its input is not in the log"),
        (
            {"kind": "failed", "fault": ["run_failed", "infer", "x"]},
            "the row failed (run_failed)",
        ),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_what_is_not_whole_says_why(change: dict[str, Any], why: str) -> None:
    unready = replay_row({**RECORD, **change})
    assert isinstance(unready, NotReplayable)
    assert unready.why == why
    assert unready.erased == (change.get("personal") == "erased")


def test_a_feature_that_was_missing_is_brought_as_missing_unless_it_is_computed() -> None:
    declared = replay_row(RECORD, {"home": {"on_missing": {"value": 1}, "compute": None}})
    computed = replay_row(RECORD, {"home": {"compute": "amount * 2.0"}})
    assert isinstance(declared, ReplayRow)
    assert isinstance(computed, ReplayRow)
    assert declared.values["home"] is None
    assert "home" not in computed.values


def test_a_declared_outcome_is_compared_with_what_is_declared() -> None:
    record = {**RECORD, "route": "declared", "remedy": {"cause": "deadline_passed", "stage": "queue", "used": "outcome"}}
    assert compare_declared(record, {"remedies": {"timeout": {"outcome": "review"}}}).cls is Class.BIT_EXACT
    compared = compare_declared(record, {"remedies": {"timeout": "error"}})
    assert compared.cls is Class.DIFFERS
    assert compared.notes == ("outcome review → None, declared for deadline_passed",)


def test_runtimes_differ_by_name_and_lists_by_what_is_lacking() -> None:
    was = {"onnxruntime": "1.30.0", "cpu_features": ["avx2", "fma"], "intra_threads": 1}
    now = {"onnxruntime": "1.31.1", "cpu_features": ["avx2", "avx512f"], "intra_threads": 1}
    assert differences(was, now) == ["cpu_features -fma +avx512f", "onnxruntime 1.30.0 → 1.31.1"]
    assert differences(was, was) == []
