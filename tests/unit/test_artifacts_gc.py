"""What no event needs may leave after a while; what an event needs never does, also beside a register under way."""

import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flyball.artifacts.blobs import digest_of
from flyball.artifacts.folder_store import FolderStore
from flyball.artifacts.gc import GRACE_MIN, References, collect, references_of
from flyball.artifacts.packages import put_package, read_package
from flyball.errors import ArtifactRefusedError, UsageError


def file_of(store, digest):
    return store.folder / "blobs" / "sha256" / digest.removeprefix("sha256:")


def age(store, digest, by=timedelta(days=2)):
    path = file_of(store, digest)
    before = path.stat().st_mtime - by.total_seconds()
    os.utime(path, (before, before))


def package_folder(place, **files):
    place.mkdir(parents=True)
    (place / "meta.json").write_bytes(b"{}")
    for name, content in files.items():
        (place / name).write_bytes(content)
    return place


@pytest.fixture
def store(tmp_path):
    return FolderStore(tmp_path / "store")


def test_every_digest_in_an_event_counts_wherever_it_stands():
    one, two, three = (digest_of(content) for content in (b"1", b"2", b"3"))
    bodies = [{"manifest": one, "version": 1}, {"evidence": [{"report": two}], "note": "not sha256:12"}, {"key": three[7:]}]
    found = references_of(bodies)
    assert found.blobs == {one, two, three}
    assert found.manifests == {one}


def test_a_dry_run_says_what_would_go_and_removes_nothing(store):
    old = store.put_bytes(b"old")
    age(store, old.digest)
    sweep = collect(store, References)
    assert [blob.digest for blob in sweep.removable] == [old.digest]
    assert (sweep.removed, sweep.needed, sweep.young) == ([], 0, 0)
    assert store.has(old.digest)


def test_what_an_event_needs_stays_with_all_that_its_package_names(store, tmp_path):
    package = put_package(store, package_folder(tmp_path / "made", model=b"weights"))
    signature, orphan = store.put_bytes(b"signature"), store.put_bytes(b"orphan")
    for blob in list(store.blobs()):
        age(store, blob.digest)
    events = [{"manifest": package.manifest, "root": package.root}, {"bundle": signature.digest}]
    sweep = collect(store, lambda: references_of(events), remove=True)
    assert [blob.digest for blob in sweep.removed] == [orphan.digest]
    assert sweep.needed == 4
    assert read_package(store, package.manifest) == package
    assert not store.has(orphan.digest)


def test_what_was_put_within_the_grace_stays(store):
    store.put_bytes(b"young")
    sweep = collect(store, References, remove=True)
    assert (sweep.young, sweep.removed) == (1, [])


def test_what_is_put_again_is_young_again(store):
    blob = store.put_bytes(b"weights")
    age(store, blob.digest)
    store.put_bytes(b"weights")
    assert collect(store, References, remove=True).removed == []


def test_a_grace_that_a_slow_register_would_outlast_is_refused(store):
    with pytest.raises(UsageError, match="too short"):
        collect(store, References, grace=GRACE_MIN - timedelta(seconds=1))


@pytest.mark.parametrize("how", ["gone", "damaged"])
def test_nothing_goes_while_a_needed_manifest_cannot_be_read(store, tmp_path, how):
    package = put_package(store, package_folder(tmp_path / "made", model=b"weights"))
    orphan = store.put_bytes(b"orphan")
    for blob in list(store.blobs()):
        age(store, blob.digest)
    file_of(store, package.manifest).unlink()
    if how == "damaged":
        file_of(store, package.manifest).write_bytes(b"{}")
    with pytest.raises(ArtifactRefusedError, match="nothing was removed") as caught:
        collect(store, lambda: references_of([{"manifest": package.manifest}]), remove=True)
    assert "flyball registry verify" in caught.value.next_step
    assert store.has(orphan.digest)


def test_packages_that_are_gone_leave_the_index(store, tmp_path):
    package = put_package(store, package_folder(tmp_path / "made"), name="fraud@1")
    for blob in list(store.blobs()):
        age(store, blob.digest)
    collect(store, References, remove=True)
    assert package.manifest not in (store.folder / "index.json").read_text()


class Registering:
    """Registers in steps, collections at any point between them, and time that passes; events need what they name."""

    def __init__(self, place):
        self.place = place
        self.store = FolderStore(place / "store")
        self.waited = timedelta()
        self.events, self.under_way = [], []

    def put(self, content):
        """A register keeps its files; its event comes later, or never."""
        folder = package_folder(self.place / secrets.token_hex(4), model=content)
        self.under_way.append((self.waited, put_package(self.store, folder)))

    def append(self):
        """The newest register under way ends; one that took as long as the grace gave up before."""
        if self.under_way:
            begun, package = self.under_way.pop()
            if self.waited - begun < GRACE_MIN:
                self.events.append({"manifest": package.manifest})

    def wait(self, minutes):
        self.waited += timedelta(minutes=minutes)
        for blob in list(self.store.blobs()):
            age(self.store, blob.digest, by=timedelta(minutes=minutes))

    def sweep(self):
        collect(self.store, lambda: references_of(self.events), grace=GRACE_MIN, remove=True)

    def check(self):
        for event in self.events:
            assert all(self.store.has(file.digest) for file in read_package(self.store, event["manifest"]).files)


_steps = {
    "put a": lambda it: it.put(b"a"),
    "put b": lambda it: it.put(b"b"),
    "wait long": lambda it: it.wait(61),
    "wait": lambda it: it.wait(25),
    "sweep": Registering.sweep,
    "append": Registering.append,
}


@given(steps=st.lists(st.sampled_from(sorted(_steps)), min_size=12, max_size=25))
@settings(max_examples=100)
def test_no_order_of_registers_and_collections_loses_what_an_event_needs(tmp_path_factory, steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)  # what is durable is not asked here, and it takes most of the time
        it = Registering(tmp_path_factory.mktemp("order"))
        for step in steps:
            _steps[step](it)
            it.check()


def test_a_blob_put_beside_a_collection_is_there_afterwards(store):
    content = b"weights" * 1000
    digest = digest_of(content)
    with ThreadPoolExecutor(1) as beside:
        for _ in range(100):
            store.put_bytes(content)
            age(store, digest)
            swept = beside.submit(store.remove, [digest], untouched_since=datetime.now(UTC) - GRACE_MIN)
            store.put_bytes(content)
            swept.result(20)
            assert store.read(digest) == content
