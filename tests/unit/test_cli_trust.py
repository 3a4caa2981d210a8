"""`flyball key` and `flyball trust`: keys that are never written over, and a policy that only the root key changes."""

import json
import stat

import pytest

from flyball.errors import SignatureError
from flyball.signing import keys
from flyball.signing.trust import Trust

LATER = 4_000_000_000


@pytest.fixture
def run(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return run


@pytest.fixture
def made(run, tmp_path):
    """A root key, a first policy, and two key pairs; how to ask for the policy as servers read it."""
    for name in ("root.pem", "anna.pem", "ben.key"):
        assert run("key", "new", name)[0] == 0
    assert run("trust", "init")[0] == 0
    return lambda now=LATER: (
        Trust((tmp_path / "trust.json").read_bytes(), keys.load_publics(tmp_path / "root.pub"), now).policy
    )


def hint(tmp_path, name):
    return keys.hint(keys.load_publics(tmp_path / f"{name}.pub")[0])


@pytest.mark.parametrize(("role", "verb"), [("signer", "sign"), ("approver", "approve"), ("publisher", "serve")])
def test_whoever_is_trusted_is_told_what_to_do_next(run, made, role, verb):
    out = run("trust", "add", "anna.pub", "--name", "anna", "--role", role)[1]
    assert out.splitlines()[-1].startswith(f"Next:  flyball {verb} ")
    assert "Next" not in run("trust", "add", "anna.pub", "--name", "anna", "--role", role, "--json")[1]


@pytest.mark.parametrize("curve", keys.CURVES)
def test_a_new_key_is_its_owner_s_alone_and_its_public_part_lies_beside_it(run, tmp_path, curve):
    code, out, _ = run("key", "new", "anna.pem", "--curve", curve, "--json")
    assert code == 0
    shown = json.loads(out)
    assert shown == {"private": "anna.pem", "public": "anna.pub", "curve": curve, "hint": hint(tmp_path, "anna")}
    assert stat.S_IMODE((tmp_path / "anna.pem").stat().st_mode) == 0o600
    assert keys.hint(keys.load_private(tmp_path / "anna.pem").public_key()) == shown["hint"]


@pytest.mark.parametrize("there", ["anna.pem", "anna.pub"])
def test_a_key_is_never_written_over_another_file(run, tmp_path, there):
    (tmp_path / there).write_text("precious")
    code, _, errors = run("key", "new", "anna.pem")
    assert code == 2
    assert f"{there} already exists" in errors
    assert (tmp_path / there).read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == [there]


def test_a_key_is_shown_alike_from_its_private_and_its_public_file(run, tmp_path):
    run("key", "new", "anna")
    assert run("key", "show", "anna")[1] == run("key", "show", "anna.pub")[1] == f"P-256   {hint(tmp_path, 'anna')}\n"
    assert run("key", "show", "anna", "--pem")[1] == (tmp_path / "anna.pub").read_text()
    _, out, _ = run("key", "show", "anna", "--json")
    assert json.loads(out)[0]["pem"] == (tmp_path / "anna.pub").read_text()
    assert "PRIVATE" not in out


def test_the_next_step_after_a_key_is_to_trust_it(run):
    assert "flyball trust add anna.pub --name NAME --role signer" in run("key", "new", "anna.pem")[1]


def test_a_policy_trusts_what_was_added_and_shows_it(run, made, tmp_path):
    assert run("trust", "add", "anna.pub", "--name", "anna", "--role", "signer", "--expires", "2100-01-01")[0] == 0
    code, out, _ = run("trust", "add", "ben.pub", "--name", "ben", "--role", "approver", "--role", "publisher", "--json")
    assert code == 0
    policy = made()
    assert json.loads(out) == policy.document()
    assert policy.serial == 3
    assert [(key.name, key.roles, key.until) for key in policy.keys] == [
        ("anna", ["signer"], "2100-01-01T00:00:00Z"),
        ("ben", ["approver", "publisher"], None),
    ]
    _, out, _ = run("trust", "show")
    assert "serial 3" in out
    assert hint(tmp_path, "anna")[:12] in out
    assert json.loads(run("trust", "show", "--json")[1]) == policy.document()


def test_keys_and_packages_are_revoked_by_name_by_hint_or_by_root(run, made, tmp_path):
    run("trust", "add", "anna.pub", "--name", "Anna", "--role", "signer")
    root = f"sha256:{'a' * 64}"
    for what in ("anna", hint(tmp_path, "ben"), root):
        assert run("trust", "revoke", what, "--reason", "lost")[0] == 0
    assert [one.key or one.package for one in made().revoked] == [hint(tmp_path, "anna"), hint(tmp_path, "ben"), root]
    assert "revoked: lost" in run("trust", "show")[1]


@pytest.mark.parametrize(
    ("role", "follows"),
    [("signer", "stop serving, within a second, everything this key signed or approved"),
     ("approver", "stop serving, within a second, everything this key signed or approved"),
     ("publisher", "load no more snapshots signed by this key; deployments that already serve stay")],
)  # fmt: skip
def test_who_revokes_a_key_is_told_what_servers_do_then(run, made, role, follows):
    run("trust", "add", "anna.pub", "--name", "anna", "--role", role)
    _, out, _ = run("trust", "revoke", "anna", "--reason", "lost")
    assert out.splitlines()[1:] == [f"Servers that read this policy {follows}.", "Next:  flyball trust show"]


def test_who_revokes_a_package_is_told_what_servers_do_then_unless_json_is_wanted(run, made):
    _, out, _ = run("trust", "revoke", f"sha256:{'a' * 64}", "--reason", "wrong labels")
    assert "Servers that read this policy stop serving this package within a second." in out
    _, out, _ = run("trust", "revoke", f"sha256:{'b' * 64}", "--reason", "wrong labels", "--json")
    assert len(json.loads(out)["revoked"]) == 2


def test_a_name_with_two_keys_says_which_to_choose_from(run, made, tmp_path):
    for file in ("anna.pub", "ben.pub"):
        run("trust", "add", file, "--name", "anna", "--role", "signer")
    code, _, errors = run("trust", "revoke", "anna", "--reason", "left")
    assert code == 2
    assert hint(tmp_path, "ben") in errors
    assert made().revoked == []


def test_minimum_versions_approvals_and_the_end_are_set_one_by_one(run, made):
    assert run("trust", "minimum", "Fraud", "4")[0] == 0
    assert run("trust", "approvals", "high", "3")[0] == 0
    assert run("trust", "renew", "--expires", "2100-01-01T12:00:00Z")[0] == 0
    policy = made()
    assert (policy.minimum, policy.approvals.high, policy.expires) == ({"fraud": 4}, 3, "2100-01-01T12:00:00Z")
    with pytest.raises(SignatureError, match="trust_expired"):
        made(now=5_000_000_000)


def test_a_policy_that_ended_can_be_renewed(run, made):
    assert run("trust", "renew", "--expires", "2000-01-01")[0] == 0
    with pytest.raises(SignatureError, match="trust_expired"):
        made()
    assert run("trust", "renew")[0] == 0
    assert made().expires is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["add", "anna.pub", "--name", "anna", "--role", "admin"],
            "--role: 'admin' is not one of signer, approver, publisher",
        ),
        (["add", "anna.pem", "--name", "anna", "--role", "signer"], "anna.pem is a private key; the public one is needed"),
        (["add", "anna.pub", "--name", "anna", "--role", "signer", "--expires", "soon"], "'soon' is not a time"),
        (["approvals", "extreme", "1"], "extreme"),
        (["approvals", "high", "16"], "high"),
        (["minimum", "fraud", "0"], "minimum"),
        (["revoke", "nobody", "--reason", "x"], "neither a key's hint nor a package's root"),
        (["init"], "already exists"),
        (["renew", "--root-key", "other.pem"], "no root key other.pem"),
        (["renew", "--trust-policy", "other.json"], "no trust policy other.json"),
    ],
)
def test_what_makes_no_sense_changes_nothing_and_says_what_to_do(run, made, tmp_path, arguments, words):
    before = (tmp_path / "trust.json").read_bytes()
    code, _, errors = run("trust", *arguments)
    assert code == 2
    assert words in errors
    assert (tmp_path / "trust.json").read_bytes() == before


