"""What replays, reviews and counterfactuals say and take, over logs that are lists: no server, no file."""

from pathlib import Path
from typing import Any

import pytest

from flyball import errors
from flyball.client import Decided
from flyball.decision_log import annotations
from flyball.decision_log.read import reviews
from flyball.decision_log.replay import deployments
from flyball.decision_log.replay.candidate import Pair, Trial, truths_of
from flyball.decision_log.replay.candidate_report import trial_lines, write_page
from flyball.decision_log.replay.compare import Class, Compared
from flyball.decision_log.replay.deployments import Deployment, Deployments, NotReplayableError
from flyball.decision_log.replay.flips import figures
from flyball.decision_log.replay.replay import Replay, Replayed, Selection, selected
from flyball.decision_log.replay.report import replay_document, replay_lines, trial_document, what_if_document, what_if_lines
from flyball.decision_log.replay.what_if import WhatIf, changed
from flyball.native.journal_documents import SegmentFacts

DIGEST = "sha256:" + "a" * 64


class ListedLog:
    """Records in memory, with the methods of a log that are asked here."""

    folder = Path("nowhere")

    def __init__(self, records: list[dict[str, Any]], blobs: dict[str, bytes] | None = None) -> None:
        self._records = [{"seq": place, **record} for place, record in enumerate(records)]
        self._blobs = blobs or {}

    def segments(self) -> list[SegmentFacts]:
        facts = {"frames": len(self._records), "bytes": 0, "began": "new", "created_unix_ns": 0, "sealed": False}
        return [SegmentFacts(segment=1, first_seq=0, root="", last="", **facts)]

    def records(self, from_seq: int = 0, *, kinds: Any = None, decision: Any = None, **more: Any) -> Any:
        del from_seq, more
        return iter(
            [
                one
                for one in self._records
                if one["kind"] in (kinds or [one["kind"]]) and decision in (None, one.get("decision"))
            ]
        )

    def chunk(self, from_seq: int, most: int, options: dict[str, Any]) -> tuple[bytes, int, bool]:
        import json

        lines = [json.dumps(one).encode() for one in self.records(kinds=options["kinds"])]
        return b"\n".join(lines), from_seq + most, True

    def blob(self, digest: str) -> bytes | None:
        return self._blobs.get(digest)


def decision(place: int, outcome: str = "review", **more: Any) -> dict[str, Any]:
    return {"kind": "decision", "id": f"id-{place}", "at": place, "decision": "card", "outcome": outcome, **more}


def test_those_wait_that_have_the_outcome_and_no_override_oldest_first() -> None:
    log: Any = ListedLog(
        [
            decision(1),
            decision(4),
            decision(3, "pass"),
            {"kind": "override", "id": "id-1", "decision": "card"},
            {"kind": "override", "id": "id-2", "decision": "loan"},
            decision(2),
            decision(5),
        ]
    )
    found, count = reviews.waiting(log, most=2)
    assert ([one["id"] for one in found], count) == (["id-2", "id-4"], 3)


def test_the_last_truth_that_was_told_counts() -> None:
    log: Any = ListedLog([{"kind": "outcome", "id": "a", "decision": "d", "truth": truth} for truth in ("good", "fraud")])
    assert truths_of(log, "d", {"a"}) == {"a": "fraud"}
    assert truths_of(log, "d", {"b"}) == {}


def test_a_sample_is_the_same_for_a_seed_in_the_log_s_order_and_of_its_size() -> None:
    log: Any = ListedLog([decision(place) for place in range(200)])
    drawn = [one["seq"] for one in selected(log, Selection(sample=30, seed=5))]
    assert drawn == [one["seq"] for one in selected(log, Selection(sample=30, seed=5))]
    assert drawn != [one["seq"] for one in selected(log, Selection(sample=30, seed=6))]
    assert drawn == sorted(set(drawn))
    assert len(drawn) == 30
    assert len(list(selected(log, Selection(sample=500)))) == 200


def test_every_record_is_drawn_as_often_as_any_other() -> None:
    log: Any = ListedLog([decision(place) for place in range(20)])
    drawn = [one["seq"] for seed in range(600) for one in selected(log, Selection(sample=5, seed=seed))]
    assert all(110 <= drawn.count(place) <= 190 for place in range(20))  # 150 each, within four deviations


DEPLOYMENT = {
    "name": "card",
    "versions": [{"version": "1", "artifact": {"path": "m.onnx", "digest": DIGEST}}],
    "decision": {
        "input": [
            {"name": "amount", "type": "float"},
            {"name": "new", "type": "bool"},
            {"name": "card_id", "type": "string"},
        ],
        "features": [
            {
                "name": "spent_1h",
                "type": "float",
                "window": {"op": "sum", "of": "amount", "by": "card_id", "last_ms": 3600000},
            },
            {"name": "large", "type": "bool", "compute": "amount > 5.0"},
        ],
    },
}


def served_log(document: dict[str, Any] | None) -> Any:
    import json

    served = {
        "kind": "served",
        "id": "0",
        "decision": "card",
        "document": "sha256:d",
        "deployment": "sha256:b",
        "base": "/x",
    }
    blobs = {} if document is None else {"sha256:b": json.dumps(document).encode()}
    return ListedLog([served, {**served, "document": "sha256:e"}, decision(2)], blobs)


def asked(**changes: Any) -> dict[str, Any]:
    models = [{"model": "m", "version": "1", "digest": DIGEST}]
    return {"seq": 2, "decision": "card", "document": "sha256:d", "models": models, **changes}


