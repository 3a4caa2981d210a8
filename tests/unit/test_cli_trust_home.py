"""`flyball trust` where a registry is: its policy is meant, and a version stands for its package."""

import json
from pathlib import Path

import pytest

from flyball.signing import keys
from flyball.signing.policy import TrustPolicy
from flyball.signing.trust import open_policy
from tests.support import onnx_models, registry_homes

HOME = Path(".flyball/registry")


@pytest.fixture
def run(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLYBALL_REGISTRY", raising=False)
    for words in (("registry", "init"), ("key", "new", "root.pem"), ("key", "new", "anna.pem")):
        assert run(*words)[0] == 0
    (HOME / "root.pub").write_bytes(Path("root.pub").read_bytes())
    return run


def policy(file: Path = HOME / "trust.json") -> TrustPolicy:
    return open_policy(file.read_bytes(), keys.load_publics(Path("root.pub")))


def revoked(file: Path = HOME / "trust.json") -> list[str | None]:
    return [one.package or one.key for one in policy(file).revoked]


def test_the_policy_of_the_registry_that_is_here_is_meant(run):
    assert run("trust", "init")[0] == 0
    assert run("trust", "add", "anna.pub", "--name", "anna", "--role", "signer")[0] == 0
    assert [key.name for key in policy().keys] == ["anna"]
    assert not Path("trust.json").exists()
    Path("root.pub").rename("elsewhere.pub")
    assert json.loads(run("trust", "show", "--json")[1])["serial"] == 2  # by the home's root.pub


def test_who_revokes_a_key_is_sent_to_the_status_of_the_registry(run):
    assert run("trust", "init")[0] == 0
    assert run("trust", "add", "anna.pub", "--name", "anna", "--role", "signer")[0] == 0
    assert run("trust", "revoke", "anna", "--reason", "lost")[1].endswith("\nNext:  flyball status\n")
    _, out, _ = run("trust", "revoke", "a" * 64, "--reason", "lost", "--registry", str(HOME))
    assert out.endswith(f"\nNext:  flyball status --registry {HOME}\n")


@pytest.mark.parametrize("how", ["--registry", "FLYBALL_REGISTRY"])
def test_a_registry_that_is_named_comes_before_the_one_that_is_here(run, monkeypatch, how):
    assert run("registry", "init", "other")[0] == 0
    named = ("--registry", "other") if how == "--registry" else ()
    if not named:
        monkeypatch.setenv("FLYBALL_REGISTRY", "other")
    assert run("trust", "init", *named)[0] == 0
    assert Path("other/trust.json").is_file()
    assert not (HOME / "trust.json").exists()
    monkeypatch.setenv("FLYBALL_REGISTRY", "nowhere")
    code, _, errors = run("trust", "show")
    assert (code, "there is no registry in nowhere" in errors) == (3, True)


def test_a_file_that_is_named_comes_before_every_registry(run, monkeypatch):
    monkeypatch.setenv("FLYBALL_REGISTRY", str(HOME))
    assert run("trust", "init", "--trust-policy", "mine.json")[0] == 0
    assert run("trust", "minimum", "fraud", "3", "--trust-policy", "mine.json")[0] == 0
    assert (policy(Path("mine.json")).minimum, (HOME / "trust.json").exists()) == ({"fraud": 3}, False)
    code, _, errors = run("trust", "show")
    assert (code, "no trust policy" in errors) == (2, True)


def test_a_version_is_revoked_by_its_package(run, tmp_path):
    assert run("trust", "init")[0] == 0
    shown = json.loads(run("register", "fraud", onnx_models.linear(tmp_path, "m", seed=1), "--json")[1])
    assert run("trust", "revoke", "fraud@1", "--reason", "wrong labels")[0] == 0
    assert revoked() == [shown["root"]]
    code, _, errors = run("trust", "revoke", "fraud@2", "--reason", "wrong labels")
    assert (code, "fraud has no version" in errors) == (3, True)
    assert revoked() == [shown["root"]]


def test_a_key_s_owner_whose_name_looks_like_a_version_is_still_a_key(run):
    run("trust", "init")
    run("trust", "add", "anna.pub", "--name", "anna@example.com", "--role", "signer")
    assert run("trust", "revoke", "anna@example.com", "--reason", "left")[0] == 0
    assert revoked() == [keys.hint(keys.load_publics(Path("anna.pub"))[0])]


def test_a_version_is_found_by_a_registry_behind_http_and_the_policy_lies_here(run, tmp_path, monkeypatch):
    (tmp_path / "house").mkdir()
    house = registry_homes.make(tmp_path / "house")
    with house.opened() as registry:
        ref = house.approved(registry)
        root = registry.show(ref).root
    monkeypatch.setenv("FLYBALL_REGISTRY_KEY", house.tokens["reader"])
    with registry_homes.admin(house) as api:
        monkeypatch.setenv("FLYBALL_REGISTRY", api.url)
        assert run("trust", "init")[0] == 0
        assert run("trust", "revoke", ref, "--reason", "wrong labels")[0] == 0
    assert revoked(Path("trust.json")) == [root]
