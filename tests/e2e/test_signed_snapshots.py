"""What is signed, and what is not: a server takes only what its trust policy allows, and whatever it refuses, the version
that served before goes on.
"""

import base64
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flyball.native.journal import JournalLog
from flyball.signing import dsse, release
from flyball.signing.reasons import Reason
from flyball.signing.strict import written
from tests.support import onnx_models, serving, signers, snapshots
from tests.support.serving import Server, until
from tests.support.signed_server import Desk, Json
from tests.support.signers import DAY_S, Office, changed
from tests.support.wire import Http, metrics


@pytest.fixture
def desk(start: Callable[..., Server], tmp_path: Path) -> Desk:
    return Desk(tmp_path, start, serving.flyballd(unsigned=False))


@pytest.mark.parametrize("program", ["flyball", "flyballd"])
def test_a_signed_snapshot_is_served_and_told_with_those_who_approved_it(
    start: Callable[..., Server], tmp_path: Path, program: str
) -> None:
    command = serving.flyballd(unsigned=False) if program == "flyballd" else serving.serve_snapshot(unsigned=False)
    desk = Desk(tmp_path, start, command)
    assert desk.serves(desk.first)
    (line,) = desk.deployments()["deployments"]
    assert (line["state"], line["version"], line["generation"], line["reason"]) == ("applied", "1", 1, None)
    assert line["signed"] == {"name": "fraud", "version": 1, "approvers": ["ben"]}
    assert metrics(desk.server).sum("flyball_unsigned_deployments") == 0
    desk.publish(desk.office.deployment("fraud", 2, desk.second, approved_by=["ben", "cara"]))
    until("the watched snapshot is applied", lambda: desk.applied(desk.second) or None)
    assert desk.deployments()["deployments"][0]["signed"]["approvers"] == ["ben", "cara"]
    assert desk.server.stop().code == 0


@pytest.mark.parametrize("program", ["flyball", "flyballd"])
def test_without_trust_a_snapshot_is_not_served_and_the_way_out_is_told(tmp_path: Path, program: str) -> None:
    index = snapshots.write(tmp_path, 1, [snapshots.deployment("m", onnx_models.linear(tmp_path, "m", seed=1))])
    command = serving.flyballd(unsigned=False) if program == "flyballd" else serving.serve_snapshot(unsigned=False)
    ending = serving.run([*command, "--snapshot", str(index), "--listen", "127.0.0.1:0"])
    assert ending.code == 3
    words = " ".join(ending.text.split())
    assert "trusts nobody" in words
    assert "--trust-root" in words
    assert "--unsigned allow" in words


def test_what_nobody_signed_is_refused_at_the_start_although_the_index_is_signed(tmp_path: Path) -> None:
    office = Office(tmp_path)
    plain = snapshots.deployment("m", onnx_models.linear(tmp_path, "m", seed=1))
    index = office.write(tmp_path / "s", 1, [plain])
    command = [*serving.flyballd(unsigned=False), "--snapshot", str(index), "--listen", "127.0.0.1:0", *office.flags]
    ending = serving.run(command)
    assert ending.code == 3
    assert "unsigned: 'm' is not signed" in ending.text


def test_what_is_unsigned_and_allowed_is_loud(start: Callable[..., Server], tmp_path: Path) -> None:
    index = snapshots.write(tmp_path, 1, [snapshots.deployment("m", onnx_models.linear(tmp_path, "m", seed=1))])
    server = start(*serving.flyballd(), "--snapshot", index, "--listen", "127.0.0.1:0")
    line = server.log_line(lambda fields: "unsigned deployments are serving" in str(fields))
    assert line["level"] == "WARN"
    assert metrics(server).sum("flyball_unsigned_deployments") == 1
    with Http(server) as connection:
        assert connection.get("/v1/deployments").json["deployments"][0]["signed"] == "unsigned"
    loud = len([line for line in server.log.all() if "unsigned deployments are serving" in line])
    server.signal(signal.SIGHUP)
    until("the next snapshot is loud, too", lambda: len(
        [line for line in server.log.all() if "unsigned deployments are serving" in line]) > loud or None)  # fmt: skip


def second(desk: Desk) -> Json:
    return desk.office.deployment("fraud", 2, desk.second)


def changed_byte(desk: Desk) -> Json:
    document = second(desk)
    (desk.office.folder / "packages/fraud-2/meta.json").write_text("{}")
    return document


def missing(desk: Desk) -> Json:
    document = second(desk)
    (desk.office.folder / "packages/fraud-2/meta.json").unlink()
    return document


