"""One file carries versions elsewhere; what is not exactly as it says leaves nothing behind."""

import io
import json
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyball.artifacts import tar, transfer
from flyball.artifacts.blobs import digest_of
from flyball.artifacts.folder_store import FolderStore
from flyball.artifacts.packages import put_package, read_package
from flyball.errors import ArtifactRefusedError, ArtifactsUnavailableError

ENVELOPE = b'{"signed": "by the tests"}'


class NotSignedError(Exception):
    pass


def sign(said):
    assert json.loads(said)["format"] == 1
    return ENVELOPE


def verify(said, envelope):
    if envelope != ENVELOPE:
        raise NotSignedError


@pytest.fixture
def store(tmp_path):
    return FolderStore(tmp_path / "store")


@pytest.fixture
def versions(store, tmp_path):
    carried = []
    for number in (1, 2):
        folder = tmp_path / f"made{number}"
        folder.mkdir()
        (folder / "meta.json").write_bytes(b"{}")
        (folder / "model.onnx").write_bytes(b"weights" * number * 1000)
        package = put_package(store, folder)
        carried.append(
            transfer.CarriedVersion(
                name="fraud",
                version=number,
                root=package.root,
                manifest=package.manifest,
                bundle=store.put_bytes(b"bundle" * number).digest,
                release=store.put_bytes(b"release").digest,
            )
        )
    return carried


@pytest.fixture
def file(store, versions, tmp_path):
    out = tmp_path / "f.flyball"
    transfer.export(store, out, versions, created="2026-11-16T04:00:00Z", sign=sign, trust=digest_of(b"trust"))
    return out


def opening(path, tmp_path):
    """Opens a file that should be refused; whatever it left behind is a fault."""
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    try:
        with transfer.opened(path, verify=verify, scratch=scratch):
            pytest.fail("it was taken")
    finally:
        assert list(scratch.iterdir()) == []


def entries(path):
    with tarfile.open(path) as archive:
        return [(entry.name, archive.extractfile(entry).read()) for entry in archive]


def rewritten(path, parts):
    pieces = [piece for name, content in parts for piece in tar.write_entry(name, len(content), [content])]
    path.chmod(0o600)
    path.write_bytes(b"".join(pieces) + tar.write_end())
    return path


def test_what_was_exported_is_imported_whole(file, versions, store, tmp_path):
    other = FolderStore(tmp_path / "other")
    with transfer.opened(file, verify=verify) as (carried, staging):
        assert list(carried.versions) == versions
        assert carried.trust == digest_of(b"trust")
        transfer.keep(carried, staging, other)
    assert {blob.digest for blob in other.blobs()} == {blob.digest for blob in carried.blobs}
    for version in versions:
        assert read_package(other, version.manifest) == read_package(store, version.manifest)
        assert other.read(version.bundle) == store.read(version.bundle)


def test_any_tar_reads_the_file_and_finds_an_oci_layout(file, versions):
    found = dict(entries(file))
    assert found["oci-layout"] == b'{"imageLayoutVersion":"1.0.0"}'
    index = json.loads(found["index.json"])
    assert [entry["digest"] for entry in index["manifests"]] == [version.manifest for version in versions]
    for name, content in found.items():
        if name.startswith("blobs/"):
            assert name == "blobs/sha256/" + digest_of(content).removeprefix("sha256:")


def test_the_same_versions_make_the_same_bytes(store, versions, file, tmp_path):
    again = tmp_path / "again.flyball"
    transfer.export(store, again, versions, created="2026-11-16T04:00:00Z", sign=sign, trust=digest_of(b"trust"))
    assert again.read_bytes() == file.read_bytes()


def test_an_export_replaces_no_file(store, versions, file):
    with pytest.raises(ArtifactRefusedError, match="already exists"):
        transfer.export(store, file, versions, created="2026-11-16T04:00:00Z", sign=sign)


def test_a_damaged_blob_ends_an_export_before_anything_is_written(store, versions, tmp_path):
    blob = store.folder / "blobs" / "sha256" / versions[0].bundle.removeprefix("sha256:")
    blob.chmod(0o600)
    blob.write_bytes(b"bundlE")
    with pytest.raises(ArtifactRefusedError, match="is damaged"):
        transfer.export(store, tmp_path / "out.flyball", versions, created="", sign=sign)
    assert list(tmp_path.glob("*.flyball*")) == []


def test_a_file_whose_signature_is_not_good_is_refused_before_its_blobs_are_read(file, tmp_path):
    parts = entries(file)
    parts[2] = ("transfer.sig.json", b"{}")
    rewritten(file, [*parts[:3], ("index.json", b"never read")])
    with pytest.raises(NotSignedError):
        opening(file, tmp_path)


def changed(parts, number, content):
    return [*parts[:number], (parts[number][0], content), *parts[number + 1 :]]


def said_otherwise(parts, edit):
    document = json.loads(parts[1][1])
    edit(document)
    return changed(parts, 1, json.dumps(document).encode())


