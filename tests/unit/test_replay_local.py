"""Replay by private servers of this process: records as a log would give them, made from what a decision answered."""

import json
from pathlib import Path
from typing import Any

import pytest

import flyball
from flyball.decision_log.replay.candidate import try_candidate
from flyball.decision_log.replay.compare import Class
from flyball.decision_log.replay.deployments import Deployments
from flyball.decision_log.replay.flips import figures
from flyball.decision_log.replay.replay import Replay, replay
from flyball.decision_log.replay.what_if import what_if
from flyball.documents.snapshot.store import digest_of
from flyball.errors import RefusedError
from flyball.native.journal import runtime_fingerprint
from tests.support import decision_folders
from tests.unit.test_replay_words import ListedLog

RUNTIME = "sha256:" + "e" * 64


class Served:
    """A decision, what it answered to rows, and the log that would have been kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.decision = flyball.Decision.load(decision_folders.plain(folder))
        bundle = self.decision.bundle()
        deployment = bundle.documents[0]
        with self.decision:
            rows = [row for row in decision_folders.plain_rows(120) if row["amount"] != -1.0]
            self.sent = list(zip(rows, self.decision.decide_rows(rows), strict=True))
        digest = digest_of(deployment)
        served = {"kind": "served", "id": "0", "decision": "plain", "deployment": digest, "base": str(folder)}
        self.records = [self._record(row, answer.decided) for row, answer in self.sent if answer.decided]
        served |= {"document": self.records[0]["document"], "runtime": RUNTIME}
        blobs = {digest: deployment, RUNTIME: json.dumps(runtime_fingerprint()).encode()}
        self.log: Any = ListedLog([served, *self.records], blobs)
        self.records = list(self.log.records(kinds=["decision"]))

    def _record(self, row: dict[str, Any], decided: Any) -> dict[str, Any]:
        return {
            "kind": "decision",
            "id": decided.id,
            "decision": "plain",
            "document": decided.document,
            "runtime": RUNTIME,
            "models": [{"model": one.model, "version": one.version, "digest": one.digest} for one in decided.models],
            "variant": decided.route,
            "route": "champion",
            "input": row,
            "features": {"large": {"value": row["amount"] > 1000, "origin": "computed", "age_ms": None}},
            "scores": {"plain": decided.score},
            "score": decided.score,
            "outcome": decided.outcome,
            "band": decided.band,
            "reasons": [{"code": one.code, "field": one.field, "contribution": one.contribution} for one in decided.reasons],
            "explain": False,
            "remedy": None,
        }

    def again(self, records: list[dict[str, Any]] | None = None, models: Path | None = None) -> Replay:
        deployments = Deployments(self.log, models)
        try:
            return replay(self.log, self.records if records is None else records, deployments)
        finally:
            deployments.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(tmp_path_factory.mktemp("served"))


def test_what_was_answered_comes_out_again_to_the_bit_on_the_same_runtime(served: Served) -> None:
    found = served.again()
    assert found.counts == {Class.BIT_EXACT: len(served.records)}, found.examples[:1]
    assert found.kept
    assert found.runtimes == {}
    assert len(served.records) > 100


def test_another_record_differs_and_another_runtime_is_named_and_blamed(served: Served) -> None:
    other = "sha256:" + "f" * 64
    served.log._blobs[other] = json.dumps({**runtime_fingerprint(), "onnxruntime": "1.0"}).encode()
    changed = [{**record, "score": record["score"] * (1 + 1e-9), "runtime": other} for record in served.records[:5]]
    found = served.again([*changed, {**served.records[6], "outcome": "nonsense"}])
    assert (found.counts[Class.WITHIN], found.counts[Class.DIFFERS]) == (5, 1)
    (told,) = found.moved
    assert told.startswith("onnxruntime 1.0 → ")
    assert found.moved[told] == 5


def test_rules_decide_without_the_model_where_they_did(served: Served) -> None:
    record = next(one for one in served.records if one["outcome"] == "review" and one["reasons"])
    by_rules = {
        **record, "route": "rules", "variant": None, "score": None, "scores": {}, "band": None, "models": [],
        "remedy": {"cause": "deadline_passed", "stage": "queue", "used": "rules"},
    }  # fmt: skip
    assert served.again([by_rules]).counts == {Class.BIT_EXACT: 1}


def test_a_model_with_other_bytes_is_not_taken(served: Served, tmp_path: Path) -> None:
    model = served.folder / "plain.onnx"
    kept = model.read_bytes()
    try:
        decision_folders.fraud_model(served.folder, "plain", decision_folders.PLAIN_COLUMNS + 1)
        found = served.again()
        assert found.counts == {Class.CANNOT: len(served.records)}
        assert next(iter(found.reasons)).endswith(f"is no longer at {model}; give --models DIR")
        (tmp_path / "elsewhere.onnx").write_bytes(kept)
        assert served.again(models=tmp_path).kept
    finally:
        model.write_bytes(kept)


def test_a_candidate_decides_the_same_rows_and_leaves_out_what_no_model_decided(served: Served, tmp_path: Path) -> None:
    spec = decision_folders.PLAIN.replace('pass: "< 0.40", review: "< 0.97"', 'pass: "< 0.60", review: "< 0.97"')
    candidate = flyball.Decision.load(decision_folders.plain(tmp_path, spec))
    remedied = {**served.records[0], "remedy": {"cause": "run_failed", "stage": "infer", "used": "outcome"}}
    trial = try_candidate(candidate, [remedied, *served.records], fields=["currency"])
    assert trial.left_out.total() == 1
    found = figures(trial, {})
    rules = [one for one in served.records if not (one["input"]["amount"] > 1000 and one["input"]["country"] != "DE")]
    assert found.rows == len(served.records)
    assert found.matrix["review"]["pass"] == sum(one["outcome"] == "review" and one["score"] < 0.6 for one in rules) > 0
    assert {one.values for one in found.segments} == {("EUR",), ("USD",)}


@pytest.mark.parametrize(("value", "flips"), [(None, False), (9.0, True)], ids=["missing", "known"])
def test_a_feature_that_was_missing_stays_missing_whatever_is_declared_for_that(
    served: Served, tmp_path: Path, value: float | None, flips: bool
) -> None:
    feature = "features:\n  seen: {window: count() by card_id last 1h, on_missing: 9}\n"
    rule = "rules:\n    - {when: seen == 9.0, then: reject, reason: R11}\n"
    spec = decision_folders.PLAIN.replace("features:\n", feature).replace("rules:\n", rule)
    candidate = flyball.Decision.load(decision_folders.plain(tmp_path, spec))
    seen = {"seen": {"value": value, "origin": "window", "age_ms": None}}
    records = [{**one, "features": {**one["features"], **seen}} for one in served.records if one["outcome"] == "pass"]
    found = figures(try_candidate(candidate, records, fields=[]), {})
    assert found.rows == len(records) > 10
    assert found.matrix["pass"]["reject" if flips else "pass"] == len(records)


def test_a_counterfactual_carries_computed_features_along_and_an_erased_one_is_refused(served: Served) -> None:
    record = next(one for one in served.records if one["input"]["amount"] > 1000 and one["input"]["country"] == "FR")
    deployments = Deployments(served.log)
    try:
        found = what_if(record, ["amount=1"], deployments)
        assert found.before.cls is Class.BIT_EXACT
        assert [reason["code"] for reason in record["reasons"]] == ["R07"]
        assert [reason.code for reason in found.decided.reasons] == []
        with pytest.raises(RefusedError, match="cannot replay: its subject was erased"):
            what_if({**record, "personal": "erased"}, ["amount=1"], deployments)
    finally:
        deployments.close()
