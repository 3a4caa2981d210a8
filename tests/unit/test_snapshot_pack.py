"""A snapshot with its models in one folder: what is copied, what is kept, and how a place that cannot be written is told."""

import hashlib
from pathlib import Path

import pytest

from flyball.documents.snapshot import Slo, Terms, compile_models, pack_models, read
from flyball.errors import SnapshotRefusedError
from tests.support import onnx_models


@pytest.fixture
def packed(here, tmp_path):
    return tmp_path / "packed"


def files_in(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_packed_snapshot_has_its_models_and_paths_relative_to_the_index(here, packed):
    bundle = pack_models(["a.onnx", "card=b.onnx"], packed, generation=3)
    assert read(packed / "index.json").documents == bundle.documents
    for name, source, deployment in zip(["a", "card"], ["a.onnx", "b.onnx"], bundle.deployments(), strict=True):
        content = Path(source).read_bytes()
        path = f"models/{hashlib.sha256(content).hexdigest()[:16]}/{name}.onnx"
        assert deployment.versions[0].artifact.path == path
        assert (packed / path).read_bytes() == content


def test_a_packed_snapshot_says_the_terms_that_it_was_given(here, packed):
    pack_models(["a.onnx", "b.onnx"], packed, terms=Terms(slo=Slo(deadline_ms=7)))
    assert [deployment.slo.deadline_ms for deployment in read(packed / "index.json").deployments()] == [7, 7]


def test_packing_copies_weights_and_keeps_changed_weights_of_one_model_apart(tmp_path):
    path = onnx_models.external(tmp_path)
    weights = tmp_path / "external-weights.bin"
    packed = tmp_path / "packed"
    first = pack_models([str(path)], packed).deployments()[0].versions[0].artifact
    before = weights.read_bytes()
    weights.write_bytes(before[::-1])
    second = pack_models([str(path)], packed, generation=2).deployments()[0].versions[0].artifact
    assert first.digest == second.digest, "only the weights changed"
    assert (packed / first.path).with_name(weights.name).read_bytes() == before
    assert (packed / second.path).with_name(weights.name).read_bytes() == before[::-1]


def test_packing_again_copies_only_what_is_not_there_or_not_whole(here, packed):
    pack_models(["a.onnx", "b.onnx"], packed)
    a, b = sorted(packed.glob("models/*/*.onnx"), key=lambda path: path.name)
    b.write_bytes(b"x" * b.stat().st_size)
    times = a.stat().st_mtime_ns, a.stat().st_ino
    pack_models(["a.onnx", "b.onnx"], packed, generation=2)
    assert (a.stat().st_mtime_ns, a.stat().st_ino) == times
    assert b.read_bytes() == Path("b.onnx").read_bytes()
    assert not [name for name in files_in(packed) if Path(name).name.startswith(".")]


def test_packing_a_model_from_the_folder_itself_keeps_it(here, packed):
    pack_models(["a.onnx"], packed)
    before = files_in(packed)
    (path,) = packed.glob("models/*/a.onnx")
    pack_models([str(path)], packed)
    assert files_in(packed) == before


def test_a_packed_snapshot_that_cannot_be_written_is_refused(here):
    Path("file").write_text("")
    with pytest.raises(SnapshotRefusedError, match="cannot write the snapshot to file"):
        pack_models(["a.onnx"], Path("file"))
    with pytest.raises(SnapshotRefusedError, match="cannot write the snapshot to file"):
        compile_models(["a.onnx"]).write(Path("file"))
