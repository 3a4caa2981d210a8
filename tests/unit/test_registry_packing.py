"""Packages: everything that a decision names is in them, by paths that mean the same on any machine."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from flyball.control.compile import Compiler
from flyball.decision.spec.read import read_spec
from flyball.errors import FlyballError, InvalidInputError, RegistryRefusedError, UsageError
from flyball.registry.packages.meta import LatencyContract, read_meta
from flyball.registry.packages.pack import Contents, pack
from tests.support import decision_folders, onnx_models
from tests.support.registry_people import ADA, BOB, Desk


def packed(target: Path, name: str = "card-fraud", **said: Any) -> Path:
    pack(Contents(name=name, author="ada", **said), target)
    return target


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_decision_brings_its_files_and_keeps_its_own_words_where_its_paths_allow_it(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    path = decision_folders.plain(tmp_path / "source", "# a comment of its author\n" + decision_folders.PLAIN)
    target = packed(tmp_path / "package", "plain", decision=path)
    assert names(target) == ["decision.yaml", "meta.json", "plain.onnx"]
    assert (target / "decision.yaml").read_bytes() == path.read_bytes()


def test_files_from_outside_come_in_and_stores_stay_where_they_are(tmp_path: Path) -> None:
    for folder in ("source", "models"):
        (tmp_path / folder).mkdir()
    path = decision_folders.folder(
        tmp_path / "source", decision_folders.WHOLE.replace("path: fraud.onnx", "path: ../models/fraud.onnx")
    )
    (tmp_path / "source" / "fraud.onnx").rename(tmp_path / "models" / "fraud.onnx")
    target = packed(tmp_path / "package", decision=path)
    assert names(target) == ["countries.txt", "decision.yaml", "files/1/fraud.onnx", "meta.json", "reasons.csv"]
    spec, _ = read_spec(target / "decision.yaml")
    assert spec.model is not None
    assert spec.model.path == "files/1/fraud.onnx"
    assert spec.sources["cards"].store == str(tmp_path / "source" / "cards.store")


def test_the_digests_of_a_decision_do_not_depend_on_where_it_was_packed(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    path = decision_folders.plain(tmp_path / "source")
    one, two = (read_meta((packed(tmp_path / name, "plain", decision=path) / "meta.json").read_bytes()) for name in "ab")
    assert one.decision is not None
    assert one.decision == two.decision
    assert (one.kind, one.models[0].file) == ("decision", "plain.onnx")


def test_a_model_beside_a_decision_takes_the_place_of_the_one_that_it_names(tmp_path: Path) -> None:
    for folder in ("source", "new"):
        (tmp_path / folder).mkdir()
    path = decision_folders.plain(tmp_path / "source")
    other = decision_folders.fraud_model(tmp_path / "new", "retrained", decision_folders.PLAIN_COLUMNS)
    target = packed(tmp_path / "package", "plain", decision=path, model=other)
    assert names(target) == ["decision.yaml", "meta.json", "model.onnx"]
    spec, _ = read_spec(target / "decision.yaml")
    assert spec.model is not None
    assert (spec.model.path, spec.model.name) == ("model.onnx", "plain")


def test_external_data_comes_with_its_model(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    weights = numpy_helper.from_array(np.ones((4, 2), np.float32), "w")
    inputs = [onnx_models.value("x", TensorProto.FLOAT, ["n", 4])]
    outputs = [onnx_models.value("y", TensorProto.FLOAT, ["n", 2])]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", inputs, outputs, [weights])
    model = helper.make_model(graph, opset_imports=onnx_models.OPSET, ir_version=8)
    onnx.save(model, str(tmp_path / "source/big.onnx"), save_as_external_data=True, location="big.data", size_threshold=0)
    target = packed(tmp_path / "package", "big", model=tmp_path / "source/big.onnx")
    assert names(target) == ["big.data", "meta.json", "model.onnx"]


def test_a_decision_that_does_not_check_gets_no_package_and_its_line_is_told(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    path = decision_folders.plain(tmp_path / "source", decision_folders.PLAIN.replace("large && country", "large && contry"))
    with pytest.raises(FlyballError) as error:
        packed(tmp_path / "package", "plain", decision=path)
    assert "decision.yaml:" in str(error.value)
    assert "country" in str(error.value)


def test_a_decision_is_registered_under_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    with pytest.raises(RegistryRefusedError, match="is named plain, but would be registered as fraud"):
        packed(tmp_path / "package", "fraud", decision=decision_folders.plain(tmp_path / "source"))


def test_a_name_that_is_not_allowed_makes_no_package(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'\.\./evil' cannot be a name"):
        packed(tmp_path / "package", "../evil", model=onnx_models.linear(tmp_path))
    assert not (tmp_path / "package").exists()


@pytest.mark.parametrize("said", [{}, {"folder": Path("x"), "model": Path("y")}])
def test_a_package_is_made_of_a_folder_or_of_files(tmp_path: Path, said: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        packed(tmp_path / "package", **said)


def test_a_decision_with_a_latency_contract_brings_rows_that_prove_it(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    said = {"decision": decision_folders.plain(tmp_path / "source"), "contract": LatencyContract(p99_ms=5, rate_per_s=100)}
    with pytest.raises(InvalidInputError, match="proven with rows") as caught:
        packed(tmp_path / "without", "plain", **said)
    assert caught.value.next_step == "flyball register plain … --sample ROW.json"
    (tmp_path / "row.json").write_text('{"amount": 1.0}')
    assert "samples/row.json" in names(packed(tmp_path / "with", "plain", **said, samples=[tmp_path / "row.json"]))


def test_samples_are_json(tmp_path: Path) -> None:
    model = onnx_models.linear(tmp_path)
    (tmp_path / "sample.json").write_text("{")
    with pytest.raises(InvalidInputError, match="is not JSON"):
        packed(tmp_path / "package", model=model, samples=[tmp_path / "sample.json"])


def test_a_decision_that_asks_a_model_of_the_registry_is_pinned_signed_and_served_with_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (tmp_path / "source").mkdir()
    model = decision_folders.fraud_model(tmp_path / "source", "scores", decision_folders.PLAIN_COLUMNS)
    asked = desk.ready("scores", model=model)
    desk.registry.alias("scores", "good", 1, actor=ADA)
    spec = decision_folders.PLAIN.replace("path: plain.onnx", "ref: scores@good")
    path = tmp_path / "source" / "plain.yaml"
    path.write_text(spec)
    ref = desk.register("plain", decision=path)
    shown = desk.registry.show(ref)
    root = desk.registry.show(asked).root
    assert shown.meta["references"] == [{"model": "scores-1", "name": "scores", "version": 1, "root": root}]
    desk.sign(ref)
    desk.approve(ref)
    desk.promote(ref)
    document = json.loads(Compiler(desk.registry.handle, "production", tmp_path / "state").compile().documents["plain"])
    assert document["versions"][0]["artifact"]["path"] == f"packages/{root.removeprefix('sha256:')}/model.onnx"
    assert [package["name"] for package in document["signed"]["packages"]] == ["plain", "scores"]
    desk.registry.revoke(asked, actor=BOB, reason="leaked labels")
    compiled = Compiler(desk.opened().handle, "production", tmp_path / "state").compile()
    assert compiled.refusals["plain"].code == "revoked"
