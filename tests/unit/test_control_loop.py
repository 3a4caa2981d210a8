"""The control loop and a data plane of paper: what is applied, kept and reported, and when the loop goes on alone."""

import itertools
import shutil
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flyball.artifacts.packages import fetch_package
from flyball.control.loop import ControlLoop
from flyball.control.state_folder import StateFolder
from flyball.control.step import NEVER, Compile, Compiled
from flyball.documents.snapshot import Bundle
from flyball.errors import FlyballError, LockedError, RegistryBrokenError
from flyball.signing import keys
from flyball.signing.policy import TrustPolicy
from flyball.signing.trust import sign_policy
from tests.support.registry_people import ADA, Desk, Paper
from tests.support.serving import until


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


_begun: list[ControlLoop] = []


@pytest.fixture(autouse=True)
def _end_all(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("flyball.control.fetches.PATIENCE_S", 30.0)  # however busy the machine is
    yield
    while _begun:
        _begun.pop().stop()


def loop_of(desk: Desk, folder: Path) -> ControlLoop:
    loop = ControlLoop(desk.home.folder, "production", desk.keys["publisher"], StateFolder(folder), actor="node-1")
    _begun.append(loop)
    return loop


def started(desk: Desk, folder: Path, plane: Paper) -> ControlLoop:
    loop = loop_of(desk, folder)
    plane.apply(loop.first())
    loop.tick(plane)
    return loop


def names(bundle: Bundle) -> list[str]:
    return [entry.name for entry in bundle.parsed_index().deployments]


def test_a_promotion_is_applied_once_reported_and_kept(desk: Desk, tmp_path: Path) -> None:
    plane = Paper()
    loop = started(desk, tmp_path / "state", plane)
    assert names(plane.applied[-1]) == []
    desk.promote(desk.ready())
    for _ in range(3):
        loop.tick(plane)
    assert [names(bundle) for bundle in plane.applied] == [[], ["fraud"]]
    kept = loop.state.last_good()
    assert kept is not None
    assert kept.documents == plane.applied[-1].documents
    node = desk.registry.status().nodes[0]
    assert (node.node, node.environment, node.deployment, node.state) == ("node-1", "production", "fraud", "applied")
    published = [event for event in desk.registry.history() if event.kind == "published"]
    assert [event.body["generation"] for event in published][-1] == plane.applied[-1].parsed_index().generation
    assert len(published) == 2


def test_two_loops_publish_one_and_the_same_snapshot_once(desk: Desk, tmp_path: Path) -> None:
    desk.promote(desk.ready())
    one, two = Paper(), Paper()
    first = started(desk, tmp_path / "one", one)
    second = started(desk, tmp_path / "two", two)
    first.tick(one)
    second.tick(two)
    assert one.applied[-1].index == two.applied[-1].index
    assert len([event for event in desk.registry.history() if event.kind == "published"]) == 1


def published(desk: Desk) -> int:
    return len([event for event in desk.registry.history() if event.kind == "published"])


def test_a_node_with_a_damaged_package_publishes_nothing_and_serves_once_it_is_removed(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ref = desk.ready()
    desk.promote(ref)
    damaged = tmp_path / "two" / "packages" / desk.registry.show(ref).root.removeprefix("sha256:")
    damaged.mkdir(parents=True)
    (damaged / "model.onnx").write_bytes(b"x")
    one, two = Paper(), Paper()
    second, first = started(desk, tmp_path / "two", two), started(desk, tmp_path / "one", one)
    for _ in range(3):
        for loop, plane in ((first, one), (second, two)):
            loop.loop_state.reported_at = NEVER
            loop.tick(plane)
    assert published(desk) == 1
    assert names(two.applied[-1]) == []
    assert capsys.readouterr().err.count("deployment not compiled") == 1
    shutil.rmtree(damaged)
    second.tick(two)
    assert names(two.applied[-1]) == []
    monkeypatch.setattr("flyball.control.loop.time.monotonic", lambda now=time.monotonic: now() + 5)
    second.tick(two)
    assert names(two.applied[-1]) == ["fraud"]
    assert "compiled again" in capsys.readouterr().err
    assert published(desk) == 1


def test_what_does_not_compile_is_tried_ever_more_seldom_but_always_again(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = desk.ready()
    desk.promote(ref)
    model = next(file for file in desk.registry.show(ref).files if file.name == "model.onnx")
    blob = next((desk.home.folder / "artifacts").rglob(model.digest.removeprefix("sha256:")))
    blob.rename(tmp_path / "blob")
    plane = Paper()
    loop = started(desk, tmp_path / "state", plane)
    clock, tried = [time.monotonic()], list[float]()
    monkeypatch.setattr("flyball.control.loop.time", SimpleNamespace(monotonic=lambda: clock[0]))
    compiled = loop._compile

    def compile_again(asked: Compile) -> Compiled:
        tried.append(clock[0])
        return compiled(asked)

    monkeypatch.setattr(loop, "_compile", compile_again)
    for _ in range(150):
        clock[0] += 1.0
        loop.tick(plane)
    gaps = [round(later - earlier) for earlier, later in itertools.pairwise(tried)]
    assert gaps[:6] == [4, 8, 16, 30, 30, 30]
    (tmp_path / "blob").rename(blob)
    clock[0] += 31.0
    loop.tick(plane)
    assert names(plane.applied[-1]) == ["fraud"]


def test_events_about_versions_that_are_not_placed_make_no_new_snapshot(desk: Desk, tmp_path: Path) -> None:
    plane = Paper()
    desk.promote(desk.ready())
    loop = started(desk, tmp_path / "state", plane)
    before, applied = published(desk), len(plane.applied)
    desk.promote(desk.ready(), "staging")
    desk.registry.alias("fraud", "best", 2, actor=ADA)
    desk.ready("other")
    for _ in range(2):
        loop.loop_state.reported_at = NEVER
        loop.tick(plane)
    assert (published(desk), len(plane.applied)) == (before, applied)
    desk.registry.promote("fraud@2", "production", actor=ADA)
    loop.tick(plane)
    assert (published(desk), len(plane.applied)) == (before + 1, applied + 1)


def test_a_refusal_of_the_data_plane_is_shown_and_the_good_document_stays_the_last_good(desk: Desk, tmp_path: Path) -> None:
    plane = Paper()
    desk.promote(desk.ready())
    loop = started(desk, tmp_path / "state", plane)
    good = plane.applied[-1].documents
    plane.refuses = {"fraud"}
    desk.promote(desk.ready())
    loop.tick(plane)
    node = desk.registry.status().nodes[0]
    assert (node.state, node.reason) == ("refused", "unsigned: no")
    kept = loop.state.last_good()
    assert kept is not None
    assert kept.documents == good


def test_what_a_server_answers_with_is_told_beside_what_is_placed_now_and_of_the_past(desk: Desk, tmp_path: Path) -> None:
    plane = Paper()
    desk.promote(desk.ready())
    loop = started(desk, tmp_path / "state", plane)
    plane.refuses = {"fraud"}
    desk.promote(desk.ready())
    loop.tick(plane)
    refused_at = datetime.now(UTC)
    plane.refuses = set()
    desk.registry.rollback("fraud", "production", actor=ADA)
    loop.tick(plane)
    shown = desk.registry.at(refused_at)
    (placed,) = [one for one in shown.placements if one.environment == "production"]
    (node,) = shown.nodes
    assert (placed.version, placed.served_by) == (2, [])
    assert (node.version, node.state, node.serving and node.serving.version) == (2, "refused", 1)
    for now in (desk.registry.at(), desk.registry.status()):
        (placed,) = [one for one in now.placements if one.environment == "production"]
        assert (placed.version, placed.served_by) == (1, ["node-1"])
    assert desk.registry.at().nodes == []
    (node,) = desk.registry.status().nodes
    assert (node.version, node.state, node.serving and node.serving.version) == (1, "applied", 1)
    told = [event.body["state"] for event in desk.registry.history() if event.kind == "acknowledged"]
    assert told == ["applied", "refused", "applied"]
    desk.registry.alias("fraud", "best", 1, actor=ADA)  # nobody conflicts with what servers say


def hold(monkeypatch: pytest.MonkeyPatch, held: str) -> threading.Event:
    """An artifact store from which the files of one package do not come until the event is set."""
    monkeypatch.setattr("flyball.control.fetches.PATIENCE_S", 0.01)
    let_go = threading.Event()

    def slowly(store: Any, manifest: str, target: Path, *, root: str | None = None) -> Any:
        if root == held:
            assert let_go.wait(60)
        return fetch_package(store, manifest, target, root=root)

    monkeypatch.setattr("flyball.control.compile.fetch_package", slowly)
    return let_go


def test_a_rollback_is_applied_while_the_files_of_another_name_are_still_fetched(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = Paper()
    desk.promote(desk.ready())
    loop = started(desk, tmp_path / "state", plane)
    desk.promote(desk.ready())
    loop.tick(plane)
    ref = desk.ready("big")
    let_go = hold(monkeypatch, desk.registry.show(ref).root)
    desk.promote(ref)
    loop.tick(plane)
    desk.registry.rollback("fraud", "production", actor=ADA)
    loop.tick(plane)
    assert names(plane.applied[-1]) == ["fraud"]
    states = {node.deployment: (node.state, node.serving and node.serving.version) for node in desk.registry.status().nodes}
    assert states == {"big": ("waiting", None), "fraud": ("applied", 1)}
    assert "acknowledged" not in [event.kind for event in desk.registry.history("big")]
    let_go.set()

    def both_applied() -> bool:
        loop.tick(plane)
        return {node.deployment: node.state for node in desk.registry.status().nodes} == dict.fromkeys(
            ("big", "fraud"), "applied"
        )

    until("both are applied", both_applied)
    assert names(plane.applied[-1]) == ["big", "fraud"]


def test_a_server_starts_with_what_is_there_and_waits_only_for_names_that_have_nothing_older(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = Paper()
    desk.promote(desk.ready())
    loop = started(desk, tmp_path / "state", plane)
    old = plane.applied[-1].documents
    loop.stop()
    ref = desk.ready()
    desk.promote(ref)
    let_go = hold(monkeypatch, desk.registry.show(ref).root)
    loop = loop_of(desk, tmp_path / "state")
    assert loop.first().documents == old
    let_go.set()
    assert names(loop_of(desk, tmp_path / "new").first()) == ["fraud"], "a new one waits for its first"


def test_what_was_revoked_does_not_go_on_while_what_took_its_place_is_fetched(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane = Paper()
    desk.promote(desk.ready())
    loop = started(desk, tmp_path / "state", plane)
    ref = desk.ready()
    let_go = hold(monkeypatch, desk.registry.show(ref).root)
    desk.promote(ref)
    desk.registry.revoke("fraud@1", actor=ADA, reason="leaked labels")
    loop.tick(plane)
    assert names(plane.applied[-1]) == []
    let_go.set()


def test_a_package_that_was_dropped_is_fetched_again_for_a_document_that_is_known(desk: Desk, tmp_path: Path) -> None:
    plane = Paper()
    ref = desk.ready()
    desk.promote(ref)
    loop = started(desk, tmp_path / "state", plane)
    package = tmp_path / "state" / "packages" / desk.registry.show(ref).root.removeprefix("sha256:")
    shutil.rmtree(package)
    desk.registry.alias("fraud", "best", 1, actor=ADA)

    def fetched() -> bool:
        loop.tick(plane)
        return package.is_dir()

    until("the package is there again", fetched)


def test_what_servers_say_makes_no_loop_compile_again(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.promote(desk.ready())
    one, two = Paper(), Paper(node="node-2")
    first, second = started(desk, tmp_path / "one", one), started(desk, tmp_path / "two", two)
    compiled = list[int]()
    monkeypatch.setattr(first, "_compile", lambda: compiled.append(1))
    second.tick(two)
    first.tick(one)
    assert [node.node for node in desk.registry.status().nodes] == ["node-1", "node-2"]
    assert compiled == []


def test_a_server_that_starts_anew_and_refuses_the_newest_serves_what_was_good(desk: Desk, tmp_path: Path) -> None:
    plane = Paper()
    desk.promote(desk.ready())
    loop = started(desk, tmp_path / "state", plane)
    good = plane.applied[-1].documents
    loop.stop()
    desk.promote(desk.ready())
    again = Paper(refuses={"fraud"})
    loop = loop_of(desk, tmp_path / "state")
    again.apply(loop.first())
    assert again.applied[-1].documents != good
    loop.begin(again)
    assert again.applied[1].documents == good
    loop.stop()


def test_while_the_registry_is_away_the_last_good_snapshot_is_what_a_server_starts_with(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plane = Paper()
    desk.promote(desk.ready())
    loop = started(desk, tmp_path / "state", plane)
    loop.stop()
    desk.home.folder.rename(tmp_path / "away")
    loop = loop_of(desk, tmp_path / "state")
    started_with = loop.first()
    assert started_with.index == plane.applied[-1].index
    assert started_with.signature is not None
    with pytest.raises(FlyballError):
        loop.tick(plane)
    assert "serving the last good snapshot" in capsys.readouterr().err
    (tmp_path / "away").rename(desk.home.folder)
    loop.tick(plane)
    assert "reachable again" in capsys.readouterr().err


def test_a_server_without_registry_and_without_a_last_good_snapshot_does_not_start(desk: Desk, tmp_path: Path) -> None:
    desk.home.folder.rename(tmp_path / "away")
    with pytest.raises(FlyballError, match="there is no registry in"):
        loop_of(desk, tmp_path / "state").first()


def test_a_registry_that_lost_its_events_is_not_followed(desk: Desk, tmp_path: Path) -> None:
    plane = Paper()
    desk.promote(desk.ready())
    loop = started(desk, tmp_path / "state", plane)
    loop.stop()
    desk.registry.close()
    for file in desk.home.folder.glob("registry.db*"):
        file.unlink()
    loop = loop_of(desk, tmp_path / "state")
    assert names(loop.first()) == ["fraud"]
    with pytest.raises(RegistryBrokenError, match="is not the one that was followed"):
        loop.tick(plane)


def test_what_is_revoked_while_it_serves_is_taken_away_and_told(desk: Desk, tmp_path: Path) -> None:
    plane = Paper()
    ref = desk.ready()
    desk.promote(ref)
    loop = started(desk, tmp_path / "state", plane)
    desk.registry.revoke(ref, actor=ADA, reason="leaked labels", stop=True)
    loop.tick(plane)
    assert names(plane.applied[-1]) == []
    node = desk.registry.status().nodes[0]
    assert (node.state, node.reason) == ("refused", "revoked: fraud@1 is revoked: leaked labels")


def test_a_new_trust_policy_is_taken_and_everything_judged_by_it_once_servers_have_read_it(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flyball.control.step.TRUST_READ_S", 0.0)
    plane = Paper()
    desk.promote(desk.ready())
    loop = started(desk, tmp_path / "state", plane)
    before = len(plane.applied)
    desk.trust(desk.policy.with_minimum("fraud", 2, 1_800_000_000))
    loop.tick(plane)
    loop.tick(plane)
    assert loop.state.trust_policy.read_bytes() == desk.home.trust.read_bytes()
    assert len(plane.applied) == before + 1


def test_an_older_policy_or_one_of_another_root_is_not_taken_and_promotions_go_on(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plane = Paper()
    first, older = desk.ready(), desk.policy
    desk.trust(older.with_minimum("fraud", 1, 1_800_000_000))
    loop = started(desk, tmp_path / "state", plane)
    held = loop.state.trust_policy.read_bytes()
    desk.trust(older)
    desk.promote(first)
    for _ in range(2):
        loop.tick(plane)
    assert capsys.readouterr().err.count("trust_downgrade") == 1
    assert names(plane.applied[-1]) == ["fraud"]
    stranger = keys.generate()
    desk.home.trust.write_bytes(sign_policy(TrustPolicy.first(1_700_000_000), [stranger]))
    desk.home.trust_root.write_text(keys.public_pem(stranger.public_key()))
    loop.tick(plane)
    assert "unknown_key" in capsys.readouterr().err
    assert loop.state.trust_policy.read_bytes() == held


def test_two_processes_do_not_share_a_state_folder(desk: Desk, tmp_path: Path) -> None:
    loop = loop_of(desk, tmp_path / "state")
    with pytest.raises(LockedError, match="another process"):
        loop_of(desk, tmp_path / "state")
    loop.stop()
    loop_of(desk, tmp_path / "state").stop()


def test_a_process_that_ended_between_the_signature_and_the_index_leaves_a_whole_snapshot(
    desk: Desk, tmp_path: Path
) -> None:
    plane = Paper()
    loop = started(desk, tmp_path / "state", plane)
    before = (tmp_path / "state" / "last-good" / "index.json").read_bytes()
    desk.promote(desk.ready())
    loop.tick(plane)
    (tmp_path / "state" / "last-good" / "index.json").write_bytes(before)
    kept = loop.state.last_good()
    assert kept is not None
    assert names(kept) == ["fraud"]
    assert len(kept.documents) == 1


def test_packages_that_nothing_names_are_dropped_but_for_the_newest(desk: Desk, tmp_path: Path) -> None:
    plane = Paper()
    loop = started(desk, tmp_path / "state", plane)
    for _ in range(11):
        desk.registry.promote(desk.ready(), "production", actor=ADA, break_glass=True, reason="a test in a hurry")
        loop.tick(plane)
    there = {path.name for path in (tmp_path / "state" / "packages").iterdir()}
    assert len(there) == 1 + 1 + 8, "what serves, what is still warm, and some more"
    assert desk.registry.show("fraud@production").root.removeprefix("sha256:") in there


def test_a_version_that_was_placed_by_breaking_the_glass_is_told_by_the_servers_log(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plane = Paper()
    loop = started(desk, tmp_path / "state", plane)
    desk.registry.promote(desk.ready(), "production", actor=ADA, break_glass=True, reason="the old one is down")
    loop.tick(plane)
    told = capsys.readouterr().err
    assert "placed by breaking the glass" in told
    assert "ada: the old one is down" in told
