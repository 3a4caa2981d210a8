"""The compiler and the form on disk. Digests come from the native side; a double stands for it here."""

import hashlib
import json
from pathlib import Path

import pytest

from flyball.engine import ExternalData, ModelFiles
from flyball.errors import SnapshotRefusedError, UsageError
from flyball.snapshot import Bundle, ModelSource, compile_models, parse, read
from flyball.snapshot import compile as compiler
from flyball.snapshot.models import Limits

DIGEST = "sha256:" + "a" * 64


@pytest.fixture(autouse=True)
def model_files(monkeypatch):
    def files(path):
        external = [ExternalData(name="w.bin", digest=DIGEST, size_bytes=3)]
        return ModelFiles(digest=DIGEST, size_bytes=1, external_data=external, opset=[], producer="", nodes=1)

    monkeypatch.setattr(compiler, "model_files", files)


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
        assert "NAME=models/a=b.onnx" in str(caught.value)
    else:
        assert ModelSource.from_argument(argument) == ModelSource(name, Path(path))


def test_a_file_that_exists_wins_over_the_reading_with_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a=b.onnx").write_bytes(b"")
    with pytest.raises(UsageError, match="'a=b'"):
        ModelSource.from_argument("a=b.onnx")


def test_a_compiled_snapshot_has_no_fault_and_says_what_was_asked():
    bundle = compile_models(["x/fraud.onnx", "mlp=m.onnx"], generation=7, limits=Limits(batch_rows_max=1))
    assert bundle.faults() == []
    index = bundle.parsed_index()
    assert index.generation == 7
    assert [entry.name for entry in index.deployments] == ["fraud", "mlp"]
    fraud, mlp = bundle.deployments()
    assert fraud.versions[0].artifact.path == str(Path("x/fraud.onnx").absolute())
    assert fraud.versions[0].artifact.external_data[0].name == "w.bin"
    assert fraud.route.version == fraud.versions[0].version == "1"
    assert mlp.limits.batch_rows_max == 1


def test_the_index_holds_the_digest_of_each_documents_exact_bytes():
    bundle = compile_models(["fraud.onnx"])
    (entry,) = bundle.parsed_index().deployments
    assert entry.digest == "sha256:" + hashlib.sha256(bundle.documents[0]).hexdigest()


def test_compiling_twice_gives_the_same_bytes():
    assert compile_models(["a.onnx", "b.onnx"]) == compile_models(["a.onnx", "b.onnx"])


def test_two_models_of_one_name_are_refused_with_a_way_out():
    with pytest.raises(UsageError, match="two models would be named 'm'") as caught:
        compile_models(["a/m.onnx", "b/m.onnx"])
    assert "m-2=b/m.onnx" in str(caught.value)


def test_what_is_written_is_read_back_byte_for_byte(tmp_path):
    bundle = compile_models(["a.onnx", "b.onnx"])
    index = bundle.write(tmp_path / "snapshot")
    assert index == tmp_path / "snapshot/index.json"
    again = read(index)
    assert (again.index, again.documents) == (bundle.index, bundle.documents)
    assert again.base == index.parent, "paths in its documents are relative to its folder"
    names = {path.name for path in (tmp_path / "snapshot/deployments").iterdir()}
    assert names == {entry.digest.removeprefix("sha256:") + ".json" for entry in bundle.parsed_index().deployments}


def test_a_missing_document_is_left_to_the_data_plane_and_told_by_faults(tmp_path):
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


def test_the_bundle_crosses_as_texts_whose_bytes_are_the_documents():
    bundle = compile_models(["a=models/ä.onnx"])
    crossed = json.loads(bundle.to_bytes())
    assert crossed["index"].encode() == bundle.index
    assert [text.encode() for text in crossed["documents"]] == list(bundle.documents)
    assert parse("deployment", bundle.documents[0]).versions[0].artifact.path.endswith("ä.onnx")


def test_a_document_that_is_no_utf8_still_crosses_and_loses_its_digest():
    bundle = Bundle(b"{}", (b"\xff",))
    assert json.loads(bundle.to_bytes())["documents"] == ["\ufffd"]
