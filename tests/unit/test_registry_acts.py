"""Acts on a real registry: signatures that do not hold, refusals that are kept, people who act at once."""

import json
import pickle
import time
from pathlib import Path
from typing import Any

import pytest

from flyball.errors import (
    FlyballError,
    GateRefusedError,
    InvalidInputError,
    ModelRefusedError,
    NotFoundError,
    RegistryConflictError,
    RegistryRefusedError,
    SignatureError,
    UsageError,
)
from flyball.registry.acts import rules
from flyball.registry.acts.interface import Actor, Candidate
from flyball.registry.acts.signatures import approval, signed
from flyball.registry.events import verify
from flyball.registry.packages.meta import Card, LatencyContract, Lineage
from flyball.registry.packages.pack import Contents, pack
from tests.support import onnx_models
from tests.support.registry_people import ADA, BOB, CID, ENVIRONMENTS, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def refused(error: Any) -> str:
    return str(error.value.code)


def test_a_version_has_everything_that_was_said_about_it(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"inputs": []}')
    ref = desk.register(
        samples=[tmp_path / "one.json"],
        card=Card(owner="risk@example.com", purpose="scores", tier="high", validation_due="2027-01-01"),
        metrics={"auc": 0.91},
        lineage=Lineage(data="sha256:1", code="abc", parameters={"trees": 50}),
        contract=LatencyContract(p99_ms=5, rate_per_s=200),
    )
    shown = desk.registry.show(ref)
    assert (shown.tier, shown.author, shown.state, shown.approvals_needed) == ("high", "ada", "registered", 2)
    assert [file.name for file in shown.files] == ["meta.json", "model.onnx", "samples/one.json"]
    assert shown.meta["lineage"]["parameters"] == {"trees": 50}
    assert shown.meta["models"][0]["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]


def test_who_approved_and_who_promoted_and_why_stands_in_the_history(desk: Desk) -> None:
    ref = desk.ready()
    desk.promote(ref)
    events = desk.registry.history("fraud")
    assert [event.kind for event in events] == ["registered", "signed", "approved", "promoted", "promoted", "promoted"]
    assert events[2].body["approver"] == "bob"
    assert events[-1].reason == "it is better"
    assert [gate["gate"] for gate in events[-1].body["evidence"]] == ["signatures", "scan", "validation", "probe"]
    moment = desk.registry.at(events[-1].at)
    served = [(environment, 1, ["bob"]) for environment in ENVIRONMENTS]  # in their order, not in that of the alphabet
    assert [(one.environment, one.version, one.approvers) for one in moment.placements] == served
    assert [one.environment for one in desk.registry.status().placements] == list(ENVIRONMENTS)
    assert not desk.registry.at(events[0].at).placements


def test_a_refused_act_is_an_event_and_changes_nothing(desk: Desk) -> None:
    ref = desk.register()
    with pytest.raises(GateRefusedError) as error:
        desk.registry.promote(ref, "dev", actor=ADA)
    assert refused(error) == "not_signed"
    last = desk.registry.history("fraud")[-1]
    assert (last.kind, last.actor) == ("refused", "ada")
    assert last.body == {"act": "promote", "code": "not_signed", "words": "fraud@1 is not signed"}
    with pytest.raises(NotFoundError):
        desk.registry.promote("other@1", "dev", actor=ADA)
    assert desk.registry.history()[-1].name == "@refused"


def test_the_author_cannot_approve_with_any_key(desk: Desk) -> None:
    ref = desk.register()
    desk.sign(ref)
    ada, bob = Actor("ada", authenticated="api-key"), Actor("bob", authenticated="api-key")
    for by, actor in (("ada", ADA), ("ada", bob), ("bob", ada)):
        with pytest.raises(GateRefusedError) as error:
            desk.approve(ref, by=by, actor=actor)
        assert refused(error) == "own_approval"


def test_an_approval_is_by_a_key_that_may_approve_and_over_this_very_release(desk: Desk) -> None:
    first, second = desk.register(), desk.register()
    desk.sign(first)
    desk.sign(second)
    with pytest.raises(SignatureError) as error:
        desk.approve(first, by="publisher")
    assert error.value.reason == "wrong_role"
    other = approval(desk.registry.show(second), desk.registry.release(second), desk.keys["bob"])
    with pytest.raises(SignatureError) as error:
        desk.registry.approve(first, signature=other.signature, key=other.key, actor=BOB)
    assert error.value.reason == "bad_signature"


def test_a_signature_over_other_files_or_by_a_stranger_is_not_kept(desk: Desk) -> None:
    first, second = desk.register(), desk.register()
    registry = desk.registry

    def made(ref: str, by: str = "ada") -> tuple[bytes, bytes]:
        return signed(
            registry.show(ref),
            registry.statement(ref),
            desk.keys[by],
            environments=["dev"],
            not_after=int(time.time()) + 86_400,
        )

    bundle, _ = made(second)
    _, release = made(first)
    with pytest.raises(SignatureError) as error:
        registry.sign(first, bundle=bundle, release=release, actor=ADA)
    assert error.value.reason == "root_mismatch"
    bundle, _ = made(first)
    _, release = made(second)
    with pytest.raises(SignatureError) as error:
        registry.sign(first, bundle=bundle, release=release, actor=ADA)
    assert error.value.reason == "wrong_subject"
    bundle, release = made(first, by="bob")
    with pytest.raises(SignatureError) as error:
        registry.sign(first, bundle=bundle, release=release, actor=BOB)
    assert error.value.reason == "wrong_role"
    assert registry.show(first).state == "registered"


def test_a_release_for_an_environment_that_there_is_not_or_by_another_than_who_signed_the_files_is_not_kept(
    desk: Desk,
) -> None:
    ref = desk.register()
    with pytest.raises(SignatureError) as error:
        desk.sign(ref, environments=["production", "moon"])
    assert error.value.reason == "wrong_environment"
    registry = desk.registry
    shown, stated = registry.show(ref), registry.statement(ref)
    bundle, _ = signed(shown, stated, desk.keys["ada"], environments=["dev"], not_after=int(time.time()) + 86_400)
    _, release = signed(shown, stated, desk.keys["bob"], environments=["dev"], not_after=int(time.time()) + 86_400)
    with pytest.raises(SignatureError) as error:
        registry.sign(ref, bundle=bundle, release=release, actor=ADA)
    assert error.value.reason == "wrong_subject"


def test_a_release_that_names_another_model_than_the_registry_would_serve_is_not_kept(desk: Desk) -> None:
    ref = desk.register()
    shown, stated = desk.registry.show(ref), desk.registry.statement(ref)
    model = next(file.digest for file in shown.files if file.name == "model.onnx")
    assert stated.models == {"1": model}
    for other in ({"1": f"sha256:{'0' * 64}"}, {"2": model}, {"1": model, "2": model}):
        wrong = stated.model_copy(update={"models": other})
        bundle, release = signed(shown, wrong, desk.keys["ada"], environments=["dev"], not_after=int(time.time()) + 86_400)
        with pytest.raises(SignatureError) as error:
            desk.registry.sign(ref, bundle=bundle, release=release, actor=ADA)
        assert error.value.reason == "wrong_digest"


def test_two_who_promote_at_once_one_wins_and_the_other_is_told_who_did_what(desk: Desk) -> None:
    first, second = desk.ready(), desk.ready()
    other = desk.opened()
    seen = other.handle.state("fraud")
    desk.registry.promote(first, "dev", actor=ADA, reason="mine")
    house = other.handle.approval_rules()
    slower = rules.promote(seen, house, CID, rules.Promotion(2, "dev"), [])
    with pytest.raises(RegistryConflictError) as error:
        other._once(seen, CID, "", slower)
    assert "ada (not authenticated) promoted fraud@1 to dev" in str(error.value)
    other.promote(second, "dev", actor=CID)
    assert other.status().placements[0].version == 2


def test_two_who_register_at_once_both_get_a_number(desk: Desk, tmp_path: Path) -> None:
    other = desk.opened()
    other.handle.state("fraud")
    desk.register()
    source = tmp_path / "source"
    source.mkdir()
    pack(Contents("fraud", "cid", model=onnx_models.linear(source, seed=9)), tmp_path / "other")
    assert other.register(tmp_path / "other", "fraud", actor=CID).version == 2


def test_a_candidate_is_placed_beside_and_taken_away_by_a_rollback(desk: Desk) -> None:
    first, second = desk.ready(), desk.ready()
    desk.promote(first)
    desk.promote(second, "staging")
    desk.registry.promote(second, "production", actor=ADA, candidate=Candidate(0.1))
    placed = next(one for one in desk.registry.status("fraud").placements if one.environment == "production")
    assert placed.candidate is not None
    assert (placed.version, placed.candidate.version, placed.candidate.share) == (1, 2, 0.1)
    receipt = desk.registry.rollback("fraud", "production", actor=ADA, reason="it flips too much")
    assert (receipt.version, receipt.previous) == (1, 2)


def test_a_revoked_version_is_refused_with_the_reason_of_its_revocation(desk: Desk) -> None:
    ref = desk.ready()
    desk.registry.revoke(ref, actor=BOB, reason="trained on leaked labels")
    with pytest.raises(GateRefusedError, match="trained on leaked labels") as error:
        desk.registry.promote(ref, "dev", actor=ADA)
    assert refused(error) == "revoked"
    assert desk.registry.show(ref).state == "revoked"


def test_a_name_that_differs_only_in_case_is_refused(desk: Desk) -> None:
    desk.register("fraud")
    with pytest.raises(RegistryRefusedError, match="differs only in case"):
        desk.register("Fraud")


@pytest.mark.parametrize("name", ["fraud\n", ".fraud", "fraud@1", "a/b", ""])
def test_what_cannot_be_a_name_is_refused(desk: Desk, tmp_path: Path, name: str) -> None:
    with pytest.raises(RegistryRefusedError, match="cannot be a name"):
        desk.registry.register(tmp_path, name, actor=ADA)


def test_a_reference_to_nothing_says_what_there_is(desk: Desk) -> None:
    desk.register()
    for ref, kind in (
        ("fraud", UsageError),
        ("fraud@9", NotFoundError),
        ("fraud@champion", NotFoundError),
        ("a@1", NotFoundError),
    ):
        with pytest.raises(kind):
            desk.registry.show(ref)


def test_an_alias_leads_to_a_version_and_its_history_is_kept(desk: Desk) -> None:
    desk.register()
    desk.register()
    desk.registry.alias("fraud", "champion", 1, actor=ADA)
    desk.registry.alias("fraud", "champion", 2, actor=ADA, reason="measured better")
    assert desk.registry.show("fraud@champion").number == 2
    moves = [event.body for event in desk.registry.history("fraud") if event.kind == "aliased"]
    assert [(move["previous"], move["version"]) for move in moves] == [(None, 1), (1, 2)]


@pytest.mark.parametrize("name", ["model.pkl", "model.onnx", "model.joblib"])
def test_a_pickle_gets_no_number_whatever_it_is_called(desk: Desk, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ModelRefusedError, match="skl2onnx"):
        desk.register(model=tmp_path / name)
    assert desk.registry.names() == []


def test_a_pickle_beside_a_model_is_refused_and_told_in_the_history(desk: Desk, tmp_path: Path) -> None:
    made = tmp_path / "package"
    pack(Contents("fraud", "ada", model=onnx_models.linear(tmp_path)), made)
    (made / "extra.pkl").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ModelRefusedError, match="skl2onnx"):
        desk.registry.register(made, "fraud", actor=ADA)
    last = desk.registry.history()[-1]
    assert (last.kind, last.body["act"], last.body["code"]) == ("refused", "register", "model_refused")