def test_a_deployment_is_found_by_its_document_and_models() -> None:
    assert Deployments(served_log(DEPLOYMENT)).of(asked()).name == "card"
    for record, why in [
        (asked(document="sha256:f"), "no served record of card with document sha256:f"),
        (
            asked(models=[{"version": "1", "digest": "sha256:other"}]),
            "no served record of card with the models of this record",
        ),
        (asked(seq=-1), "no served record of card with document sha256:d"),
    ]:
        with pytest.raises(NotReplayableError, match=why):
            Deployments(served_log(DEPLOYMENT)).of(record)
    with pytest.raises(NotReplayableError, match="document sha256:b is no longer in the log"):
        Deployments(served_log(None)).of(asked())


def test_a_model_must_have_its_digest_wherever_it_lies(tmp_path: Path) -> None:
    import hashlib

    model = tmp_path / "m.onnx"
    model.write_bytes(b"one")
    files = deployments._FilesByDigest(tmp_path)
    digest = f"sha256:{hashlib.sha256(b'one').hexdigest()}"
    assert files.path(digest, tmp_path / "gone.onnx") == model
    with pytest.raises(NotReplayableError, match="is neither at"):
        files.path(DIGEST, model)
    with pytest.raises(NotReplayableError, match="; give --models DIR"):
        deployments._FilesByDigest(None).path(DIGEST, model)


def test_settings_take_the_types_of_fields_and_features() -> None:
    deployment = Deployment("sha256:b", DEPLOYMENT, Path())
    assert changed(deployment, ["amount=5", "new=true", "card_id=7", "spent_1h="]) == {
        "amount": 5, "new": True, "card_id": "7", "spent_1h": None,
    }  # fmt: skip
    for setting, why in [
        ("amount", "is not NAME=VALUE"),
        ("income=5", "has no field or feature"),
        ("amount=much", "allowed: a number"),
        ("amount=true", "allowed: a number"),
        ("new=1", "allowed: true or false"),
    ]:
        with pytest.raises(errors.UsageError, match=why):
            changed(deployment, [setting])


def test_a_counterfactual_reads_as_one_line() -> None:
    record = {"id": "i", "decision": "card", "outcome": "reject", "score": 0.914, "band": "reject", "reasons": []}
    decided = Decided("j", "card", "review", "review", 0.402)
    document = what_if_document(WhatIf(record, Compared(Class.BIT_EXACT), decided, {"payments_1h": 3}, ["spent_1h stays"]))
    lines = what_if_lines(document, ["commit a → b"])
    assert lines[0] == (
        "reject (0.914) → review (0.402)     model none on the same machine class, bit-exact before the change"
    )
    assert lines[-1] == "  spent_1h stays"
    assert "on another machine class (cpu a → b)" in what_if_lines(document, ["cpu a → b"])[0]


def test_a_replay_s_table_names_classes_reasons_and_what_differs_here() -> None:
    found = Replay()
    found.counts.update({Class.BIT_EXACT: 98, Class.DIFFERS: 1, Class.CANNOT: 1})
    found.reasons["masked: email"] = 1
    found.runtimes["onnxruntime 1.30 → 1.31"] = 100
    found.moved["onnxruntime 1.30 → 1.31"] = 1
    compared = Compared(Class.DIFFERS, ("score 0.1 → 0.2",), True)
    found.examples.append(Replayed("id-9", 9, "card", compared, [{"model": "m", "rows": 5, "position": 2}]))
    assert not found.kept
    text = "\n".join(replay_lines(replay_document(found, 1e-6)))
    for part in ("bit-exact", "98.00%", "cannot: masked: email   (1)", "onnxruntime 1.30 → 1.31   (100)",
                 "scores moved with these differences: onnxruntime",
                 "id-9   score 0.1 → 0.2   (m in a batch of 5)"):  # fmt: skip
        assert part in text


def test_a_report_says_the_same_as_text_and_as_a_page_and_escapes_what_it_shows(tmp_path: Path) -> None:
    trial = Trial("<card>", "m sha256:1", ["pass", "reject"], ["reject"], ("country",))
    trial.pairs = [Pair(str(place), "pass", "reject" if place < 3 else "pass", 0.2, 0.4, ("D<E",)) for place in range(10)]
    trial.left_out["decided by a remedy"] = 2
    document = trial_document(trial, figures(trial, {"0": True}), 1)
    text = "\n".join(trial_lines(document))
    assert "flips 30.00 % (10.78 to 60.32)" in text
    assert "left out: decided by a remedy   (2)" in text
    page = write_page(document, tmp_path / "page.html").read_text()
    assert "30.00 % (10.78 to 60.32)" in page
    assert "D&lt;E" in page
    assert "<card>" not in page


def test_an_outcome_s_id_and_time_are_checked_before_anything_is_told() -> None:
    name = "0192F6C1-2345-7FFF-BFFF-FFFFFFFFFFFF"
    told = annotations.outcome_document("pay", name, True, "1970-01-01T00:00:01Z", "case 7")
    assert told == {"id": name.lower(), "decision": "pay", "truth": True, "when": "1970-01-01T00:00:01Z", "source": "case 7"}
    with pytest.raises(errors.InvalidInputError, match="'x' is not a decision id"):
        annotations.outcome_document("pay", "x", True, None, None)
    with pytest.raises(errors.UsageError, match="'soon' is not a time"):
        annotations.outcome_document("pay", name, True, "soon", None)
