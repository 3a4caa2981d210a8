"""Environments compiled to snapshots: the same bytes wherever and whenever, and nothing that may not serve."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from flyball.control.compile import Compiler, Snapshot
from flyball.documents.snapshot import check
from flyball.registry.acts.interface import Candidate
from flyball.registry.acts.rules import VERSIONS_MAX
from flyball.registry.packages.deployment import model_version
from flyball.signing.strict import seconds
from flyball.signing.trust import Trust
from tests.support import decision_folders
from tests.support.registry_people import ADA, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def compiled(desk: Desk, folder: Path, environment: str = "production") -> Snapshot:
    return Compiler(desk.opened().handle, environment, folder).compile()


def document(snapshot: Snapshot, name: str = "fraud") -> dict[str, Any]:
    content: dict[str, Any] = json.loads(snapshot.documents[name])
    return content


def test_a_rollback_gives_the_very_bytes_of_before_in_every_folder(desk: Desk, tmp_path: Path) -> None:
    desk.promote(desk.ready())
    first = compiled(desk, tmp_path / "one")
    desk.promote(desk.ready())
    second = compiled(desk, tmp_path / "one")
    desk.registry.rollback("fraud", "production", actor=ADA)
    third = compiled(desk, tmp_path / "two")
    assert first.documents == third.documents
    assert first.documents != second.documents
    assert first.checkpoint.sequence < second.checkpoint.sequence < third.checkpoint.sequence


def test_a_document_is_sound_and_its_files_lie_in_the_package_that_was_signed(desk: Desk, tmp_path: Path) -> None:
    ref = desk.ready()
    desk.promote(ref)
    snapshot = compiled(desk, tmp_path / "state")
    made = document(snapshot)
    assert check("deployment", snapshot.documents["fraud"]) == []
    root = desk.registry.show(ref).root.removeprefix("sha256:")
    assert made["versions"][0]["artifact"]["path"] == f"packages/{root}/model.onnx"
    assert made["signed"]["packages"][0]["folder"] == f"packages/{root}"
    assert len(made["signed"]["release"]["signatures"]) == 2
    model = tmp_path / "state" / made["versions"][0]["artifact"]["path"]
    assert model.stat().st_mode & 0o777 == 0o400
    assert made["route"] == {"version": "1"}


def test_an_index_is_signed_by_the_publisher_and_says_which_event_it_is_of(desk: Desk, tmp_path: Path) -> None:
    desk.promote(desk.ready())
    bundle = compiled(desk, tmp_path).bundle(tmp_path, desk.keys["publisher"])
    assert bundle.faults() == []
    now = seconds("2026-11-16T04:00:00Z")
    later = max(now, *(seconds(key.since) for key in desk.policy.keys)) + 1
    trust = Trust(desk.home.trust.read_bytes(), [desk.root.public_key()], later)
    trust.check_index(bundle.index, bundle.signature, later)
    assert [key.name for key in trust.signers("index", bundle.signature or b"", later)] == ["publisher"]
    index = bundle.parsed_index()
    last = desk.registry.history("fraud")[-1]
    assert (index.generation, index.environment) == (last.sequence, "production")
    assert index.registry is not None
    assert (index.registry.sequence, index.registry.hash) == (last.sequence, f"sha256:{last.hash}")


def test_refusals_and_other_names_do_not_change_an_environments_index(desk: Desk, tmp_path: Path) -> None:
    desk.promote(desk.ready())
    before = compiled(desk, tmp_path)
    desk.register("other")
    with pytest.raises(Exception, match="no version"):
        desk.registry.promote("fraud@9", "dev", actor=ADA)
    assert compiled(desk, tmp_path) == before


def test_a_candidate_stands_beside_with_signatures_of_its_own(desk: Desk, tmp_path: Path) -> None:
    desk.promote(desk.ready())
    second = desk.ready()
    desk.promote(second, "staging")
    desk.registry.promote(second, "production", actor=ADA, candidate=Candidate(0.25))
    snapshot = compiled(desk, tmp_path)
    made = document(snapshot)
    assert check("deployment", snapshot.documents["fraud"]) == []
    assert (made["signed"]["version"], made["candidate"]["signed"]["version"]) == (1, 2)
    assert [version["version"] for version in made["candidate"]["versions"]] == ["2"]
    assert (made["candidate"]["share"], made["candidate"]["shadow"]) == (0.25, False)


def test_what_was_revoked_while_it_served_is_compiled_no_more_and_others_go_on(desk: Desk, tmp_path: Path) -> None:
    first, other = desk.ready(), desk.ready("other")
    desk.promote(first)
    desk.promote(other)
    desk.registry.revoke(first, actor=ADA, reason="leaked labels", stop=True)
    snapshot = compiled(desk, tmp_path)
    assert set(snapshot.documents) == {"other"}
    assert snapshot.refusals["fraud"].code == "revoked"
    assert "leaked labels" in snapshot.refusals["fraud"].message


def test_a_damaged_artifact_stops_its_own_name_alone(desk: Desk, tmp_path: Path) -> None:
    first, other = desk.ready(), desk.ready("other")
    desk.promote(first)
    desk.promote(other)
    digest = next(file.digest for file in desk.registry.show(first).files if file.name == "model.onnx")
    blob = next(desk.home.folder.rglob(digest.removeprefix("sha256:")))
    blob.chmod(0o600)
    blob.write_bytes(b"other bytes")
    snapshot = compiled(desk, tmp_path)
    assert set(snapshot.documents) == {"other"}
    assert snapshot.refusals["fraud"].code == "artifact_damaged"


def test_an_environment_that_serves_nothing_is_an_empty_snapshot(desk: Desk, tmp_path: Path) -> None:
    bundle = compiled(desk, tmp_path, "dev").bundle(tmp_path, desk.keys["publisher"])
    assert bundle.faults() == []
    assert bundle.parsed_index().deployments == []


def test_models_of_a_version_with_several_are_numbered_by_their_place_and_its_number(desk: Desk, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    decision_folders.fraud_model(source, "old", decision_folders.PLAIN_COLUMNS)
    spec = decision_folders.PLAIN.replace('score: "probabilities[1]"}', 'score: "probabilities[1]", previous: old.onnx}')
    desk.promote(desk.ready("plain", decision=decision_folders.plain(source, spec)))
    snapshot = compiled(desk, tmp_path / "state")
    made = document(snapshot, "plain")
    assert [one["version"] for one in made["versions"]] == ["1000001", "2000001"]
    assert made["route"] == {"version": "1000001"}
    assert check("deployment", snapshot.documents["plain"]) == []


def test_no_model_of_one_version_has_the_number_of_another_version_or_of_its_model() -> None:
    numbers = [*range(1, 1000), *range(9_990, 10_200), *range(VERSIONS_MAX - 10, VERSIONS_MAX + 1)]
    seen = [model_version(number, place) for number in numbers for place in (None, *range(1, 17))]
    assert len(set(seen)) == len(seen)
    for version in seen:
        assert re.fullmatch("[1-9][0-9]{0,8}", version)
