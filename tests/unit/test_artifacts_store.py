"""A store keeps bytes by digest and gives back only what has that digest; the same for a folder and a bucket."""

import hashlib
import io
import os
import secrets
from datetime import UTC, datetime, timedelta

import pytest

from bench.parts import s3 as s3_part
from flyball.artifacts.blobs import digest_of
from flyball.artifacts.folder_store import FolderStore
from flyball.artifacts.stores import open_store
from flyball.errors import ArtifactRefusedError, ArtifactsUnavailableError, MissingExtraError, UsageError
from tests.support import external_servers, journal_servers

LARGE = bytes(range(256)) * (17 << 12)  # 17 MiB: in a bucket, more than one part


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    with external_servers.s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


class Folder:
    def __init__(self, folder):
        self.store = FolderStore(folder)

    def file(self, digest):
        return self.store.folder / "blobs" / "sha256" / digest.removeprefix("sha256:")


class Bucket:
    def __init__(self, server, monkeypatch):
        for name, value in server.credentials.items():
            monkeypatch.setenv(name, value)
        self._server, self._prefix = server, secrets.token_hex(4)
        self.store = open_store(f"s3://{s3_part.BUCKET}/{self._prefix}", endpoint=server.endpoint, region=s3_part.REGION)

    def file(self, digest):
        return self._server.file(self._prefix, digest)


@pytest.fixture(params=["folder", "bucket"])
def kept(request, tmp_path, monkeypatch):
    if request.param == "folder":
        return Folder(tmp_path / "store")
    return Bucket(request.getfixturevalue("s3"), monkeypatch)


def change(path, content):
    """Behind the store's back, with the same time as before."""
    before = path.stat()
    path.chmod(0o600)
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("content", [b"", b"x", LARGE], ids=["nothing", "one byte", "parts"])
def test_what_is_put_is_given_back_under_its_digest(kept, content, tmp_path):
    blob = kept.store.put_file(io.BytesIO(content))
    assert (blob.digest, blob.size) == (digest_of(content), len(content))
    assert kept.store.read(blob.digest, bytes_max=len(content)) == content
    assert b"".join(kept.store.chunks(blob.digest)) == content
    fetched = tmp_path / "fetched"
    assert kept.store.fetch_to(blob.digest, fetched).size == len(content)
    assert fetched.read_bytes() == content
    assert fetched.stat().st_mode & 0o777 == 0o400


def test_what_is_put_twice_is_kept_once(kept):
    first = kept.store.put_bytes(b"weights")
    assert kept.store.put_bytes(b"weights") == first
    assert [(blob.digest, blob.size) for blob in kept.store.blobs()] == [(first.digest, 7)]


def test_a_file_is_kept_from_its_start_wherever_it_was_read_to(kept):
    file = io.BytesIO(b"weights")
    file.read(3)
    assert kept.store.put_file(file).digest == digest_of(b"weights")


def test_a_file_with_another_digest_than_expected_is_refused_and_not_kept(kept):
    with pytest.raises(ArtifactRefusedError, match="has the digest") as caught:
        kept.store.put_file(io.BytesIO(b"weights"), expected=digest_of(b"other"))
    assert caught.value.code == "artifact_damaged"
    assert list(kept.store.blobs()) == []


def test_a_blob_that_is_not_there_is_told_with_the_store_and_what_to_do(kept, tmp_path):
    digest = digest_of(b"never put")
    assert not kept.store.has(digest)
    for act in (kept.store.read, lambda it: list(kept.store.chunks(it)), lambda it: kept.store.fetch_to(it, tmp_path / "f")):
        with pytest.raises(ArtifactRefusedError, match="is not in") as caught:
            act(digest)
        assert caught.value.code == "artifact_absent"
        assert "backup" in caught.value.next_step
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize("bad", [b"weightz", b"weigh", b"", b"weights and more"], ids=["changed", "cut", "empty", "longer"])
def test_a_blob_that_changed_is_refused_on_read_and_on_write(kept, bad, tmp_path):
    blob = kept.store.put_bytes(b"weights")
    change(kept.file(blob.digest), bad)
    for act in (
        lambda: kept.store.read(blob.digest),
        lambda: list(kept.store.chunks(blob.digest)),
        lambda: kept.store.fetch_to(blob.digest, tmp_path / "fetched"),
        lambda: kept.store.put_bytes(b"weights"),
    ):
        with pytest.raises(ArtifactRefusedError, match="is damaged in") as caught:
            act()
        assert caught.value.code == "artifact_damaged"
        assert "register the package again" in caught.value.next_step
    assert list(tmp_path.glob("*fetched*")) == []
    kept.file(blob.digest).unlink()
    assert kept.store.put_bytes(b"weights") == blob


def test_more_than_was_asked_for_is_not_read(kept):
    blob = kept.store.put_bytes(b"weights")
    with pytest.raises(ArtifactRefusedError, match="7 bytes; at most 6 are allowed"):
        kept.store.read(blob.digest, bytes_max=6)


@pytest.mark.parametrize("digest", ["", "sha256:", "sha256:../../etc/passwd", "sha256:" + "A" * 64, "md5:" + "0" * 64])
def test_what_is_no_digest_never_becomes_a_path(kept, digest):
    for act in (kept.store.read, kept.store.has, lambda it: list(kept.store.chunks(it))):
        with pytest.raises(ArtifactRefusedError, match="is not a digest"):
            act(digest)