def test_a_package_of_another_name_or_without_a_meta_is_refused(desk: Desk, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    pack(Contents("other", "ada", model=onnx_models.linear(source)), tmp_path / "package")
    with pytest.raises(RegistryRefusedError, match=r"its meta\.json is of other"):
        desk.registry.register(tmp_path / "package", "fraud", actor=ADA)
    with pytest.raises(RegistryRefusedError, match=r"has no meta\.json"):
        desk.registry.register(source, "fraud", actor=ADA)


def test_a_link_in_a_folder_is_not_followed(desk: Desk, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    onnx_models.linear(source, "model")
    (source / "secrets").symlink_to("/etc/hostname")
    with pytest.raises(InvalidInputError, match="is a link"):
        desk.register(folder=source)


def test_verify_names_an_artifact_that_is_gone(desk: Desk) -> None:
    ref = desk.ready()
    assert desk.registry.verify().findings == []
    digest = next(file.digest for file in desk.registry.show(ref).files if file.name == "model.onnx")
    blob = next(desk.home.folder.rglob(digest.removeprefix("sha256:")))
    blob.unlink()
    for quick in (False, True):
        assert desk.registry.verify(quick=quick).findings == [f"fraud@1: {digest} is not in the artifact store"]


def test_verify_reads_the_bytes_unless_it_is_to_be_quick(desk: Desk) -> None:
    ref = desk.ready()
    digest = next(file.digest for file in desk.registry.show(ref).files if file.name == "model.onnx")
    blob = next(desk.home.folder.rglob(digest.removeprefix("sha256:")))
    blob.chmod(0o600)
    blob.write_bytes(b"other bytes")
    (finding,) = desk.registry.verify().findings
    assert finding.startswith(f"fraud@1: {digest} is damaged")
    quick = desk.registry.verify(quick=True)
    assert (quick.findings, quick.quick) == ([], True)


def test_verify_gives_the_head_that_it_reached(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.register()
    before, whole = desk.registry.head(), verify.verify

    def meanwhile(database: Any) -> Any:
        verdict = whole(database)
        desk.register()
        return verdict

    monkeypatch.setattr(verify, "verify", meanwhile)
    assert desk.registry.verify().head == before
    assert desk.registry.head() != before


def test_status_says_what_waits_for_whom(desk: Desk) -> None:
    desk.register()
    assert [(one.number, one.state) for one in desk.registry.status().waiting] == [(1, "registered")]
    desk.sign("fraud@1")
    assert [(one.state, one.approvals_needed) for one in desk.registry.status().waiting] == [("signed", 1)]
    desk.approve("fraud@1")
    assert desk.registry.status().waiting == []
    assert desk.registry.names()[0].state == "approved"


def test_roles_of_an_actor_are_held_to(desk: Desk) -> None:
    ref = desk.ready()
    reader = Actor("eve", frozenset({"reader"}))
    with pytest.raises(FlyballError) as error:
        desk.registry.promote(ref, "dev", actor=reader)
    assert refused(error) == "forbidden"
    assert json.loads(desk.registry.history("fraud")[-1].model_dump_json())["actor"] == "eve"
