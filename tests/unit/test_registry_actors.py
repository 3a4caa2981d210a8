"""Who acts: the owner of the key where something is signed, and a mark on every name that nobody authenticated."""

import getpass
import json
from typing import Any

import pytest

from tests.support import onnx_models
from tests.support.registry_shell import Shell


def events(shell: Shell) -> list[dict[str, Any]]:
    lines = shell.done("registry", "history", "fraud", "--json", role="auditor").splitlines()
    return [json.loads(line) for line in lines]


def registered(shell: Shell) -> str:
    shell.done("register", "fraud", onnx_models.linear(shell.house.folder, "model", seed=1))
    return "fraud@1"


at_home = pytest.mark.parametrize("shell", ["home"], indirect=True)  # behind HTTP the API key says who acts


@at_home
def test_a_name_that_contradicts_the_key_signs_nothing(shell: Shell) -> None:
    ref = registered(shell)
    code, _, err = shell("sign", ref, "--key", shell.house.key("ada"), "--by", "bob")
    assert code == 4
    assert "--by bob contradicts the key, which is ada's" in err
    assert "leave --by out to act as ada" in err
    refused = events(shell)[-1]
    assert (refused["kind"], refused["actor"], refused["authenticated"]) == ("refused", "bob", "none")
    assert shell.json("registry", "show", ref)["signed_by"] is None


@at_home
@pytest.mark.parametrize("name", ["bob", "ada"])  # ada is the author
def test_a_name_that_contradicts_the_key_approves_nothing(shell: Shell, name: str) -> None:
    ref = registered(shell)
    shell.done("sign", ref, "--key", shell.house.key("ada"))
    code, _, err = shell("approve", ref, "--key", shell.house.key("grace"), "--by", name, role="approver")
    assert code == 4
    assert f"--by {name} contradicts the key, which is grace's" in err
    assert events(shell)[-1]["body"]["code"] == "actor_not_owner"
    assert shell.json("registry", "show", ref)["approvals"] == []


@at_home
def test_a_second_spelling_of_the_owner_s_name_is_the_owner(shell: Shell) -> None:
    ref = registered(shell)
    shell.done("sign", ref, "--key", shell.house.key("ada"), "--by", "ADA")
    assert (events(shell)[-1]["actor"], events(shell)[-1]["authenticated"]) == ("ada", "key")


def test_the_owner_of_the_key_is_the_actor_of_a_signature(shell: Shell) -> None:
    shell.approved(1)
    signed, approved = (one for one in events(shell) if one["kind"] in ("signed", "approved"))
    assert (signed["actor"], signed["authenticated"]) == ("ada", "key")
    assert (approved["actor"], approved["authenticated"]) == ("grace", "key")
    if shell.where.startswith("http"):
        assert (signed["body"]["submitted_by"], approved["body"]["submitted_by"]) == ("deployer", "approver")
    else:
        assert "submitted_by" not in signed["body"]
        assert approved["body"]["submitted_by"] == getpass.getuser()


@at_home
def test_a_name_that_nobody_authenticated_is_marked_in_history_and_at(shell: Shell) -> None:
    ref = shell.approved(1)
    shell.done("promote", ref, "--environment", "dev", "--by", "bob")
    assert "bob (not authenticated)" in shell.done("registry", "history", "fraud")
    assert "bob (not authenticated)" in shell.done("registry", "at")
    placed = shell.json("registry", "at")["placements"][0]
    assert (placed["actor"], placed["authenticated"]) == ("bob", "none")
    assert events(shell)[-1]["authenticated"] == "none"


def test_a_user_of_the_machine_and_an_api_key_are_not_marked(shell: Shell) -> None:
    ref, by_http = shell.approved(1), shell.where.startswith("http")
    shell.done("promote", ref, "--environment", "dev", *(() if by_http else ("--by", getpass.getuser())))
    promoted = events(shell)[-1]
    wanted = ("deployer", "api-key") if by_http else (getpass.getuser(), "os-user")
    assert (promoted["actor"], promoted["authenticated"]) == wanted
    assert "not authenticated" not in shell.done("status")