def extra(desk: Desk) -> Json:
    document = second(desk)
    (desk.office.folder / "packages/fraud-2/more.onnx").write_bytes(b"")
    return document


def link(desk: Desk) -> Json:
    document = second(desk)
    folder = desk.office.folder / "packages/fraud-2"
    (folder / "meta.json").rename(desk.office.folder / "elsewhere.json")
    (folder / "meta.json").symlink_to(desk.office.folder / "elsewhere.json")
    return document


def pipe(desk: Desk) -> Json:
    document = second(desk)
    os.mkfifo(desk.office.folder / "packages/fraud-2/pipe")
    return document


def another_model(desk: Desk) -> Json:
    """The bytes that the document names are there and verified, and in no package."""
    document = second(desk)
    return changed(document, "versions", 0, "artifact", "path", to=str(desk.second))


def pointed(document: Json, place: int, file: Path) -> Json:
    """With another file as the model of a version; its digest is right."""
    artifact = {"path": str(file), "digest": snapshots.digest(file.read_bytes())}
    return changed(document, "versions", place, "artifact", to=artifact)


def an_old_experiment(desk: Desk) -> Json:
    """Everything is signed and approved; but which of the package's models answers was said by the publisher alone."""
    folder = desk.office.package("fraud", 2, desk.second)
    shutil.copyfile(desk.first, folder / "old-experiment.onnx")
    document = snapshots.deployment("fraud", folder / "model.onnx", versions={"2": folder / "model.onnx"})
    document = {**document, "signed": desk.office.signed("fraud", 2, folder)}
    return pointed(document, 0, folder / "old-experiment.onnx")


def two_models(desk: Desk) -> Json:
    """A version with two models, both released."""
    folder = desk.office.package("fraud", 2, desk.second)
    shutil.copyfile(desk.first, folder / "other.onnx")
    versions = {"201": folder / "model.onnx", "202": folder / "other.onnx"}
    released = {version: snapshots.digest(file.read_bytes()) for version, file in versions.items()}
    document = snapshots.deployment("fraud", folder / "model.onnx", versions=versions)
    return {**document, "signed": desk.office.signed("fraud", 2, folder, stated={"models": released})}


def swapped_models(desk: Desk) -> Json:
    folder = desk.office.folder / "packages/fraud-2"
    return pointed(pointed(two_models(desk), 0, folder / "other.onnx"), 1, folder / "model.onnx")


def a_model_less(desk: Desk) -> Json:
    document = two_models(desk)
    return {**document, "versions": document["versions"][1:]}


def another_package(desk: Desk) -> Json:
    document = second(desk)
    other = desk.office.deployment("fraud", 3, desk.first)
    return changed(document, "signed", "packages", to=other["signed"]["packages"])


def escaping(desk: Desk) -> Json:
    document = second(desk)
    inside = str(desk.office.folder / "packages/fraud-2/../../second.onnx")
    return changed(document, "versions", 0, "artifact", "path", to=inside)


def without_models(desk: Desk) -> Json:
    """As releases were before they said which model answers."""
    document, key = second(desk), desk.office.keys["anna"]
    payload = json.loads(base64.b64decode(document["signed"]["release"]["payload"]))
    del payload["predicate"]["models"]
    made = dsse.sign(release.PAYLOAD_TYPE, json.dumps(payload).encode(), key).text()
    return changed(document, "signed", "release", to=json.loads(release.countersign(made, desk.office.keys["ben"])))


def bad_signature(desk: Desk) -> Json:
    document = second(desk)
    other = desk.office.deployment("fraud", 3, desk.second)["signed"]["release"]["signatures"][1]
    return changed(document, "signed", "release", "signatures", 1, to=other)


def signed_by(name: str, *approvers: str) -> Callable[[Desk], Json]:
    return lambda desk: desk.office.deployment("fraud", 2, desk.second, by=name, approved_by=approvers)


def release_of(**stated: Any) -> Callable[[Desk], Json]:
    """A release that says this; times are days from now."""

    def made(desk: Desk) -> Json:
        times = {key: written(desk.office.now + value * DAY_S) for key, value in stated.items() if key.startswith("not_")}
        return desk.office.deployment("fraud", 2, desk.second, stated={**stated, **times})

    return made


def with_change(*path: str | int, to: Any) -> Callable[[Desk], Json]:
    return lambda desk: changed(second(desk), *path, to=to)


