"""A decision that is optimised: rows as its callers send them, columns that nobody asks cut, and the folder that serves."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flyball.cli.optimize import _budget
from flyball.client import Decided
from flyball.decision.compile.score_thresholds import score_thresholds
from flyball.decision.decision import Decision
from flyball.decision.spec.policy import Policy
from flyball.errors import RefusedError, ServerFaultError, UsageError
from flyball.models import attribution
from flyball.models.equivalence.comparison import compare
from flyball.models.optimize.candidate import Candidate, evaluate_candidate
from flyball.models.optimize.chosen_decision import narrowed_trees, needed_transforms, write_decision
from flyball.models.optimize.compare_decisions import DecisionsDifferError, compare_decisions
from flyball.models.optimize.original import Original
from flyball.models.optimize.pipeline import PipelineResult, StepResults
from flyball.models.optimize.report import write_report
from flyball.models.optimize.rewrite import Trim, rewrite
from flyball.models.optimize.rows import Rows, read_rows
from flyball.models.optimize.run import Run
from flyball.models.optimize.steps.baseline import baseline
from flyball.models.optimize.steps.equal import equal
from flyball.models.optimize.steps.export import EXPORTED, export
from flyball.models.optimize.subject import subject_of
from flyball.models.optimize.work_folder import WorkFolder
from flyball.native.model_runs import Model
from tests.support import idle_columns, onnx_models
from tests.support.idle_columns import ASKED, COLUMNS, DECISION
from tests.support.silent_progress import Silent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return idle_columns.write(tmp_path_factory.mktemp("loans")).parent


def run_of(folder: Path, work: Path) -> Run:
    subject = subject_of(folder / "loans.yaml")
    rows = read_rows(folder / "rows.csv", subject, Model(subject.model).facts.inputs, labels="label")
    return Run(subject, rows, WorkFolder(work))


def exported(run: Run) -> StepResults:
    found = StepResults()
    with run.work.held():
        found.documents["export"] = export(run, found, Silent())
    return found


def test_a_decision_s_rows_go_through_its_own_transforms_and_its_features_are_columns(folder: Path, tmp_path: Path) -> None:
    run = run_of(folder, tmp_path / "work")
    assert run.rows.names == COLUMNS
    table = run.rows.inputs["input"]
    assert table.shape == (400, 6)
    assert set(np.unique(table[:, 1])) == {7.0}  # idle, scaled
    assert (table[:, 5] > 0).all()  # as the file says, not as an empty window would
    assert set(run.rows.requests[0]) == {"who", "amount", "idle", "channel"}  # a caller sends no features


def test_a_file_without_what_every_request_has_is_refused_with_all_of_it(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("amount,idle,channel\n1,2,web\n")
    subject = subject_of(folder / "loans.yaml")
    with pytest.raises(RefusedError, match=r"lacks who, spent, which the decision requires"):
        read_rows(tmp_path / "rows.csv", subject, Model(subject.model).facts.inputs)


def test_the_budget_is_what_the_decision_promises_unless_another_is_asked_for(folder: Path) -> None:
    subject = subject_of(folder / "loans.yaml")
    assert _budget([], subject).p99_ms == 7
    assert _budget(["p99=2", "size=3"], subject).model_dump(exclude_none=True) == {"p99_ms": 2, "size_mb": 3}
    for wrong in ("p99=-1", "p99", "speed=2"):
        with pytest.raises(UsageError, match=r"--budget: .* is not valid"):
            _budget([wrong], subject)


def test_what_a_decision_says_itself_cannot_be_said_otherwise(folder: Path) -> None:
    with pytest.raises(UsageError, match="defines its output and thresholds itself"):
        subject_of(folder / "loans.yaml", thresholds=[0.3])


def test_a_decision_s_time_is_told_by_stages_and_a_row_that_is_refused_is_no_end(folder: Path, tmp_path: Path) -> None:
    run = run_of(folder, tmp_path / "work")
    told = baseline(run, StepResults(), Silent())
    assert told["stages_us"]
    assert told["stages_error"] is None
    run.rows.requests[0]["amount"] = -1.0
    told = baseline(run, StepResults(), Silent())
    assert told["stages_us"] == {}
    assert "amount" in told["stages_error"]


def test_columns_that_no_split_asks_are_cut_and_no_answer_changes(folder: Path, tmp_path: Path) -> None:
    run = run_of(folder, tmp_path / "work")
    found = exported(run)
    assert found.of("export")["columns"] == ASKED
    assert found.of("export")["columns_cut"] == ["idle", "channel=shop", "channel=fax"]
    assert Model(run.work.models / EXPORTED).facts.inputs[0].shape[1] == len(ASKED)
    told = equal(Original(run), found, Silent())
    assert told["all"]["max_abs"] == 0.0
    assert told["all"]["rows"] >= 10_000


def test_a_bare_model_keeps_its_columns_for_its_callers_send_them(folder: Path, tmp_path: Path) -> None:
    subject = subject_of(folder / "loans.onnx")
    run = Run(subject, Rows({"input": np.zeros((3, 6), np.float32)}, None, None, "sha256:0"), WorkFolder(tmp_path / "work"))
    assert exported(run).of("export")["columns"] is None


def test_the_chosen_decision_serves_without_them_and_gives_the_same_reasons(folder: Path, tmp_path: Path) -> None:
    run = run_of(folder, tmp_path / "work")
    found = exported(run)
    assert run.subject.decision is not None
    chosen = tmp_path / "work" / "chosen"
    made = write_decision(run.subject.decision, run.work.models / EXPORTED, found.of("export")["columns"], chosen)
    assert sorted(path.name for path in chosen.iterdir()) == [
        "decision.yaml", "fitted.json", "model.onnx", "model.trees.json", "reasons.csv",
    ]  # fmt: skip
    assert made.spec.model is not None
    assert made.spec.model.columns[0].columns == ["amount", "channel=web", "spent"]
    assert [one.op for one in made.spec.transforms] == ["log1p", "standardize", "one_hot"]
    assert json.loads((chosen / "fitted.json").read_text())["transforms"][0]["at"] == 1
    requests = [*run.rows.requests[:40], {"who": "x", "amount": 5.0, "idle": 901.0, "channel": "fax"}]
    told = compare_decisions(run.subject.decision, made, requests, bound=1e-5)
    assert (told["requests"], told["differ"], told["error"]) == (41, 0, None)
    with Decision.load(chosen / "decision.yaml") as served:
        decided = served.decide(requests[-1], explain=True)
    assert decided.outcome == "review"
    assert decided.models[0].model == "loans"


def test_a_decision_that_decides_otherwise_around_an_equal_model_ends_the_run(folder: Path, tmp_path: Path) -> None:
    run = run_of(folder, tmp_path / "work")
    assert run.subject.decision is not None
    other = Decision.from_yaml(DECISION.replace("0.5", "0.0001"), base=folder)
    with pytest.raises(DecisionsDifferError, match="requests are decided differently"):
        compare_decisions(run.subject.decision, other, run.rows.requests[:20], bound=1e-5)


class Scripted:
    """A decision that gives these scores, one after the other, and fails where one is missing."""

    def __init__(self, *scores: float | None) -> None:
        self._scores = iter(scores)
        self.closed = False

    def decide(self, row: Any, **_: Any) -> Decided:
        score = next(self._scores)
        if score is None:
            raise ServerFaultError("guard_violated: the score is not finite")
        return Decided("id", "loans", "review" if score >= 0.5 else "pass", score=score, timings_us={"infer": 1.0})

    def close(self) -> None:
        self.closed = True


def test_a_chosen_decision_that_cannot_decide_what_the_first_can_ends_the_run() -> None:
    for bound in (1e-5, None):
        first, second = Scripted(0.1, 0.2), Scripted(0.1, None)
        with pytest.raises(DecisionsDifferError, match="with the chosen model one of 2 requests fails: guard_violated"):
            compare_decisions(first, second, [{}, {}], bound=bound)
        assert second.closed
    told = compare_decisions(Scripted(None), Scripted(0.1), [{}], bound=1e-5)
    assert (told["requests"], told["error"]) == (0, "guard_violated: the score is not finite")


def test_scores_of_equal_models_may_lie_as_far_apart_as_the_bound_says_and_no_further() -> None:
    told = compare_decisions(Scripted(0.1, 0.4999), Scripted(0.1004, 0.5001), [{}, {}], bound=1e-3)
    assert told["differ"] == 1  # told: a score beside a band's beginning fell on the other side
    with pytest.raises(DecisionsDifferError, match=r"1 of 2 requests .*: pass \(0.1\) became pass \(0.102\)"):
        compare_decisions(Scripted(0.1, 0.4), Scripted(0.102, 0.4), [{}, {}], bound=1e-3)
    assert compare_decisions(Scripted(0.1), Scripted(0.9), [{}], bound=None)["differ"] == 1


def ended(run: Run) -> PipelineResult:
    """What the report reads, with the model as it came for the exported one."""
    shutil.copyfile(run.subject.model, run.work.models / EXPORTED)
    digest = Model(run.subject.model).facts.digest
    same = compare(np.zeros(9), np.zeros(9), bound=run.bound, kinds=["given"] * 9)
    one = Candidate(name="float32", how="", file=EXPORTED, digest=digest, comparison=same, outcome="equal")
    return PipelineResult(
        {
            "baseline": {"facts": {"ort_version": "1.31"}},
            "export": {"columns": None, "columns_cut": []},
            "graph": {"candidates": [one.model_dump()]},
            "quantise": {"candidates": []},
            "batch": {"figures": {"float32": {"1": {"p50_us": 1.0, "p99_us": 2.0}}}, "rows_max": {"float32": 32}},
            "benchmark": {"chosen": {"p99": 2.0}},
        },
        [],
    )


def test_nothing_is_left_in_the_folder_before_the_decision_is_proven(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flyball.models.optimize.report._page", lambda _: b"drawn elsewhere")
    run = run_of(folder, tmp_path / "work")
    with run.work.held():
        steps = ended(run)
        before = sorted(path.name for path in run.work.folder.iterdir())
        with monkeypatch.context() as otherwise:
            otherwise.setattr("flyball.models.optimize.report.compare_decisions", refuse)
            with pytest.raises(DecisionsDifferError):
                write_report(run, steps)
        assert sorted(path.name for path in run.work.folder.iterdir()) == before
        assert [path.name for path in run.work.models.iterdir()] == [EXPORTED]
        result = write_report(run, steps)
    made = {path.name for path in run.work.folder.iterdir()} - set(before)
    assert made == {"chosen", "chosen.onnx", "equivalence.json", "report.json", "report.html"}
    assert result.document["decision"]["requests"] == 200
    with Decision.load(run.work.folder / "chosen" / "decision.yaml") as served:
        served.check()


def refuse(*_: Any, **__: Any) -> None:
    raise DecisionsDifferError("otherwise")


ABOVE = {value: math.nextafter(value, math.inf) for value in (0.95, 0.2, 0.0, 1.0)}


@pytest.mark.parametrize(
    ("condition", "thresholds"),
    [
        ("score > 0.95 || amount / idle >= 250.0", [ABOVE[0.95]]),
        ("amount > 9.0 && (score>=0.95)", [0.95]),
        ("0.2 < score && score < 9.5e-1 // score * 2", [ABOVE[0.2], 0.95]),
        ("score <= 0.95 ? idle > 1.0 : 0.2 > score", [0.2, ABOVE[0.95]]),
        ("score == 0.95", [0.95, ABOVE[0.95]]),
        ("-0.5 <= score", [-0.5]),
        ("has(score) && channel == 'score > 3'", []),
        ('channel.matches(r"\\") && score > 0.2 && channel != "a"', [ABOVE[0.2]]),
        ("idle > 900.0", []),
        ("score * amount > 50.0", None),
        ("1.0 - score > 0.5", None),
        ("score > amount", None),
        ("amount - 0.5 < score", None),
        ("score > 0.5 + idle", None),
        ("score in [0.0, 1.0]", None),
        ("double(score) > 0.5 && score > 0.2", None),
        ("(score) > 0.5", None),
        ("score > 0x1", None),
    ],
)
def test_rules_over_the_score_have_thresholds_or_are_told_as_ones_that_nobody_can_count(
    condition: str, thresholds: list[float] | None
) -> None:
    policy = Policy.model_validate({"rules": [{"when": condition, "then": "hold"}], "bands": {"pass": ">= -9"}})
    told, unread = score_thresholds(policy)
    assert told == [-9.0, *(thresholds or [])]
    assert unread == ([condition] if thresholds is None else [])


def test_the_guard_of_the_score_decides_too_and_bands_come_first() -> None:
    bands = {"pass": "< 0.5", "review": ">= 0.5"}
    told, _ = score_thresholds(Policy.model_validate({"guard": {"score": "0..1", "amount": "3..4"}, "bands": bands}))
    assert told == [0.5, 0.0, ABOVE[1.0]]


def test_a_candidate_that_is_not_equal_may_not_serve_where_flips_cannot_be_counted(folder: Path, tmp_path: Path) -> None:
    run = run_of(folder, tmp_path / "work")
    assert run.subject.unread == []
    blind = Original(replace(run, subject=replace(run.subject, unread=["score > amount"])))
    equal = evaluate_candidate(blind, "same", "", run.subject.model, None)
    assert equal.accepted
    other = evaluate_candidate(blind, "other", "", shifted(run.subject.model, tmp_path), None)
    assert "condition on the score  score > amount" in other.why_not
    assert not other.accepted


def shifted(model: Path, folder: Path) -> Path:
    """The same trees, a little bolder."""
    made = onnx_models.onnx.load(model)
    trees = next(node for node in made.graph.node if node.op_type.startswith("TreeEnsemble"))
    next(one for one in trees.attribute if one.name == "class_weights").floats[0] += 1e-3
    onnx_models.onnx.save(made, folder / "shifted.onnx")
    return folder / "shifted.onnx"


def test_a_sidecar_with_fewer_columns_explains_as_before(folder: Path) -> None:
    sidecar = (folder / "loans.trees.json").read_bytes()
    rows = np.random.default_rng(1).normal(size=(50, 6)).astype(np.float32)
    whole = attribution.contributions(sidecar, rows)
    few = attribution.contributions(narrowed_trees(sidecar, ASKED), np.ascontiguousarray(rows[:, ASKED]))
    assert np.array_equal(few, whole[:, [*ASKED, 6]])
    assert not whole[:, [1, 3, 4]].any()


def test_a_transform_stays_as_long_as_any_of_its_columns_is_wanted() -> None:
    spec = Decision.from_yaml(
        DECISION.replace("  - one_hot: channel", "  - one_hot: channel\n  - cross: {of: [amount, idle], into: pace}")
    ).spec
    assert needed_transforms(spec.transforms, {"pace"}) == [0, 1, 2, 4]
    assert needed_transforms(spec.transforms, {"channel=fax"}) == [3]
    assert needed_transforms(spec.transforms, {"spent"}) == []


def test_leaves_name_columns_too_and_one_that_was_cut_does_not_matter(folder: Path, tmp_path: Path) -> None:
    model = onnx_models.onnx.load(folder / "loans.onnx")
    trees = next(node for node in model.graph.node if node.op_type.startswith("TreeEnsemble"))
    columns = next(one for one in trees.attribute if one.name == "nodes_featureids")
    modes = next(one for one in trees.attribute if one.name == "nodes_modes").strings
    columns.ints[:] = [1 if mode == b"LEAF" else column for column, mode in zip(list(columns.ints), modes, strict=True)]
    onnx_models.onnx.save(model, tmp_path / "odd.onnx")
    request = Trim(outputs=["probabilities"], name="n", columns=ASKED)
    rewrite(request, tmp_path / "odd.onnx", tmp_path / "made.onnx")
    rows = np.random.default_rng(2).normal(size=(64, 6)).astype(np.float32)
    whole = Model(folder / "loans.onnx").run({"input": rows})["probabilities"]
    few = Model(tmp_path / "made.onnx").run({"input": np.ascontiguousarray(rows[:, ASKED])})["probabilities"]
    assert np.array_equal(few, whole)
