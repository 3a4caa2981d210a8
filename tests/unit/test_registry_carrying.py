"""Versions that come from another site, or from another tool: judged as if they were made here, kept whole or not at all."""

import time
from pathlib import Path
from typing import Any

import pytest

from flyball.errors import FlyballError, RegistryConflictError, SignatureError
from flyball.registry import transfer
from flyball.registry.acts.interface import Actor
from flyball.registry.handle import RegistryHandle
from flyball.registry.local import LocalRegistry
from flyball.registry.packages import check
from flyball.registry.packages.meta import Lineage
from flyball.registry.tables import projections
from flyball.signing import keys
from flyball.signing.release import countersign
from tests.support import onnx_models
from tests.support.registry_people import ADA, BOB, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "here")


def elsewhere(desk: Desk, folder: Path) -> LocalRegistry:
    """A registry at another site, with the same trust policy."""
    other = Desk(folder)
    other.home.trust_root.write_bytes(desk.home.trust_root.read_bytes())
    other.home.trust.write_bytes(desk.home.trust.read_bytes())
    return other.registry


class Countersigned:
    """A registry whose releases have one signature more than its events."""

    def __init__(self, registry: LocalRegistry, key: keys.PrivateKey) -> None:
        self._registry, self._key = registry, key

    def __getattr__(self, name: str) -> Any:
        return getattr(self._registry, name)

    def release(self, ref: str) -> bytes:
        return countersign(self._registry.release(ref), self._key)


@pytest.mark.parametrize("person", ["ada", "bob", "eve"])
def test_an_approval_that_counts_for_nothing_is_not_imported(desk: Desk, tmp_path: Path, person: str) -> None:
    """The author with a second key, an approver with a second key, and somebody who may only sign."""
    ref, extra, now = desk.ready(), keys.generate(), int(time.time()) - 60
    roles: list[Any] = ["signer"] if person == "eve" else ["approver"]
    desk.trust(desk.policy.with_key(extra.public_key(), person, roles, since=now, until=None, now=now))
    file = tmp_path / "fraud.flyball"
    carried: Any = Countersigned(desk.registry, extra)
    transfer.export(carried, ref, file, desk.keys["ada"])
    there = elsewhere(desk, tmp_path / "there")
    there.import_file(file, actor=ADA)
    assert [event.body["approver"] for event in there.history("fraud") if event.kind == "approved"] == ["bob"]
    there.promote("fraud@1", "dev", actor=ADA)


def test_whoever_imports_a_signature_did_not_make_it(desk: Desk, tmp_path: Path) -> None:
    ref, file = desk.ready(), tmp_path / "fraud.flyball"
    transfer.export(desk.registry, ref, file, desk.keys["ada"])
    there = elsewhere(desk, tmp_path / "there")
    there.import_file(file, actor=Actor("eve"))
    told = {event.kind: (event.actor, event.authenticated) for event in there.history("fraud")}
    assert told == {
        "registered": ("eve", "none"), "imported": ("eve", "none"), "signed": ("ada", "key"), "approved": ("bob", "key")
    }  # fmt: skip
    assert {event.body.get("submitted_by") for event in there.history("fraud")} == {None, "eve"}


def test_what_is_imported_is_scanned_as_what_is_registered(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    onnx_models.linear(source).rename(source / "model.onnx")
    (source / "extra.pkl").write_bytes(b"\x80\x04N.")
    with monkeypatch.context() as careless:
        careless.setattr(check, "scan_package", lambda folder: 0)
        ref = desk.ready(folder=source)
    file = tmp_path / "fraud.flyball"
    transfer.export(desk.registry, ref, file, desk.keys["ada"])
    there = elsewhere(desk, tmp_path / "there")
    with pytest.raises(FlyballError, match="pickle"):
        there.import_file(file, actor=ADA)
    assert there.names() == []


@pytest.mark.parametrize(
    ("other", "words"),
    [({"tier": "low"}, "tier low"), ({"models": {"1": f"sha256:{'0' * 64}"}}, "wrong_digest: the model 1 is not the one")],
)
def test_a_release_with_another_tier_or_model_than_its_package_is_not_imported(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any], words: str
) -> None:
    statement = RegistryHandle.statement

    def changed(opened: RegistryHandle, name: str, version: Any) -> Any:
        predicate, subjects = statement(opened, name, version)
        return {**predicate, **other}, subjects

    with monkeypatch.context() as patched:
        patched.setattr(RegistryHandle, "statement", changed)
        ref = desk.ready()
    file = tmp_path / "fraud.flyball"
    transfer.export(desk.registry, ref, file, desk.keys["ada"])
    with pytest.raises(SignatureError, match=words):
        elsewhere(desk, tmp_path / "there").import_file(file, actor=ADA)


def test_a_version_and_where_it_came_from_are_kept_together_or_not_at_all(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = projections.apply

    def killed(connection: Any, event: Any) -> None:
        if event.kind == "imported":
            raise KeyboardInterrupt
        whole(connection, event)

    lineage = Lineage(source="models:/fraud/3")
    with monkeypatch.context() as patched:
        patched.setattr(projections, "apply", killed)
        with pytest.raises(KeyboardInterrupt):
            desk.register(lineage=lineage)
    assert desk.registry.history() == []
    assert desk.register(lineage=lineage) == "fraud@1"
    assert desk.kinds() == ["registered", "imported"]
    assert desk.registry.history()[-1].body == {"version": 1, "from": "models:/fraud/3"}


def test_of_two_who_add_a_key_with_one_name_at_once_one_is_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    slower, seen = desk.opened(), []

    def meanwhile() -> Any:
        seen.append(LocalRegistry.keys(slower))
        desk.registry.add_key("ci", ["reader"], actor=BOB)
        return seen[0]

    monkeypatch.setattr(slower, "keys", meanwhile)
    with pytest.raises(RegistryConflictError, match="changed meanwhile"):
        slower.add_key("ci", ["deployer"], actor=ADA)
    assert seen == [[]]
    (kept,) = desk.registry.keys()
    assert kept.roles == {"reader"}