WRONG: dict[str, tuple[str, Callable[[Desk], Json]]] = {
    "a changed byte": ("changed_file", changed_byte),
    "a missing file": ("missing_file", missing),
    "an extra file": ("extra_file", extra),
    "a link": ("symlink", link),
    "a pipe": ("special_file", pipe),
    "a model outside of its package": ("extra_file", another_model),
    "a model by a way out of its package": ("extra_file", escaping),
    "another model of the package": ("wrong_digest", an_old_experiment),
    "two models in each other's place": ("wrong_digest", swapped_models),
    "a model less than released": ("wrong_digest", a_model_less),
    "a release that names no models": ("malformed", without_models),
    "another package": ("wrong_subject", another_package),
    "an approval of something else": ("bad_signature", bad_signature),
    "a bundle that is none": ("malformed", with_change("signed", "packages", 0, "bundle", to={})),
    "a release of another kind": ("unsupported", with_change("signed", "release", "payloadType", to="text/plain")),
    "nobody's signature": ("unsigned", with_change("signed", to=None)),
    "a stranger's signature": ("unknown_key", signed_by("stranger", "ben")),
    "an approver's signature as the author's": ("wrong_role", signed_by("ben", "cara")),
    "too few approvals": ("approvals_missing", release_of(tier="high")),
    "no approval": ("approvals_missing", signed_by("anna")),
    "another environment": ("wrong_environment", release_of(environments=["staging"])),
    "a release that ended": ("expired", release_of(not_before=-2, not_after=-1)),
    "a release of tomorrow": ("not_yet_valid", release_of(not_before=1, not_after=2)),
    "a release of another name": ("wrong_name", release_of(name="other")),
    "a decision that was released and is not there": ("wrong_digest", release_of(decision="sha256:" + "1" * 64)),
}


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """One server that refuses one thing after the other."""
    running: list[Server] = []

    def start(*command: str) -> Server:
        running.append(Server(list(command)))
        return running[-1]

    yield Desk(tmp_path_factory.mktemp("busy"), start, serving.flyballd(unsigned=False))
    for server in running:
        server.kill()


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_as_it_was_signed_is_refused_with_its_reason_and_the_old_version_goes_on(busy: Desk, wrong: str) -> None:
    reason, made = WRONG[wrong]
    busy.publish(made(busy))
    told = until("the snapshot is refused", busy.refusal)
    assert told.startswith(f"{reason}: "), told
    assert ("applied", "1") in busy.states()
    assert busy.serves(busy.first)


POLICIES: dict[str, tuple[str, Callable[[Office], Json]]] = {
    "a revoked key": ("key_revoked", lambda office: {"revoked": [
        {"key": office.trusted("dora", [])["hint"], "at": written(office.now), "why": "lost"}]}),
    "a revoked package": ("package_revoked", lambda office: {"revoked": [
        {"package": signers.root(office.folder / "packages/fraud-2"), "at": written(office.now), "why": "wrong data"}]}),
    "a key of tomorrow": ("key_not_yet_valid", lambda office: {"keys": [
        *office.policy["keys"][:-1], office.trusted("dora", ["signer"], **{"from": written(office.now + DAY_S)})]}),
    "a key that ended": ("key_expired", lambda office: {"keys": [
        *office.policy["keys"][:-1], office.trusted("dora", ["signer"], until=written(office.now - 1))]}),
    "a minimum version": ("below_minimum", lambda office: {"minimum": {"fraud": 3}}),
    "more approvals": ("approvals_missing", lambda office: {"approvals": {"low": 0, "standard": 2, "high": 2}}),
}  # fmt: skip


@pytest.mark.parametrize("wrong", POLICIES)
def test_a_policy_that_forbids_what_is_published_next_is_read_before_it_and_the_old_version_goes_on(
    desk: Desk, wrong: str
) -> None:
    reason, changes = POLICIES[wrong]
    document = desk.office.deployment("fraud", 2, desk.second, by="dora")
    desk.office.issue(**changes(desk.office))
    desk.server.log_line(lambda fields: "the trust policy was read again" in str(fields))
    desk.publish(document)
    told = until("the snapshot is refused", desk.refusal)
    assert told.startswith(f"{reason}: "), told
    assert desk.serves(desk.first)


def unsigned_index(desk: Desk) -> None:
    desk.publish(desk.office.deployment("fraud", 2, desk.second), by=None)


def index_by_a_signer(desk: Desk) -> None:
    desk.publish(desk.office.deployment("fraud", 2, desk.second), by="anna")


def index_of_another_environment(desk: Desk) -> None:
    desk.publish(desk.office.deployment("fraud", 2, desk.second), environment="staging")