HOSTILE = {
    "a blob with other bytes": lambda parts: changed(parts, 5, parts[5][1][:-1] + b"!"),
    "a blob that is longer": lambda parts: changed(parts, 5, parts[5][1] + b"!"),
    "a blob that is missing": lambda parts: parts[:5] + parts[6:],
    "a blob twice": lambda parts: [*parts[:6], *parts[5:]],
    "blobs in another order": lambda parts: [*parts[:4], *reversed(parts[4:])],
    "an entry more": lambda parts: [*parts, ("blobs/sha256/" + "0" * 64, b"x")],
    "an entry that goes up": lambda parts: [*parts[:4], ("../../etc/cron.d/x", b"x"), *parts[4:]],
    "an absolute entry": lambda parts: [*parts[:4], ("/etc/cron.d/x", b"x"), *parts[4:]],
    "another layout": lambda parts: changed(parts, 0, b'{"imageLayoutVersion":"2.0.0"}'),
    "no layout first": lambda parts: parts[1:],
    "another index": lambda parts: changed(parts, 3, b'{"schemaVersion":2,"manifests":[]}'),
    "text that is no document": lambda parts: changed(parts, 1, b"["),
    "a key that nobody knows": lambda parts: said_otherwise(parts, lambda said: said.update(more=1)),
    "another format": lambda parts: said_otherwise(parts, lambda said: said.update(format=2)),
    "no versions": lambda parts: said_otherwise(parts, lambda said: said.update(versions=[])),
    "another root": lambda parts: said_otherwise(parts, lambda said: said["versions"][0].update(root=digest_of(b"x"))),
    "a digest that is a path": lambda parts: said_otherwise(
        parts, lambda said: said["blobs"][0].update(digest="sha256:../x")
    ),
    "a size below nothing": lambda parts: said_otherwise(parts, lambda said: said["blobs"][0].update(size=-1)),
    "a size beyond the file": lambda parts: said_otherwise(parts, lambda said: said["blobs"][0].update(size=8_000_000_000)),
    "a blob that no version needs": lambda parts: said_otherwise(
        parts, lambda said: said["versions"][0].update(bundle=None)
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_file_that_is_not_as_it_says_is_refused(file, tmp_path, case):
    rewritten(file, HOSTILE[case](entries(file)))
    with pytest.raises(ArtifactRefusedError) as caught:
        opening(file, tmp_path)
    assert caught.value.code in {"bundle_refused", "artifact_damaged"}


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.XHDTYPE,
             tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_SPARSE, tarfile.CONTTYPE]
)  # fmt: skip
def test_an_entry_that_is_no_plain_file_is_refused(file, tmp_path, kind):
    with tarfile.open(file) as archive:
        place = archive.getmembers()[4]
    entry = tarfile.TarInfo(place.name)
    entry.type, entry.linkname, entry.size = kind, "/etc/passwd", place.size
    whole = bytearray(file.read_bytes())
    whole[place.offset : place.offset + 512] = entry.tobuf(tarfile.USTAR_FORMAT)
    file.chmod(0o600)
    file.write_bytes(whole)
    with pytest.raises(ArtifactRefusedError, match="is not a plain file"):
        opening(file, tmp_path)


def test_a_header_that_says_more_than_there_is_makes_nobody_read_it(file, tmp_path):
    entry = tarfile.TarInfo("oci-layout")
    entry.size = 7 << 30
    file.chmod(0o600)
    file.write_bytes(entry.tobuf(tarfile.USTAR_FORMAT) + b"{}")
    with pytest.raises(ArtifactRefusedError, match="not a plain file of the expected size"):
        opening(file, tmp_path)


@pytest.mark.parametrize("after", [b"x", b"\0" * 512])
def test_bytes_behind_the_end_are_refused(file, tmp_path, after):
    file.chmod(0o600)
    file.write_bytes(file.read_bytes() + after)
    with pytest.raises(ArtifactRefusedError, match="more entries than it states"):
        opening(file, tmp_path)


@given(data=st.data())
def test_a_file_that_was_cut_or_changed_anywhere_is_refused(tmp_path_factory, data):
    place = tmp_path_factory.mktemp("property")
    store = FolderStore(place / "store")
    folder = place / "made"
    folder.mkdir()
    (folder / "meta.json").write_bytes(b"{}")
    package = put_package(store, folder)
    version = transfer.CarriedVersion(name="fraud", version=1, root=package.root, manifest=package.manifest)
    transfer.export(store, place / "f", [version], created="", sign=lambda _: ENVELOPE)
    whole = (place / "f").read_bytes()
    if data.draw(st.booleans(), "cut"):
        bad = whole[: data.draw(st.integers(0, len(whole) - 1), "length")]
    else:
        at = data.draw(st.integers(0, len(whole) - 1), "at")
        bad = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255), "flip")]) + whole[at + 1 :]
    (place / "bad").write_bytes(bad)
    signed = transfer.describe(store, [version], created="").model_dump_json().encode()

    def exactly(said, envelope):
        if (said, envelope) != (signed, ENVELOPE):
            raise NotSignedError

    try:
        with transfer.opened(place / "bad", verify=exactly) as (carried, _):
            # Times and owners in a tar's headers are nobody's business, and nothing else may differ.
            assert carried.model_dump_json().encode() == signed
    except (ArtifactRefusedError, NotSignedError):
        return


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ArtifactsUnavailableError, match="No such file"):
        opening(tmp_path / "nowhere.flyball", tmp_path)


def test_what_was_kept_halfway_is_completed_by_the_next_import(file, tmp_path):
    class Full(FolderStore):
        left = 3

        def put_file(self, file, *, expected=None):
            self.left -= 1
            if self.left < 0:
                raise ArtifactsUnavailableError("full")
            return super().put_file(file, expected=expected)

    with transfer.opened(file, verify=verify) as (carried, staging):
        with pytest.raises(ArtifactsUnavailableError):
            transfer.keep(carried, staging, Full(tmp_path / "other"))
        other = FolderStore(tmp_path / "other")
        assert not any(other.has(version.manifest) for version in carried.versions)
        transfer.keep(carried, staging, other)
    assert {blob.digest for blob in other.blobs()} == {blob.digest for blob in carried.blobs}


def test_a_number_in_a_header_is_read_as_tar_writes_it():
    content = b"x" * 700
    whole = b"".join(tar.write_entry("a", len(content), [content])) + tar.write_end()
    reader = tar.TarReader(io.BytesIO(whole), "here")
    assert b"".join(reader.entry("a", size_max=1000)) == content
    reader.end()
