"""The compiler and the form on disk, with real models: their digests come from the native side."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from flyball.documents.snapshot import (
    FORMAT,
    BatchWait,
    Bundle,
    Limits,
    ModelSource,
    Slo,
    Terms,
    compile_models,
    parse,
    read,
)
from flyball.errors import ModelRefusedError, SnapshotRefusedError, UsageError
from tests.support import onnx_models


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("argument", "name", "path"),
    [
        ("fraud.onnx", "fraud", "fraud.onnx"),
        ("models/fraud.v2.onnx", "fraud.v2", "models/fraud.v2.onnx"),
        ("card=models/fraud.onnx", "card", "models/fraud.onnx"),
        ("card=a=b.onnx", "card", "a=b.onnx"),
        ("models/a=b.onnx", "a=b", None),
    ],
)
def test_an_argument_names_a_model_by_itself_or_by_its_files_stem(argument, name, path):
    if path is None:
        with pytest.raises(UsageError, match="cannot be a model's name") as caught:
            ModelSource.from_argument(argument)
        assert "a-b=models/a=b.onnx" in str(caught.value)
    else:
        assert ModelSource.from_argument(argument) == ModelSource(name, Path(path))


def test_a_file_that_exists_wins_over_the_reading_with_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a=b.onnx").write_bytes(b"")
    with pytest.raises(UsageError, match="'a=b'"):
        ModelSource.from_argument("a=b.onnx")


def test_a_compiled_snapshot_has_no_fault_and_says_what_was_asked(here):
    bundle = compile_models(["a.onnx", "mlp=b.onnx"], generation=7, terms=Terms(limits=Limits(batch_rows_max=1)))
    assert bundle.faults() == []
    index = bundle.parsed_index()
    assert index.generation == 7
    assert [entry.name for entry in index.deployments] == ["a", "mlp"]
    a, mlp = bundle.deployments()
    assert a.versions[0].artifact.path == str(here / "a.onnx")
    assert a.versions[0].artifact.digest == digest(Path("a.onnx").read_bytes())
    assert a.versions[0].artifact.external_data == []
    assert a.route.version == a.versions[0].version == "1"
    assert mlp.limits.batch_rows_max == 1


@pytest.mark.parametrize(
    "terms",
    [
        Terms(),
        Terms(limits=Limits(in_flight_max=1, batch_rows_max=2, share=101)),
        Terms(limits=Limits(concurrency_max=1, queue_wait_ms_max=1, run_ms_max=10)),
        Terms(slo=Slo(deadline_ms=5)),
        Terms(batch=BatchWait(size=64, window_ms=1)),
    ],
)
def test_all_terms_are_written(here, terms):
    bundle = compile_models(["a.onnx"], terms=terms)
    assert bundle.faults() == []
    (deployment,) = bundle.deployments()
    assert bundle.parsed_index().format == deployment.format == FORMAT
    assert Terms(limits=deployment.limits, slo=deployment.slo, batch=deployment.batch) == terms


def test_a_decision_is_written_with_all_of_its_versions(here):
    card = {"owner": "risk"}
    source = ModelSource("card", Path("a.onnx"), version="2", older={"1": Path("b.onnx")}, decision=card)
    (document,) = compile_models([source]).documents
    deployment = parse("deployment", document)
    assert (deployment.decision, deployment.labels) == (card, {})
    assert [version.version for version in deployment.versions] == ["1", "2"]


def test_labels_are_written_and_a_model_has_its_own_terms(here):
    terms = Terms(limits=Limits(batch_rows_max=2))
    pets = ModelSource("pets", Path("a.onnx"), labels={"y": ("cat", "dog")}, terms=terms)
    bundle = compile_models([pets, "b.onnx"], terms=Terms(slo=Slo(deadline_ms=5)))
    assert bundle.faults() == []
    labelled, plain = bundle.deployments()
    assert (labelled.labels, labelled.limits) == ({"y": ["cat", "dog"]}, terms.limits)
    assert (plain.labels, plain.slo.deadline_ms) == ({}, 5)


def test_versions_stand_in_the_order_of_their_numbers_and_the_route_is_the_one_that_was_asked_for(here):
    source = ModelSource("m", Path("a.onnx"), version="10", older={"9": Path("b.onnx"), "11": Path("b.onnx")})
    (deployment,) = compile_models([source]).deployments()
    assert [item.version for item in deployment.versions] == ["9", "10", "11"]
    assert deployment.route.version == "10"
    assert deployment.versions[1].artifact.path == str(here / "a.onnx")


def test_terms_out_of_their_bounds_or_that_do_not_fit_together_are_refused_by_the_compiler(here):
    with pytest.raises(SnapshotRefusedError) as caught:
        compile_models(["a.onnx"], terms=Terms(limits=Limits(share=0), batch=BatchWait(size=65, window_ms=1)))
    assert [fault.path for fault in caught.value.faults] == ["batch.size", "limits.share"]


def test_weights_beside_a_model_are_listed_with_their_digest(tmp_path):
    (deployment,) = compile_models([str(onnx_models.external(tmp_path))]).deployments()
    (weights,) = deployment.versions[0].artifact.external_data
    assert weights.name == "external-weights.bin"
    assert weights.digest == digest((tmp_path / "external-weights.bin").read_bytes())


def test_a_model_that_is_not_there_is_refused_by_name(here):
    with pytest.raises(ModelRefusedError, match=r"cannot read none\.onnx"):
        compile_models(["a.onnx", "none.onnx"])


def test_the_index_holds_the_digest_of_each_documents_exact_bytes(here):
    bundle = compile_models(["a.onnx"])
    (entry,) = bundle.parsed_index().deployments
    assert entry.digest == digest(bundle.documents[0])


def test_compiling_twice_gives_the_same_bytes(here):
    assert compile_models(["a.onnx", "b.onnx"]) == compile_models(["a.onnx", "b.onnx"])


def test_two_models_of_one_name_are_refused_with_a_way_out():
    with pytest.raises(UsageError, match="two models would be named 'm'") as caught:
        compile_models(["a/m.onnx", "b/m.onnx"])
    assert "m-2=b/m.onnx" in str(caught.value)


def test_what_is_written_is_read_back_byte_for_byte(here, tmp_path):
    bundle = compile_models(["a.onnx", "b.onnx"])
    index = bundle.write(tmp_path / "snapshot")
    assert index == tmp_path / "snapshot/index.json"
    again = read(index)
    assert (again.index, again.documents) == (bundle.index, bundle.documents)
    assert again.base == index.parent, "paths in its documents are relative to its folder"
    names = {path.name for path in (tmp_path / "snapshot/deployments").iterdir()}
    assert names == {entry.digest.removeprefix("sha256:") + ".json" for entry in bundle.parsed_index().deployments}


def test_the_signature_of_an_index_goes_to_disk_and_across_with_it_and_is_gone_with_the_next_unsigned_one(here, tmp_path):
    bundle = replace(compile_models(["a.onnx"]), signature=b'{"payload": ""}')
    index = bundle.write(tmp_path)
    assert (tmp_path / "index.sig.json").read_bytes() == bundle.signature
    again = read(index)
    assert (again.signature, again.file) == (bundle.signature, index)
    crossed = json.loads(again.to_bytes())
    assert (crossed["signature"], crossed["file"]) == ('{"payload": ""}', str(index))
    compile_models(["a.onnx"]).write(tmp_path)
    assert read(index).signature is None
    assert json.loads(compile_models(["a.onnx"]).to_bytes())["file"] is None


def test_a_missing_document_is_left_to_the_data_plane_and_told_by_faults(here, tmp_path):
    index = compile_models(["a.onnx", "b.onnx"]).write(tmp_path)
    next((tmp_path / "deployments").iterdir()).unlink()
    bundle = read(index)
    assert len(bundle.documents) == 1
    assert [fault.path for fault in bundle.faults()] in (["deployments[0].digest"], ["deployments[1].digest"])


def test_a_bad_index_is_refused_whole(tmp_path):
    with pytest.raises(SnapshotRefusedError, match="cannot read"):
        read(tmp_path / "index.json")
    (tmp_path / "index.json").write_text("{}")
    with pytest.raises(SnapshotRefusedError, match="3 faults"):
        read(tmp_path / "index.json")


def test_the_bundle_crosses_as_texts_whose_bytes_are_the_documents(tmp_path):
    bundle = compile_models([f"a={onnx_models.linear(tmp_path, 'ä')}"])
    crossed = json.loads(bundle.to_bytes())
    assert crossed["index"].encode() == bundle.index
    assert [text.encode() for text in crossed["documents"]] == list(bundle.documents)
    assert crossed["base"] == "."
    assert parse("deployment", bundle.documents[0]).versions[0].artifact.path.endswith("ä.onnx")


def test_a_document_that_is_no_utf8_still_crosses_and_loses_its_digest():
    bundle = Bundle(b"{}", (b"\xff",))
    assert json.loads(bundle.to_bytes())["documents"] == ["\ufffd"]