def changed_index(desk: Desk) -> None:
    index = desk.publish(desk.office.deployment("fraud", 2, desk.second))
    until("it is applied", lambda: desk.applied(desk.second) or None)
    desk.publish(desk.good)
    until("it is rolled back", lambda: desk.applied(desk.first) or None)
    document = json.loads(index.read_bytes())
    beside = index.with_name("index.json.new")
    beside.write_text(json.dumps({**document, "generation": document["generation"] + 1, "deployments": []}))
    beside.replace(index)


@pytest.mark.parametrize(
    ("publish", "reason"),
    [
        (unsigned_index, "unsigned"),
        (index_by_a_signer, "wrong_role"),
        (index_of_another_environment, "wrong_environment"),
        (changed_index, "changed_file"),
    ],
)
def test_an_index_that_no_publisher_signed_for_this_server_is_refused_as_a_whole(
    desk: Desk, publish: Callable[[Desk], None], reason: str
) -> None:
    publish(desk)
    told = until("the snapshot is refused", lambda: desk.deployments()["refused"])
    assert told.startswith(f"{reason}: "), told
    assert ("applied", "1") in desk.states()
    assert desk.serves(desk.first)


def test_two_models_that_were_released_together_are_served(desk: Desk) -> None:
    desk.publish(two_models(desk))
    until("they are taken", lambda: desk.deployments()["generation"] == desk.generation or None)
    assert desk.refusal() is None
    assert desk.states()[0][0] == "applied"


def test_every_reason_that_a_server_can_meet_is_met_here() -> None:
    # What makes a policy unusable is met at the start and at reloads; what only a bundle's bytes can say, by the corpus.
    elsewhere = {
        "trust_expired",
        "trust_downgrade",
        "index_downgrade",
        "too_large",
        "root_mismatch",
        "path_escape",
        "duplicate_name",
        "ignored_paths",
    }
    met = {reason for reason, _ in [*WRONG.values(), *POLICIES.values()]}
    assert met | elsewhere == set(Reason)


def test_going_back_is_a_swap_that_loads_nothing(desk: Desk) -> None:
    desk.publish(desk.office.deployment("fraud", 2, desk.second))
    until("the second serves", lambda: desk.applied(desk.second) or None)
    assert desk.states() == [("applied", "2"), ("warm", "1")]
    loads = metrics(desk.server).sum("flyball_model_loads_total")
    assert loads == 2
    desk.publish(desk.good)
    until("the first serves again", lambda: desk.applied(desk.first) or None)
    assert desk.states() == [("applied", "1"), ("warm", "2")]
    assert metrics(desk.server).sum("flyball_model_loads_total") == loads
    assert desk.deployments()["deployments"][0]["generation"] == 3


def test_going_back_to_what_is_warm_is_refused_where_its_key_was_revoked_meanwhile(desk: Desk) -> None:
    desk.publish(desk.office.deployment("fraud", 2, desk.second, by="dora"))
    until("the second serves", lambda: desk.applied(desk.second) or None)
    desk.office.revoke("anna")
    desk.server.log_line(lambda fields: "the trust policy was read again" in str(fields))
    desk.publish(desk.good)
    told = until("it is refused", desk.refusal)
    assert told.startswith("key_revoked: "), told
    assert desk.serves(desk.second)


def test_what_serves_is_taken_out_when_its_key_is_revoked_and_callers_are_told_why(desk: Desk) -> None:
    desk.office.revoke("anna")
    until("it is judged again", lambda: desk.states() == [("refused", "")] or None)
    assert desk.deployments()["deployments"][0]["reason"].startswith("key_revoked: ")
    line = desk.server.log_line(lambda fields: "a revoked deployment was withdrawn" in str(fields))
    assert line["level"] == "ERROR"
    with Http(desk.server) as connection:
        reply = connection.post("/v2/models/fraud/infer", {"inputs": []})
    assert reply.status == 503
    assert "key_revoked: " in reply.error


def test_what_is_revoked_gives_way_to_the_version_before_it_that_is_still_warm_and_good(desk: Desk) -> None:
    desk.publish(desk.office.deployment("fraud", 2, desk.second, by="dora"))
    until("the second serves", lambda: desk.applied(desk.second) or None)
    loads = metrics(desk.server).sum("flyball_model_loads_total")
    desk.office.revoke("dora")
    until("it gives way", lambda: desk.states() == [("applied", "1"), ("refused", "")] or None)
    assert desk.serves(desk.first)
    assert metrics(desk.server).sum("flyball_model_loads_total") == loads
    desk.office.revoke("anna")
    until("nothing is left", lambda: desk.states() == [("refused", "")] or None)


