"""A folder becomes a manifest and a folder again, with every byte accounted for and nothing outside reached."""

import hashlib
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyball.artifacts import packages
from flyball.artifacts.blobs import digest_of
from flyball.artifacts.folder_store import FolderStore
from flyball.artifacts.packages import fetch_package, put_package, read_package
from flyball.errors import ArtifactRefusedError
from flyball.signing import oms

FILES = {"meta.json": b"{}", "model.onnx": b"weights", "model.onnx.data": b"more weights", "samples/a.json": b"[1]"}


def make(folder, files=FILES):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def store(tmp_path):
    return FolderStore(tmp_path / "store")


@pytest.fixture
def package(store, tmp_path):
    return put_package(store, make(tmp_path / "made"), name="fraud@1")


def test_a_folder_comes_back_as_it_was_and_read_only(store, package, tmp_path):
    assert fetch_package(store, package.manifest, tmp_path / "got", root=package.root) == package
    assert contents(tmp_path / "got") == FILES
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "got").rglob("*") if path.is_file()} == {0o400}
    assert read_package(store, package.manifest) == package


def test_the_manifest_is_an_oci_artifact_that_other_tools_can_read(store, package):
    manifest = json.loads(store.read(package.manifest))
    assert manifest["schemaVersion"] == 2
    assert manifest["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
    assert manifest["artifactType"] == "application/vnd.flyball.package.v1+json"
    assert manifest["config"] == {
        "mediaType": "application/vnd.flyball.meta.v1+json",
        "digest": digest_of(b"{}"),
        "size": 2,
    }
    titles = [layer["annotations"]["org.opencontainers.image.title"] for layer in manifest["layers"]]
    assert titles == ["meta.json", "model.onnx", "model.onnx.data", "samples/a.json"]
    assert manifest["annotations"] == {"dev.flyball.root": package.root}
    index = json.loads((store.folder / "index.json").read_bytes())
    named = {"org.opencontainers.image.ref.name": "fraud@1"}
    described = {"mediaType": manifest["mediaType"], "digest": package.manifest, "annotations": named}
    assert index["manifests"] == [{**described, "size": len(store.read(package.manifest))}]


def test_the_root_is_over_the_digests_in_the_order_of_code_points_as_it_is_signed(store, tmp_path):
    # By parts of the path, as some tools sort, `a/b` would come before `a-b`.
    files = {"a/b": b"2", "a-b": b"1", "meta.json": b"{}"}
    package = put_package(store, make(tmp_path / "made", files))
    assert [file.name for file in package.files] == sorted(files)
    digests = b"".join(hashlib.sha256(files[name]).digest() for name in sorted(files))
    assert package.root == "sha256:" + hashlib.sha256(digests).hexdigest() == oms.root_of(tmp_path / "made")


def test_the_same_folder_is_the_same_package_and_is_announced_once(store, package, tmp_path):
    assert put_package(store, make(tmp_path / "again"), name="fraud@1") == package
    assert len(json.loads((store.folder / "index.json").read_bytes())["manifests"]) == 1


def test_a_folder_without_meta_is_no_package(store, tmp_path):
    with pytest.raises(ArtifactRefusedError, match=r"has no meta\.json"):
        put_package(store, make(tmp_path / "made", {"model.onnx": b"weights"}))


@pytest.mark.parametrize("kind", ["link to a file", "link to a folder", "link to nowhere", "pipe"])
def test_links_and_special_files_are_refused(store, tmp_path, kind):
    folder = make(tmp_path / "made")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.pem").write_text("secret")
    target = {"link to a file": "secret/key.pem", "link to a folder": "secret", "link to nowhere": "nowhere"}
    if kind == "pipe":
        os.mkfifo(folder / "odd")
    else:
        (folder / "odd").symlink_to(tmp_path / target[kind])
    with pytest.raises(ArtifactRefusedError, match=r"odd is (a link|not a plain file)"):
        put_package(store, folder)


@pytest.mark.parametrize(
    "name",
    ["a\\b", "a\nb", "a\x7fb", ".git/config", ".gitignore", "1/2/3/4/5/6/7/8/9", "/".join("x" * 200 for _ in range(3))],
)
def test_a_name_that_is_not_plain_on_every_system_is_refused(store, tmp_path, name):
    with pytest.raises(ArtifactRefusedError):
        put_package(store, make(tmp_path / "made", {**FILES, name: b"x"}))


def test_more_files_than_a_package_may_have_are_refused(store, tmp_path, monkeypatch):
    monkeypatch.setattr(packages, "FILES_MAX", 3)
    with pytest.raises(ArtifactRefusedError, match="more than 3 files") as caught:
        put_package(store, make(tmp_path / "made"))
    assert caught.value.code == "artifact_too_large"


def test_a_package_over_its_size_is_refused(store, tmp_path, monkeypatch):
    monkeypatch.setattr(packages, "PACKAGE_BYTES_MAX", 10)
    with pytest.raises(ArtifactRefusedError, match="at most 10 are allowed"):
        put_package(store, make(tmp_path / "made"))


def test_a_meta_over_its_size_is_refused(store, tmp_path):
    with pytest.raises(ArtifactRefusedError, match=r"meta\.json has"):
        put_package(store, make(tmp_path / "made", {**FILES, "meta.json": b" " * ((1 << 20) + 1)}))


def edited(store, package, edit):
    """The manifest with a change, as somebody would put it who can write to the store."""
    document = json.loads(store.read(package.manifest))
    edit(document)
    return store.put_bytes(json.dumps(document).encode()).digest


def name_layer(number, name):
    def edit(document):
        document["layers"][number]["annotations"]["org.opencontainers.image.title"] = name

    return edit


HOSTILE = {
    "a name that goes up": name_layer(1, "../../etc/cron.d/x"),
    "an absolute name": name_layer(1, "/etc/passwd"),
    "an empty part": name_layer(1, "a//b"),
    "a dot": name_layer(1, "./model.onnx"),
    "a name that is no text": name_layer(1, 7),
    "a zero byte": name_layer(1, "a\0b"),
    "a name twice": name_layer(1, "model.onnx.data"),
    "another order": lambda document: document["layers"].reverse(),
    "a file left out": lambda document: document["layers"].pop(),
    "another root": lambda document: document["annotations"].update({"dev.flyball.root": digest_of(b"x")}),
    "another meta": lambda document: document["config"].update(digest=digest_of(b"x")),
    "another artifact": lambda document: document.update(artifactType="application/vnd.other"),
    "no layers": lambda document: document.pop("layers"),
    "layers that are no list": lambda document: document.update(layers=7),
    "a digest that is a path": lambda document: document["layers"][1].update(digest="sha256:../../x"),
    "a size below nothing": lambda document: document["layers"][1].update(size=-1),
    "a size that is no number": lambda document: document["layers"][1].update(size="7"),
    "more bytes than a package has": lambda document: document["layers"][1].update(size=1 << 60),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_manifest_that_was_tampered_with_is_refused_and_nothing_is_written(store, package, tmp_path, case):
    manifest = edited(store, package, HOSTILE[case])
    before = set(tmp_path.iterdir())
    with pytest.raises(ArtifactRefusedError):
        fetch_package(store, manifest, tmp_path / "got", root=package.root)
    assert set(tmp_path.iterdir()) == before


def test_a_layer_whose_size_is_a_lie_is_refused(store, package, tmp_path):
    manifest = edited(store, package, lambda document: document["layers"][1].update(size=8))
    with pytest.raises(ArtifactRefusedError, match=r"model\.onnx does not have the stated 8 bytes"):
        fetch_package(store, manifest, tmp_path / "got")
    assert not (tmp_path / "got").exists()


def test_bytes_that_are_no_manifest_are_no_package(store):
    for content in (b"weights", b"[]", b"null", b'{"layers": [' * 100_000):
        with pytest.raises(ArtifactRefusedError, match="is not a package"):
            read_package(store, store.put_bytes(content).digest)


def test_another_root_than_wanted_is_refused(store, package, tmp_path):
    with pytest.raises(ArtifactRefusedError, match="expected sha256"):
        fetch_package(store, package.manifest, tmp_path / "got", root=digest_of(b"x"))


def test_a_damaged_file_leaves_no_folder_behind(store, package, tmp_path):
    path = store.folder / "blobs" / "sha256" / hashlib.sha256(b"more weights").hexdigest()
    path.chmod(0o600)
    path.write_bytes(b"more weightz")
    before = set(tmp_path.iterdir())
    with pytest.raises(ArtifactRefusedError, match="is damaged"):
        fetch_package(store, package.manifest, tmp_path / "got")
    assert set(tmp_path.iterdir()) == before


def test_a_folder_that_is_there_whole_is_taken_and_one_that_is_not_is_refused(store, package, tmp_path):
    got = tmp_path / "got"
    fetch_package(store, package.manifest, got)
    inode = got.stat().st_ino
    fetch_package(store, package.manifest, got)
    assert got.stat().st_ino == inode
    (got / "samples" / "a.json").unlink()
    with pytest.raises(ArtifactRefusedError, match="was changed") as caught:
        fetch_package(store, package.manifest, got)
    assert "remove the folder" in caught.value.next_step


_parts = st.text("abc.-_ ü", min_size=1, max_size=6).filter(lambda part: part not in {".", ".."})
_names = st.lists(_parts, min_size=1, max_size=3).map("/".join)


@given(files=st.dictionaries(_names, st.binary(max_size=50), max_size=6))
def test_every_folder_of_plain_files_survives_the_way_there_and_back(tmp_path_factory, files):
    folders = {"/".join(name.split("/")[:depth]) for name in files for depth in range(1, name.count("/") + 1)}
    files = {name: content for name, content in files.items() if name not in folders} | {"meta.json": b"{}"}
    place = tmp_path_factory.mktemp("property")
    store = FolderStore(place / "store")
    package = put_package(store, make(place / "made", files))
    fetch_package(store, package.manifest, place / "got", root=package.root)
    assert contents(place / "got") == files
    assert oms.root_of(place / "got") == package.root, "what is signed is what is kept"