def test_only_what_was_not_put_since_then_is_removed(kept):
    digests = [kept.store.put_bytes(content).digest for content in (b"a", b"b", b"c")]
    hour_ago = datetime.now(UTC) - timedelta(hours=1)
    long_ago = (hour_ago - timedelta(hours=1)).timestamp()
    for digest in digests[:2]:
        os.utime(kept.file(digest), (long_ago, long_ago))
    kept.store.put_bytes(b"b")  # put again, so it is young again
    absent = digest_of(b"never put")
    assert [blob.digest for blob in kept.store.remove([*digests, absent], untouched_since=hour_ago)] == digests[:1]
    assert {blob.digest for blob in kept.store.blobs()} == set(digests[1:])


def test_a_fetched_file_replaces_nothing(kept, tmp_path):
    blob = kept.store.put_bytes(b"weights")
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(ArtifactRefusedError, match="already exists"):
        kept.store.fetch_to(blob.digest, tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "mine"


# The folder alone.


def test_a_folder_is_an_oci_layout_with_files_that_nobody_writes(tmp_path):
    blob = FolderStore(tmp_path / "new" / "store").put_bytes(b"weights")
    store = tmp_path / "new" / "store"
    assert (store / "oci-layout").read_text() == '{"imageLayoutVersion": "1.0.0"}'
    assert (store / "index.json").read_text() == '{"schemaVersion": 2, "manifests": []}'
    file = store / "blobs" / "sha256" / hashlib.sha256(b"weights").hexdigest()
    assert file.stat().st_mode & 0o777 == 0o400
    assert FolderStore(store).read(blob.digest) == b"weights"
    assert list((store / "incoming").iterdir()) == []


def test_a_folder_of_another_kind_is_no_store(tmp_path):
    (tmp_path / "oci-layout").write_text('{"imageLayoutVersion": "2.0.0"}')
    with pytest.raises(ArtifactRefusedError, match=r"not a flyball artifact store.*2\.0\.0"):
        FolderStore(tmp_path)


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_anything_but_a_file_in_a_blobs_place_is_damage(tmp_path, kind):
    store = FolderStore(tmp_path / "store")
    digest = digest_of(b"weights")
    place = tmp_path / "store" / "blobs" / "sha256" / digest.removeprefix("sha256:")
    (tmp_path / "elsewhere").write_bytes(b"weights")
    {"link": lambda: place.symlink_to(tmp_path / "elsewhere"), "folder": place.mkdir, "pipe": lambda: os.mkfifo(place)}[
        kind
    ]()
    for act in (lambda: store.read(digest), lambda: store.put_bytes(b"weights")):
        with pytest.raises(ArtifactRefusedError, match=r"is damaged in .*it is (a link|not a file)"):
            act()


def test_a_full_disk_is_told_keeps_nothing_half_and_is_no_longer_full_afterwards(small_disk):
    store = FolderStore(small_disk / "store")
    kept = store.put_bytes(b"weights")
    for _ in range(2):
        with pytest.raises(ArtifactsUnavailableError, match=r"store is full.*no partial file remains") as caught:
            store.put_bytes(bytes(4 << 20))
        assert caught.value.code == "artifacts_full"
        assert "gc" in caught.value.next_step
    with pytest.raises(ArtifactsUnavailableError, match="is full"):
        FolderStore(small_disk / "other").put_bytes(bytes(4 << 20))
    assert [blob.digest for blob in store.blobs()] == [kept.digest]
    assert list((small_disk / "store" / "incoming").iterdir()) == []
    assert store.read(kept.digest) == b"weights"
    assert store.put_bytes(bytes(1 << 20)).size == 1 << 20


@pytest.fixture
def small_disk(tmp_path):
    with journal_servers.small_disk(tmp_path / "disk", 3) as place:
        yield place


def test_what_a_killed_process_left_is_swept_and_what_is_being_written_is_not(tmp_path):
    store = FolderStore(tmp_path)
    old, young = tmp_path / "incoming" / "1-old", tmp_path / "incoming" / "2-young"
    for left in (old, young):
        left.write_bytes(b"half")
    os.utime(old, (1, 1))
    store.remove([], untouched_since=datetime.now(UTC) - timedelta(hours=1))
    assert [left.name for left in (tmp_path / "incoming").iterdir()] == ["2-young"]


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtifactsUnavailableError, match="cannot use"):
        FolderStore(tmp_path / "file" / "store")


# Which store is meant.


def test_a_relative_folder_is_relative_to_the_registry(tmp_path):
    open_store("artifacts", base=tmp_path).put_bytes(b"weights")
    assert (tmp_path / "artifacts" / "oci-layout").is_file()


@pytest.mark.parametrize(
    ("where", "endpoint", "words"),
    [
        ("gs://bucket", None, "for an S3-compatible store"),
        ("folder", "http://127.0.0.1", "apply only to s3://bucket/prefix"),
        ("s3://", None, "requires the name of a bucket"),
    ],
)
def test_a_store_that_makes_no_sense_is_refused(where, endpoint, words, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tests")
    with pytest.raises(UsageError) as caught:
        open_store(where, base=tmp_path, endpoint=endpoint)
    assert words in str(caught.value)


def test_a_bucket_without_credentials_in_the_environment_is_refused_at_once(monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    with pytest.raises(UsageError, match="no credentials for s3://bucket") as caught:
        open_store("s3://bucket/prefix", endpoint="http://127.0.0.1:1")
    assert "AWS_ACCESS_KEY_ID" in caught.value.next_step


def test_a_missing_package_is_named_with_how_to_get_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    with pytest.raises(MissingExtraError, match="obstore") as caught:
        open_store("s3://bucket/prefix")
    assert "pip install 'flyball[registry]'" in caught.value.next_step