def put_back(desk: Desk, index: bytes, signature: bytes) -> None:
    (desk.snapshot / "index.sig.json").write_bytes(signature)
    fresh = desk.snapshot / "index.json.new"
    fresh.write_bytes(index)
    fresh.replace(desk.snapshot / "index.json")


def test_an_older_signed_index_is_not_taken_again_whether_the_server_runs_or_starts(desk: Desk) -> None:
    old = [(desk.snapshot / name).read_bytes() for name in ("index.json", "index.sig.json")]
    desk.publish(second(desk))
    until("the second serves", lambda: desk.applied(desk.second) or None)
    put_back(desk, *old)
    told = until("the old one is refused", lambda: desk.deployments()["refused"])
    assert told.startswith("index_downgrade: "), told
    assert desk.serves(desk.second)
    assert desk.server.stop().code == 0
    ending = serving.run(desk.command)
    assert ending.code == 3
    assert "index_downgrade: " in ending.text


def test_another_index_of_the_generation_that_was_taken_is_refused_and_the_next_is_taken(desk: Desk) -> None:
    desk.generation -= 1
    desk.publish(second(desk))
    told = until("it is refused", lambda: desk.deployments()["refused"])
    assert told.startswith("index_downgrade: "), told
    assert desk.serves(desk.first)
    desk.publish(second(desk))
    until("the second serves", lambda: desk.applied(desk.second) or None)


def test_a_server_starts_where_the_writer_ended_between_the_signature_and_the_index(desk: Desk) -> None:
    assert desk.server.stop().code == 0
    old = (desk.snapshot / "index.json").read_bytes()
    desk.publish(second(desk))
    (desk.snapshot / "index.json").write_bytes(old)
    desk.restart()
    assert desk.serves(desk.second)
    assert desk.deployments()["generation"] == desk.generation


@pytest.mark.parametrize("folder", ["trust.json.state", "elsewhere"])
def test_an_older_trust_policy_is_not_taken_after_a_restart(
    start: Callable[..., Server], tmp_path: Path, folder: str
) -> None:
    more = [] if folder == "trust.json.state" else ["--state-folder", str(tmp_path / folder)]
    desk = Desk(tmp_path, start, serving.flyballd(unsigned=False), *more)
    older = (tmp_path / "trust.json").read_bytes()
    desk.office.issue(minimum={"other": 2})
    desk.server.log_line(lambda fields: "the trust policy was read again" in str(fields))
    assert desk.server.stop().code == 0
    (kept,) = (tmp_path / folder).iterdir()
    assert json.loads(kept.read_text())["serial"] == 2
    desk.office.put_policy(older)
    ending = serving.run(desk.command)
    assert ending.code == 3
    assert "trust_downgrade: " in ending.text


def test_an_older_trust_policy_is_not_taken_and_the_newer_one_stays(desk: Desk) -> None:
    older = (desk.office.folder / "trust.json").read_bytes()
    desk.office.issue(minimum={"other": 2})
    desk.server.log_line(lambda fields: "the trust policy was read again" in str(fields))
    desk.office.put_policy(older)
    line = desk.server.log_line(lambda fields: "the new trust policy is not used" in str(fields))
    assert "trust_downgrade" in str(line)
    assert metrics(desk.server).sum("flyball_trust_reloads_total", outcome="refused") == 1


def test_which_event_of_a_registry_serves_is_in_the_journal(start: Callable[..., Server], tmp_path: Path) -> None:
    office = Office(tmp_path)
    document = office.deployment("fraud", 1, onnx_models.linear(tmp_path, "m", seed=1))
    registry = {"sequence": 41, "hash": "sha256:" + "4" * 64}
    folder = tmp_path / "journal"
    index = office.write(tmp_path / "s", 6, [document], registry=registry, environment="production")
    flags = ["--listen", "127.0.0.1:0", "--watch", "--journal-folder", folder, *office.flags]
    server = start(*serving.flyballd(unsigned=False), "--snapshot", index, *flags)
    office.write(tmp_path / "s", 7, [document], registry={**registry, "sequence": 42}, environment="production")
    server.log_line(lambda fields: fields.get("generation") == 7 and "snapshot applied" in str(fields))
    assert server.stop().code == 0
    found = JournalLog(folder).records(kinds=["registry"])
    told = [(one["sequence"], one["generation"], one["environment"], one["hash"]) for one in found]
    assert told == [(41, 6, "production", registry["hash"]), (42, 7, "production", registry["hash"])]
