"""Gates of a promotion, each with a version that fails just there."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from flyball.errors import GateRefusedError, RegistryRefusedError
from flyball.models.equivalence.certificate import Candidate, Data, Engine, Original, certify
from flyball.models.equivalence.comparison import compare
from flyball.native.models import model_files
from flyball.registry.packages.meta import Card
from tests.support import decision_folders, onnx_models
from tests.support.registry_people import ADA, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def day(offset: int) -> str:
    return (datetime.now(UTC).date() + timedelta(days=offset)).isoformat()


def test_a_version_whose_validation_is_overdue_is_not_promoted(desk: Desk) -> None:
    ref = desk.ready(card=Card(validation_due=day(-1)))
    with pytest.raises(GateRefusedError, match="validation was due") as error:
        desk.registry.promote(ref, "dev", actor=ADA)
    assert error.value.code == "gate_refused"


def test_validation_that_is_due_today_is_not_overdue(desk: Desk) -> None:
    desk.registry.promote(desk.ready(card=Card(validation_due=day(0))), "dev", actor=ADA)


def test_breaking_the_glass_is_told_in_the_event_with_what_was_not_kept(desk: Desk) -> None:
    ref = desk.ready(card=Card(validation_due=day(-1)))
    receipt = desk.registry.promote(ref, "production", actor=ADA, reason="the old one is down", break_glass=True)
    assert receipt.event.body["break_glass"] is True
    assert [gate.gate for gate in receipt.gates if not gate.passed] == ["validation"]
    assert receipt.event.reason == "the old one is down"


def test_a_model_without_an_end_is_not_promoted_and_no_glass_breaks_that(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flyball.native.models.PROBE_MS_MAX", 1000)
    ref = desk.ready(model=onnx_models.endless(tmp_path))
    for glass in (False, True):
        with pytest.raises(GateRefusedError, match=r"the probe did not end within 1000 ms \(probe_ms_max\)"):
            desk.registry.promote(ref, "dev", actor=ADA, break_glass=glass, reason="now")


def certificate(folder: Path, model: Path, *, apart: float, way: str | None = None) -> Path:
    """Of a model whose answers lie so far from those of what was trained, reached by such a way."""
    answers = np.linspace(0.0, 1.0, 100)
    made = certify(
        original=Original(digest="sha256:" + "a" * 64, kind="lightgbm"),
        candidate=Candidate(digest=model_files(model).digest, way=way),
        data=Data(digest="sha256:" + "b" * 64, rows=100, kinds={"given": 100}),
        engine=Engine(flyball="0", onnxruntime="0", cpu="0"),
        comparison=compare(answers, answers + apart, bound=1e-6, kinds=["given"] * 100),
    )
    path = folder / f"{apart}.json"
    path.write_bytes(made.to_bytes())
    return path


def test_a_version_that_does_not_answer_as_what_was_trained_is_not_promoted(desk: Desk, tmp_path: Path) -> None:
    model = onnx_models.linear(tmp_path, seed=1)
    differs = desk.ready(model=model, certificate=certificate(tmp_path, model, apart=2e-3))
    with pytest.raises(GateRefusedError, match=r"differs from lightgbm by at most 0\.002 on 100 rows"):
        desk.registry.promote(differs, "dev", actor=ADA)
    equal = desk.ready(model=model, certificate=certificate(tmp_path, model, apart=1e-7))
    receipt = desk.registry.promote(equal, "dev", actor=ADA)
    assert "equivalence" in {gate.gate for gate in receipt.gates}


def test_a_certificate_of_another_model_is_not_registered(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    model, other = onnx_models.linear(tmp_path, seed=1), onnx_models.linear(tmp_path / "other", seed=2)
    with pytest.raises(RegistryRefusedError, match="but the package serves sha256:"):
        desk.register(model=model, certificate=certificate(tmp_path, other, apart=0.0))


def test_a_decision_that_scores_otherwise_than_it_was_compared_is_not_promoted(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decision = decision_folders.plain(tmp_path)
    proof = certificate(tmp_path, tmp_path / "plain.onnx", apart=0.0, way="sha256:" + "c" * 64)
    # As a package comes that was made by hand, or before anybody looked.
    monkeypatch.setattr("flyball.registry.packages.pack.reach", lambda *_: "")
    ref = desk.ready("plain", decision=decision, certificate=proof)
    with pytest.raises(GateRefusedError, match=r"plain is the compared model, but its decision has changed since.*convert"):
        desk.registry.promote(ref, "dev", actor=ADA)


def test_a_model_beside_the_served_one_is_no_proof_for_a_promotion(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made" / "old").mkdir(parents=True)
    onnx_models.linear(tmp_path / "made", seed=1).rename(tmp_path / "made" / "model.onnx")
    certificate(tmp_path, onnx_models.linear(tmp_path / "made" / "old", seed=2), apart=0.0).rename(
        tmp_path / "made" / "equivalence.json"
    )
    monkeypatch.setattr("flyball.registry.packages.pack.reach", lambda *_: "")
    ref = desk.ready(folder=tmp_path / "made")
    with pytest.raises(GateRefusedError, match=r"equivalence: .*, but the package serves sha256:"):
        desk.registry.promote(ref, "dev", actor=ADA)


def test_a_promotion_says_where_only_the_model_was_proven(desk: Desk, tmp_path: Path) -> None:
    decision = decision_folders.plain(tmp_path)
    proof = certificate(tmp_path, tmp_path / "plain.onnx", apart=0.0)
    receipt = desk.registry.promote(desk.ready("plain", decision=decision, certificate=proof), "dev", actor=ADA)
    (gate,) = [gate for gate in receipt.gates if gate.gate == "equivalence"]
    assert gate.passed
    assert gate.words.endswith("only the model was compared, not the transforms that make its columns")


def test_no_glass_breaks_a_signature_that_no_longer_holds(desk: Desk) -> None:
    ref = desk.ready()
    ada = next(key.hint for key in desk.policy.keys if key.name == "ada")
    desk.trust(desk.policy.revoking(ada, "her laptop was stolen", int(time.time())))
    with pytest.raises(GateRefusedError, match="her laptop was stolen") as error:
        desk.registry.promote(ref, "dev", actor=ADA, break_glass=True, reason="now")
    assert error.value.code == "gate_refused"


def test_a_release_for_other_environments_is_not_promoted(desk: Desk) -> None:
    ref = desk.register()
    desk.sign(ref, environments=["staging"])
    desk.approve(ref)
    with pytest.raises(GateRefusedError, match="wrong_environment"):
        desk.registry.promote(ref, "dev", actor=ADA)


def test_files_that_changed_on_this_machine_are_not_promoted(desk: Desk) -> None:
    ref = desk.ready()
    model = desk.registry.resolve(ref).folder / "model.onnx"
    content = model.read_bytes()
    model.unlink()
    model.write_bytes(content[:-1] + b"\0")
    with pytest.raises(GateRefusedError, match="changed_file"):
        desk.registry.promote(ref, "dev", actor=ADA)