def test_only_the_root_key_changes_a_policy(run, made, tmp_path):
    before = (tmp_path / "trust.json").read_bytes()
    code, _, errors = run("trust", "minimum", "fraud", "4", "--root-key", "anna.pem", "--json")
    assert code == 4
    assert json.loads(errors)["error"].startswith("unknown_key: ")
    assert (tmp_path / "trust.json").read_bytes() == before


def test_a_policy_that_was_edited_by_hand_is_not_shown(run, made, tmp_path):
    document = json.loads((tmp_path / "trust.json").read_text())
    document["payload"] = document["payload"][4:]
    (tmp_path / "trust.json").write_text(json.dumps(document))
    code, _, errors = run("trust", "show")
    assert code == 4
    assert "bad_signature" in errors


def test_a_root_key_is_changed_by_letting_the_next_one_sign_beside_it(run, made, tmp_path):
    run("key", "new", "next.pem")
    assert run("trust", "renew", "--root-key", "root.pem", "--root-key", "next.pem")[0] == 0
    assert made().serial == 2
    assert run("trust", "minimum", "fraud", "4", "--root-key", "next.pem")[0] == 0
    assert run("trust", "show", "--trust-root", "next.pub")[0] == 0
    assert run("trust", "show", "--trust-root", "root.pub")[0] == 4
