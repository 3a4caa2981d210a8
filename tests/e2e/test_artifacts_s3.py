"""Artifacts in a real S3-compatible server that is killed and started again in the middle of an upload: nothing is lost."""

import io
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bench.parts.s3 import BUCKET, REGION, S3Server
from flyball.artifacts import transfer
from flyball.artifacts.blobs import digest_of
from flyball.artifacts.bucket_lease import KEY
from flyball.artifacts.folder_store import FolderStore
from flyball.artifacts.gc import GRACE_MIN, collect, references_of
from flyball.artifacts.object_store import PART_BYTES, ObjectStore
from flyball.artifacts.packages import fetch_package, put_package
from flyball.errors import ArtifactRefusedError, ArtifactsUnavailableError
from tests.support import external_servers, onnx_models, serving

PARTS = 4
LARGE = bytes(range(256)) * (PARTS * PART_BYTES // 256) + b"the last part is a short one"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with external_servers.s3(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def server(shared: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    for name, value in shared.credentials.items():
        monkeypatch.setenv(name, value)
    return shared


@pytest.fixture
def opened(server: S3Server) -> Callable[..., ObjectStore]:
    prefix = secrets.token_hex(4)

    def opening(**more: Any) -> ObjectStore:
        chosen = {"prefix": prefix, "endpoint": server.endpoint, "region": REGION, **more}
        return ObjectStore(BUCKET, **chosen)

    opening.prefix = prefix  # type: ignore[attr-defined]
    return opening


class Interrupted(io.BytesIO):
    """A file that does something when it is read for the upload, after it was read once for its digest."""

    def __init__(self, content: bytes, act: Callable[[], None], at_part: int = 2) -> None:
        super().__init__(content)
        self._act, self._left, self._passes = act, at_part, 0

    def seek(self, place: int, whence: int = 0) -> int:
        self._passes += place == 0
        return super().seek(place, whence)

    def read(self, size: int | None = -1) -> bytes:
        if self._passes == 2:
            self._left -= 1
            if self._left == 0:
                self._act()
        return super().read(size)


def objects(server: S3Server, opened: Any) -> list[Path]:
    folder = server.objects / BUCKET / opened.prefix
    return [path for path in folder.rglob("*") if path.is_file()]


def age(server: S3Server, opened: Any, digest: str) -> None:
    path = server.file(opened.prefix, digest)
    os.utime(path, (path.stat().st_mtime - 86_400 * 2,) * 2)


def test_a_server_that_comes_back_in_the_middle_of_an_upload_is_not_even_noticed(
    server: S3Server, opened: Callable[..., ObjectStore]
) -> None:
    def restart() -> None:
        server.kill()
        server.run()

    store = opened()
    blob = store.put_file(Interrupted(LARGE, restart))
    assert blob.digest == digest_of(LARGE)
    assert b"".join(store.chunks(blob.digest)) == LARGE


def test_a_server_that_stays_away_is_told_and_nothing_is_half_there_when_it_is_back(
    server: S3Server, opened: Callable[..., ObjectStore]
) -> None:
    store = opened(patience_s=0.5)
    before = store.put_bytes(b"kept before")
    with pytest.raises(ArtifactsUnavailableError, match=r"cannot write s3://artifacts/.*127\.0\.0\.1") as caught:
        store.put_file(Interrupted(LARGE, server.kill))
    assert caught.value.code == "artifacts_unavailable"
    assert "nothing is lost" in str(caught.value.next_step)
    with pytest.raises(ArtifactsUnavailableError, match="cannot read"):
        store.read(before.digest)
    server.run()
    assert not store.has(digest_of(LARGE))
    assert [blob.digest for blob in store.blobs()] == [before.digest]
    assert store.read(before.digest) == b"kept before"
    assert store.put_file(io.BytesIO(LARGE)).size == len(LARGE)
    assert b"".join(store.chunks(digest_of(LARGE))) == LARGE


def test_a_package_that_was_interrupted_is_completed_by_the_next_try(
    server: S3Server, opened: Callable[..., ObjectStore], tmp_path: Path
) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    files = {"meta.json": b"{}", "model.onnx": b"weights", "model.onnx.data": b"more" * 1000}
    for name, content in files.items():
        (folder / name).write_bytes(content)

    class Dying(ObjectStore):
        left = 2

        def put_file(self, file: Any, *, expected: str | None = None) -> Any:
            self.left -= 1
            if self.left == 0:
                server.kill()
            return super().put_file(file, expected=expected)

    dying = Dying(
        BUCKET,
        prefix=opened.prefix,  # type: ignore[attr-defined]
        endpoint=server.endpoint,
        region=REGION,
        patience_s=0.5,
    )
    with pytest.raises(ArtifactsUnavailableError):
        put_package(dying, folder)
    server.run()
    store = opened()
    package = put_package(store, folder)
    assert fetch_package(store, package.manifest, tmp_path / "got", root=package.root) == package
    assert {path.name: path.read_bytes() for path in (tmp_path / "got").iterdir()} == files


def test_a_file_that_changes_while_it_is_uploaded_is_refused_and_leaves_no_object(
    server: S3Server, opened: Callable[..., ObjectStore]
) -> None:
    file = Interrupted(LARGE, lambda: file.getbuffer().__setitem__(slice(0, 4), b"evil"), at_part=1)
    with pytest.raises(ArtifactRefusedError, match="changed while it was read"):
        opened().put_file(file)
    assert list(opened().blobs()) == []


def test_a_wrong_secret_is_told_with_what_to_check(
    opened: Callable[..., ObjectStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(ArtifactsUnavailableError, match="no permission to") as caught:
        opened(patience_s=0.5).put_bytes(b"weights")
    assert caught.value.code == "artifacts_forbidden"
    assert "AWS_SECRET_ACCESS_KEY" in str(caught.value.next_step)
    assert "wrong" not in str(caught.value)


def test_a_bucket_that_is_not_there_is_told(server: S3Server) -> None:
    store = ObjectStore("nowhere", endpoint=server.endpoint, region=REGION, patience_s=0.5)
    with pytest.raises((ArtifactsUnavailableError, ArtifactRefusedError), match="s3://nowhere"):
        store.put_bytes(b"weights")


def test_plain_http_is_spoken_only_where_the_endpoint_says_so(server: S3Server) -> None:
    store = ObjectStore(BUCKET, endpoint=server.endpoint.replace("http:", "https:"), patience_s=0.5)
    with pytest.raises(ArtifactsUnavailableError, match="cannot read"):
        store.has(digest_of(b"weights"))


def test_many_who_put_the_same_at_once_make_one_object(server: S3Server, opened: Callable[..., ObjectStore]) -> None:
    failures: list[BaseException] = []
    together = threading.Barrier(6)

    def putting() -> None:
        try:
            store = opened()
            together.wait(serving.PATIENCE_S)
            store.put_bytes(b"weights" * 1000)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=putting) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert failures == []
    assert len(objects(server, opened)) == 1


def test_what_no_event_needs_leaves_the_bucket_and_the_lease_is_given_back(
    server: S3Server, opened: Callable[..., ObjectStore], tmp_path: Path
) -> None:
    store = opened()
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "meta.json").write_bytes(b"{}")
    package = put_package(store, tmp_path / "made")
    orphan = store.put_bytes(b"orphan")
    for blob in list(store.blobs()):
        age(server, opened, blob.digest)
    sweep = collect(store, lambda: references_of([{"manifest": package.manifest}]), remove=True)
    assert [blob.digest for blob in sweep.removed] == [orphan.digest]
    assert {blob.digest for blob in store.blobs()} == {package.manifest, digest_of(b"{}")}
    assert len(objects(server, opened)) == 2


def test_two_collections_do_not_run_at_once(server: S3Server, opened: Callable[..., ObjectStore]) -> None:
    store = opened()
    with store._lease.held(), pytest.raises(ArtifactsUnavailableError, match="another collection"):
        opened().remove([digest_of(b"x")], untouched_since=datetime.now(UTC))
    assert opened().remove([digest_of(b"x")], untouched_since=datetime.now(UTC)) == []


def test_a_lease_that_a_killed_collection_left_ends(server: S3Server, opened: Callable[..., ObjectStore]) -> None:
    store = opened()
    blob = store.put_bytes(b"orphan")
    age(server, opened, blob.digest)
    until = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    assert store._bucket.create(KEY, json.dumps({"until": until}).encode())
    assert store.put_bytes(b"weights").size == 7
    removed = store.remove([blob.digest], untouched_since=datetime.now(UTC) - GRACE_MIN)
    assert [one.digest for one in removed] == [blob.digest]


def test_a_blob_put_beside_a_collection_is_there_afterwards(server: S3Server, opened: Callable[..., ObjectStore]) -> None:
    content = b"weights" * 1000
    digest = digest_of(content)
    store, sweeper = opened(), opened()

    def sweeping() -> None:
        sweeper.remove([digest], untouched_since=datetime.now(UTC) - GRACE_MIN)

    with ThreadPoolExecutor(1) as beside:
        for _ in range(30):
            store.put_bytes(content)
            age(server, opened, digest)
            swept = beside.submit(sweeping)
            store.put_bytes(content)
            swept.result(20)
            assert store.read(digest) == content


def test_a_bundle_file_is_made_from_a_bucket_and_kept_in_one(opened: Callable[..., ObjectStore], tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "meta.json").write_bytes(b"{}")
    (tmp_path / "made" / "model.onnx").write_bytes(LARGE)
    store = opened()
    package = put_package(store, tmp_path / "made")
    version = transfer.CarriedVersion(name="fraud", version=1, root=package.root, manifest=package.manifest)
    transfer.export(store, tmp_path / "f", [version], created="", sign=lambda _: b"{}")
    other = FolderStore(tmp_path / "other")
    back = opened(prefix=secrets.token_hex(4))
    with transfer.opened(tmp_path / "f", verify=lambda *_: None) as (carried, staging):
        transfer.keep(carried, staging, other)
        transfer.keep(carried, staging, back)
    assert {blob.digest for blob in other.blobs()} == {blob.digest for blob in back.blobs()} == {
        blob.digest for blob in carried.blobs
    }  # fmt: skip


@pytest.mark.timeout(120)  # the command asks again for as long as it does for anybody
def test_a_register_whose_store_goes_away_leaves_no_version_and_the_next_one_is_the_first(
    server: S3Server, opened: Callable[..., ObjectStore], tmp_path: Path
) -> None:
    onnx_models.linear(tmp_path)
    flyball = [*serving.flyball(), "--registry", "home"]

    def ran(*words: str) -> serving.Ending:
        return serving.run([flyball[0], *words, *flyball[1:]], timeout_s=60, cwd=tmp_path)

    where = f"s3://{BUCKET}/{secrets.token_hex(4)}"
    places = ["--artifacts", where, "--artifacts-endpoint", server.endpoint, "--artifacts-region", REGION]
    assert serving.run([flyball[0], "registry", "init", "home", *places], timeout_s=60, cwd=tmp_path).code == 0
    server.kill()
    refused = ran("register", "fraud", "linear.onnx")
    server.run()
    assert refused.code == 5
    assert where in refused.text
    assert "nothing is lost" in refused.text
    made = ran("register", "fraud", "linear.onnx")
    assert made.code == 0
    assert made.stdout[0].startswith("fraud@1 ")
    assert ran("registry", "verify").code == 0
