"""A certificate goes with what answers: with the model that is served, and with the decision that was compared."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from flyball import Decision
from flyball.decision.compile.score_path import way_digest
from flyball.errors import RegistryRefusedError
from flyball.models.equivalence.certificate import Candidate, Data, Engine, Original, certify, read_certificate
from flyball.models.equivalence.comparison import compare
from flyball.models.optimize.report import of_decision
from flyball.native.models import model_files
from flyball.registry.packages.certified import reach
from flyball.registry.packages.deployment import PackageFolder, served
from flyball.registry.packages.pack import Contents, pack
from tests.support import decision_folders, onnx_models

ANSWERS = np.linspace(0.0, 1.0, 100)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    return tmp_path / "source"


def certificate(folder: Path, model: Path, *, decision: Path | None = None) -> Path:
    """That a model, or with a decision the whole of it, is equal to what was trained."""
    document = Decision.load(decision).check().compiled.document if decision else None
    made = certify(
        original=Original(digest="sha256:" + "a" * 64, kind="lightgbm"),
        candidate=Candidate(
            digest=model_files(model).digest, way=way_digest(document, document["models"][0]) if document else None
        ),
        data=Data(digest="sha256:" + "b" * 64, rows=100, kinds={"given": 100}),
        engine=Engine(flyball="0", onnxruntime="0", cpu="0"),
        comparison=compare(ANSWERS, ANSWERS, bound=1e-6, kinds=["given"] * 100),
    )
    (folder / "equivalence.json").write_bytes(made.to_bytes())
    return folder / "equivalence.json"


def left_open(target: Path, **said: Any) -> str:
    """What the certificate of a package does not prove."""
    pack(Contents(name="plain", author="ada", **said), target)
    proof = read_certificate(target / "equivalence.json")
    return reach(proof, served(PackageFolder("plain", 1, "sha256:" + "0" * 64, target), {}))


def test_a_decision_whose_policy_was_edited_keeps_its_proof(source: Path, tmp_path: Path) -> None:
    path = decision_folders.plain(source)
    proof = certificate(source, source / "plain.onnx", decision=path)
    path.write_text(decision_folders.PLAIN.replace('"< 0.40"', '"< 0.30"').replace("tests@example.com", "risk@example.com"))
    assert left_open(tmp_path / "package", decision=path, certificate=proof) == ""


@pytest.mark.parametrize(
    ("was", "now"),
    [("mean: 3.0", "mean: 3.5"), ("values: [EUR, USD]", "values: [USD, EUR]"), ("probabilities[1]", "probabilities[0]")],
)
def test_a_decision_that_would_score_otherwise_than_it_was_compared_is_not_packed(
    was: str, now: str, source: Path, tmp_path: Path
) -> None:
    path = decision_folders.plain(source)
    proof = certificate(source, source / "plain.onnx", decision=path)
    path.write_text(decision_folders.PLAIN.replace(was, now))
    with pytest.raises(RegistryRefusedError, match="is the compared model, but its decision has changed since") as error:
        left_open(tmp_path / "package", decision=path, certificate=proof)
    assert "convert or optimize again, or leave the certificate out" in (error.value.next_step or "")


def test_a_certificate_of_a_model_alone_says_so_of_a_decision(source: Path, tmp_path: Path) -> None:
    path = decision_folders.plain(source)
    proof = certificate(source, source / "plain.onnx")
    assert "; only the model was compared" in left_open(tmp_path / "package", decision=path, certificate=proof)


def test_a_model_without_the_decision_that_it_was_compared_behind_says_so(source: Path, tmp_path: Path) -> None:
    proof = certificate(source, source / "plain.onnx", decision=decision_folders.plain(source))
    told = left_open(tmp_path / "package", model=source / "plain.onnx", certificate=proof)
    assert "callers compute its columns" in told


def test_a_model_that_lies_beside_the_served_one_proves_nothing(source: Path, tmp_path: Path) -> None:
    (source / "old").mkdir()
    onnx_models.linear(source, seed=1).rename(source / "model.onnx")
    certificate(source, onnx_models.linear(source / "old", seed=2))
    with pytest.raises(RegistryRefusedError, match="but the package serves sha256:"):
        left_open(tmp_path / "plain", folder=source)
    certificate(source, source / "model.onnx")
    assert left_open(tmp_path / "proven", folder=source) == ""


def two_models(route: str) -> str:
    """The decision with a second model beside its own."""
    head, _, rest = decision_folders.PLAIN.partition("model:")
    one = "columns: from transforms, score: 'probabilities[1]'"
    onnx_models = f"models: {{a: {{path: plain.onnx, {one}}}, b: {{path: other.onnx, {one}}}}}\nroute: {route}\n"
    return head + onnx_models + rest.partition("\n")[2]


def other_model(folder: Path) -> Path:
    """The same graph in another file: a digest is of the file."""
    path = decision_folders.fraud_model(folder, "other", decision_folders.PLAIN_COLUMNS)
    model = onnx.load(path)
    model.producer_name = "another"
    onnx.save(model, path)
    return path


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(decision_folders.PLAIN, id="it lies beside"),
        pytest.param(
            decision_folders.PLAIN.replace("path: plain.onnx", "path: plain.onnx, previous: other.onnx"), id="previous"
        ),
        pytest.param(two_models("{shadow: [b]}"), id="shadow"),
    ],
)
def test_a_decision_s_certificate_is_of_a_model_that_answers(spec: str, source: Path, tmp_path: Path) -> None:
    decision_folders.plain(source, spec).rename(source / "decision.yaml")
    certificate(source, other_model(source))
    with pytest.raises(RegistryRefusedError, match="but the package serves sha256:"):
        left_open(tmp_path / "package", folder=source)


def test_of_several_models_that_answer_the_unproven_are_named(source: Path, tmp_path: Path) -> None:
    path = decision_folders.plain(source, two_models("{split: {b: 0.1}}"))
    other_model(source)
    proof = certificate(source, source / "plain.onnx")
    assert left_open(tmp_path / "package", decision=path, certificate=proof).endswith("; not compared: b")


def test_what_optimize_leaves_is_proven_as_a_decision_only_where_it_decided(source: Path) -> None:
    decision = Decision.load(decision_folders.plain(source))
    alone = read_certificate(certificate(source, source / "plain.onnx"))
    assert of_decision(alone, decision, 200).candidate.way is not None
    assert of_decision(alone, decision, 0) == alone
