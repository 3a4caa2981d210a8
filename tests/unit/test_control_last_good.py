"""What becomes the last good snapshot, with servers that answer later than they are asked, or are never asked."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from flyball.control.acknowledged import TAKEN_MAX, Proven
from flyball.control.loop import ControlLoop
from flyball.control.planes import FolderPlane
from flyball.control.state_folder import LAST_GOOD, TAKEN, StateFolder, documents_of
from flyball.control.step import NEVER, Compile
from flyball.documents.snapshot.store import Bundle, digest_of, read
from flyball.native.server_documents import Deployments, DeploymentState
from tests.support.registry_people import ADA, Desk

NODE = "http://node-1"
_begun: list[ControlLoop] = []


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture(autouse=True)
def _end_all(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("flyball.control.fetches.PATIENCE_S", 30.0)  # however busy the machine is
    yield
    while _begun:
        _begun.pop().stop()


@dataclass
class Flyballd:
    """A server that watches a folder: it looks when it is told to, and says of the folder what it saw then."""

    folder: Path
    bad: set[str] = field(default_factory=set)
    serving: dict[str, str] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    generation: int = 0

    def look(self) -> None:
        index = read(self.folder / "index.json").parsed_index()
        self.generation = index.generation
        refused = [one for one in index.deployments if one.digest in self.bad]
        taken = {one.name: one.digest for one in index.deployments if one.digest not in self.bad}
        gone = self.serving.keys() - {one.name for one in index.deployments}
        self.serving = {name: digest for name, digest in {**self.serving, **taken}.items() if name not in gone}
        told = {"generation": self.generation, "reason": None}
        self.rows = [{"name": name, "digest": digest, "state": "applied", **told} for name, digest in self.serving.items()]
        self.rows += [
            {"name": one.name, "digest": one.digest, "state": "refused", **told, "reason": "bad"} for one in refused
        ]

    def start_anew(self) -> None:
        self.serving = {}
        self.look()

    # what the plane's HTTP client calls
    def request(self, *_: Any, **__: Any) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def read(self, _: int) -> bytes:
        return json.dumps({"generation": self.generation, "refused": None, "deployments": self.rows}).encode()


def control(desk: Desk, out: Path, server: Flyballd | None) -> tuple[ControlLoop, FolderPlane]:
    loop = ControlLoop(desk.home.folder, "production", desk.keys["publisher"], StateFolder(out), actor="node-1")
    _begun.append(loop)
    plane = FolderPlane(out, [NODE] if server else [])
    if server:
        plane._http = server  # type: ignore[assignment]
    plane.apply(loop.first())
    return loop, plane


def settle(loop: ControlLoop, plane: FolderPlane) -> None:
    loop.loop_state.reported_at = NEVER
    loop.tick(plane)


def taken(desk: Desk, folder: Path, ref: str | None = None) -> tuple[Path, Flyballd, ControlLoop, FolderPlane]:
    """A version in production that a server has taken from the folder `out`."""
    desk.promote(ref or desk.ready())
    out = folder / "out"
    server = Flyballd(out)
    loop, plane = control(desk, out, server)
    server.look()
    settle(loop, plane)
    return out, server, loop, plane


def digest_in(folder: Path) -> str:
    return digest_of(read(folder / "index.json").documents[0])


def newest(loop: ControlLoop) -> str:
    """Of what the registry says."""
    return digest_of(loop._compile(Compile(0, "events")).snapshot.documents["fraud"])


def test_a_document_is_good_once_a_server_says_so_and_not_before(desk: Desk, tmp_path: Path) -> None:
    desk.promote(desk.ready())
    out = tmp_path / "out"
    server = Flyballd(out)
    loop, plane = control(desk, out, server)
    settle(loop, plane)
    assert read(out / LAST_GOOD / "index.json").documents == ()
    server.look()
    settle(loop, plane)
    assert digest_in(out / LAST_GOOD) == digest_in(out)


@pytest.mark.parametrize("late", [True, False])
def test_a_refused_promotion_gives_way_to_the_good_document_so_that_a_server_can_start_anew(
    desk: Desk, tmp_path: Path, *, late: bool
) -> None:
    out, server, loop, plane = taken(desk, tmp_path)
    good = digest_in(out)
    desk.promote(desk.ready())
    server.bad = {newest(loop)}
    if not late:
        written = plane.apply

        def apply(bundle: Bundle) -> None:
            written(bundle)
            server.look()

        plane.apply = apply  # type: ignore[method-assign]
    settle(loop, plane)
    if late:
        assert digest_in(out) in server.bad
        assert digest_in(out / LAST_GOOD) == good
        server.look()
        settle(loop, plane)
    assert digest_in(out) == digest_in(out / LAST_GOOD) == good
    assert read(out / "index.json").parsed_index().generation == loop.loop_state.compiled.checkpoint.sequence
    server.start_anew()
    assert server.serving == {"fraud": good}
    settle(loop, plane)
    node = desk.registry.status().nodes[0]
    assert (node.state, node.reason, node.version) == ("refused", "bad", 2)
    assert (node.digest in server.bad, node.serving and node.serving.digest) == (True, good)


def test_what_was_refused_is_offered_again_by_the_next_policy_and_the_next_version(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flyball.control.step.TRUST_READ_S", 0.0)
    out, server, loop, plane = taken(desk, tmp_path)
    desk.promote(desk.ready())
    server.bad = {newest(loop)}
    for _ in range(2):
        settle(loop, plane)
        server.look()
    assert digest_in(out) not in server.bad
    wanted, server.bad = server.bad.pop(), set()
    desk.trust(desk.policy.with_minimum("other", 1, 1_800_000_000))
    for _ in range(2):
        settle(loop, plane)
        server.look()
    assert digest_in(out) == wanted
    settle(loop, plane)
    assert digest_in(out / LAST_GOOD) == wanted


def test_without_registry_control_starts_with_the_last_good_document_where_nobody_took_the_newest(
    desk: Desk, tmp_path: Path
) -> None:
    out, server, loop, plane = taken(desk, tmp_path)
    good = digest_in(out)
    desk.promote(desk.ready())
    settle(loop, plane)
    assert digest_in(out) != good
    generation = read(out / "index.json").parsed_index().generation
    loop.stop()
    desk.home.folder.rename(tmp_path / "away")
    control(desk, out, server)
    assert digest_in(out) == good
    assert read(out / "index.json").parsed_index().generation == generation
    server.start_anew()
    assert server.serving == {"fraud": good}


def test_without_registry_a_rollback_that_no_server_has_heard_of_yet_stays(desk: Desk, tmp_path: Path) -> None:
    out, server, loop, plane = taken(desk, tmp_path)
    first = digest_in(out)
    desk.promote(desk.ready())
    for _ in range(2):
        settle(loop, plane)
        server.look()
    settle(loop, plane)
    assert digest_in(out / LAST_GOOD) != first
    desk.registry.rollback("fraud", "production", actor=ADA)
    settle(loop, plane)
    loop.stop()
    desk.home.folder.rename(tmp_path / "away")
    control(desk, out, server)
    assert digest_in(out) == first


def test_servers_that_are_never_asked_keep_the_newest_when_control_starts_without_registry(
    desk: Desk, tmp_path: Path
) -> None:
    desk.promote(desk.ready())
    out = tmp_path / "out"
    loop, plane = control(desk, out, None)
    settle(loop, plane)
    before = read(out / "index.json")
    assert len(before.documents) == 1
    loop.stop()
    desk.home.folder.rename(tmp_path / "away")
    control(desk, out, None)
    assert read(out / "index.json").index == before.index


def test_what_no_longer_compiles_goes_on_after_a_restart_of_control_though_nobody_was_asked(
    desk: Desk, tmp_path: Path
) -> None:
    ref = desk.ready()
    desk.promote(ref)
    out = tmp_path / "out"
    loop, plane = control(desk, out, None)
    settle(loop, plane)
    before = documents_of(read(out / "index.json"))
    loop.stop()
    bundle = next(event.body["bundle"] for event in desk.registry.history("fraud") if event.kind == "signed")
    blob = next((desk.home.folder / "artifacts").rglob(bundle.removeprefix("sha256:")))
    blob.rename(tmp_path / "blob")
    control(desk, out, None)
    assert documents_of(read(out / "index.json")) == before


def test_a_revoked_document_is_not_kept_as_good(desk: Desk, tmp_path: Path) -> None:
    ref = desk.ready()
    out, _, loop, plane = taken(desk, tmp_path, ref)
    desk.registry.revoke(ref, actor=ADA, reason="leaked labels", stop=True)
    settle(loop, plane)
    assert read(out / LAST_GOOD / "index.json").documents == ()
    assert list((out / LAST_GOOD / "deployments").iterdir()) == []


def test_a_refused_promotion_does_not_give_way_to_a_good_document_that_was_revoked(desk: Desk, tmp_path: Path) -> None:
    first = desk.ready()
    out, server, loop, plane = taken(desk, tmp_path, first)
    good = digest_in(out)
    desk.promote(desk.ready())
    server.bad = {newest(loop)}
    settle(loop, plane)
    server.look()
    settle(loop, plane)
    assert digest_in(out) == good  # all servers refused the second version
    desk.registry.revoke(first, actor=ADA, reason="leaked labels")
    for _ in range(3):
        settle(loop, plane)
        assert documents_of(read(out / "index.json")) == {}
        server.look()
    assert server.serving == {}
    assert documents_of(read(out / LAST_GOOD / "index.json")) == {}
    server.bad.clear()
    loop.loop_state.apply_again_at = NEVER  # a new trust policy: servers are asked again
    settle(loop, plane)
    assert digest_in(out) == newest(loop)


def test_a_damaged_list_of_what_was_taken_stops_nothing(desk: Desk, tmp_path: Path) -> None:
    out, server, loop, _plane = taken(desk, tmp_path)
    loop.stop()
    (out / LAST_GOOD / TAKEN).write_text("{")
    control(desk, out, server)
    assert json.loads((out / LAST_GOOD / TAKEN).read_text()) == [digest_in(out)]


@dataclass
class Both:
    """Two servers that watch one folder, as an HTTP client sees them."""

    one: Flyballd
    two: Flyballd

    def request(self, _: str, url: str, **__: Any) -> Flyballd:
        return self.one if url.startswith(NODE) else self.two


def test_a_document_that_one_server_refuses_is_kept_from_no_other_one(desk: Desk, tmp_path: Path) -> None:
    desk.promote(desk.ready())
    out = tmp_path / "out"
    both = Both(Flyballd(out), Flyballd(out))
    loop, plane = control(desk, out, both.one)
    plane._urls, plane._http = [NODE, "http://node-2"], both  # type: ignore[assignment]
    for server in (both.one, both.two):
        server.look()
    settle(loop, plane)
    old = digest_in(out)
    desk.promote(desk.ready())
    new = newest(loop)
    both.one.bad = {new}
    settle(loop, plane)
    both.one.look()  # the other one has not looked yet
    settle(loop, plane)
    assert digest_in(out) == new
    nodes = {node.node: node for node in desk.registry.status().nodes}
    assert (nodes[NODE].state, nodes[NODE].reason) == ("refused", "bad")
    assert nodes["http://node-2"].state == "waiting"
    both.two.look()
    settle(loop, plane)
    assert digest_in(out) == digest_in(out / LAST_GOOD) == new
    nodes = {node.node: node for node in desk.registry.status().nodes}
    serving = {name: node.serving.digest for name, node in nodes.items() if node.serving}
    assert serving == {NODE: old, "http://node-2": new}
    assert (nodes[NODE].state, nodes["http://node-2"].state) == ("refused", "applied")


def test_a_document_that_all_who_answer_refuse_gives_way_after_a_while(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.promote(desk.ready())
    out = tmp_path / "out"
    both = Both(Flyballd(out), Flyballd(out))
    loop, plane = control(desk, out, both.one)
    plane._urls, plane._http = [NODE, "http://node-2"], both  # type: ignore[assignment]
    both.one.look()
    settle(loop, plane)
    old = digest_in(out)
    desk.promote(desk.ready())
    both.one.bad = {newest(loop)}
    settle(loop, plane)
    both.one.look()
    settle(loop, plane)
    assert digest_in(out) != old
    monkeypatch.setattr("flyball.control.step.REFUSALS_WAIT_S", 0.0)
    settle(loop, plane)
    assert digest_in(out) == old


def row(document: bytes, state: Any, name: str = "fraud") -> DeploymentState:
    return DeploymentState(name=name, digest=digest_of(document), generation=1, state=state)


def said(*rows: DeploymentState) -> Deployments:
    return Deployments(generation=1, deployments=list(rows))


def test_one_server_that_took_a_document_outweighs_others_that_did_not() -> None:
    proven = Proven({"fraud": b"old"})
    proven.hear({"fraud": b"new"}, {"a": said(row(b"new", "refused"))})
    assert proven.offered({"fraud": b"new"}, lambda _: False) == {"fraud": b"old"}
    proven.hear({"fraud": b"new"}, {"a": said(row(b"new", "refused")), "b": said(row(b"new", "applied"))})
    assert proven.offered({"fraud": b"new"}, lambda _: False) == {"fraud": b"new"}
    assert proven.good == {"fraud": b"new"}


def test_words_about_another_document_or_another_name_change_nothing() -> None:
    proven = Proven({"fraud": b"old"})
    told = said(row(b"old", "applied"), row(b"old", "refused"), row(b"new", "applied", "other"), row(b"new", "warm"))
    proven.hear({"fraud": b"new"}, {"a": told})
    assert (proven.good, proven.refused) == ({"fraud": b"old"}, {})


def test_what_was_taken_is_remembered_within_bounds_and_forgotten_once_refused() -> None:
    proven = Proven({})
    for number in range(TAKEN_MAX + 5):
        document = str(number).encode()
        proven.hear({"fraud": document}, {"a": said(row(document, "applied"))})
    assert (len(proven.taken), proven.taken[-1]) == (TAKEN_MAX, digest_of(document))
    proven.hear({"fraud": document}, {"a": said(row(document, "applied"), row(document, "refused"))})
    assert digest_of(document) not in proven.taken


def test_a_disk_that_keeps_nothing_keeps_no_rollback_from_servers_and_what_was_not_written_is_written_later(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _server, loop, plane = taken(desk, tmp_path)
    first = digest_in(out)
    desk.promote(desk.ready())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(loop.state, "keep", full)
        settle(loop, plane)
        settle(loop, plane)
    assert digest_in(out) != first
    assert capsys.readouterr().err.count("last good snapshot not kept") == 1
    with monkeypatch.context() as broken:
        broken.setattr(plane, "apply", full)
        desk.registry.rollback("fraud", "production", actor=ADA)
        with pytest.raises(OSError, match="No space"):
            loop.tick(plane)
    loop.tick(plane)
    assert digest_in(out) == first
