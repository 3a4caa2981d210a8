"""The registry's verbs on a home and over HTTP: the same words, the same facts, the same exit codes."""

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import onnx_models, registry_homes
from tests.support.registry_shell import Ran, Shell


def test_a_version_goes_all_the_way_and_each_verb_names_the_next(shell: Shell) -> None:
    model = onnx_models.linear(shell.house.folder, "model", seed=1)
    out = shell.done("register", "fraud", model, "--owner", "risk@example.com", "--metric", "auc=0.91", "--reason", "first")
    assert re.match(r"fraud@1   sha256:[0-9a-f]{12}…   [\d.]+ kB   model, tier standard\n", out)
    assert out.endswith("Next:  flyball sign fraud@1 --key FILE   (with its author's key)\n")
    out = shell.done("sign", "fraud@1", "--key", shell.house.key("ada"), "--expires", "30d")
    assert out.startswith("fraud@1   signed by ada   for dev, staging, production, until ")
    assert "Next:  flyball approve fraud@1 --key FILE   (needs 1 more approval by people other than the author)" in out
    out = shell.done("approve", "fraud", "v1", "--key", shell.house.key("grace"), role="approver")
    assert out.startswith("fraud@1   approved by grace   1 of 1 (grace)\n")
    assert "Next:  flyball promote fraud@1 --environment dev" in out
    out = shell.done("promote", "fraud@1", "--environment", "dev", "--reason", "try it")
    assert re.match(r"fraud@1 → dev   \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\n  passed   signatures: signed by ada", out)
    assert "Undo" not in out
    out = shell.done("status")
    assert re.search(r"fraud +dev +1 +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC +\w+( \(not authenticated\))? +try it +grace", out)


def test_what_is_in_the_last_environment_is_not_sent_back_to_the_first(shell: Shell) -> None:
    ref = shell.approved(1)
    shell.done("promote", ref, "--environment", "staging", "--break-glass", "--reason", "dev is down")
    assert "Next:  flyball promote fraud@1 --environment production" in shell.done("registry", "show", ref)
    shell.done("promote", ref, "--environment", "production")
    assert "Next:  flyball status fraud   (it is placed in production)" in shell.done("registry", "show", ref)


def test_files_that_are_registered_once_more_are_told(shell: Shell) -> None:
    model = onnx_models.linear(shell.house.folder, "model", seed=1)
    assert "its files are" not in shell.done("register", "fraud", model)
    assert "its files equal those of fraud@1; only" in shell.done("register", "fraud", model, "--metric", "auc=0.91")
    assert "its files are" not in shell.done("register", "fraud", onnx_models.linear(shell.house.folder, "other", seed=2))


def test_every_name_that_is_registered_is_reached(shell: Shell) -> None:
    shell.done("register", "_fraud.v-2", onnx_models.linear(shell.house.folder, "model", seed=1))
    assert shell.json("registry", "show", "_fraud.v-2@1")["name"] == "_fraud.v-2"
    assert shell.json("status", "_fraud.v-2")["waiting"][0]["name"] == "_fraud.v-2"


def test_what_everybody_did_is_told_with_who_when_and_why(shell: Shell) -> None:
    ref = shell.approved(1)
    shell.done("promote", ref, "--environment", "dev", "--reason", "try it")
    out = shell.done("registry", "history", "fraud")
    for what in ("registered fraud@1", "signed fraud@1", "approved fraud@1", "promoted fraud@1 to dev"):
        assert re.search(rf"UTC +\S+( \(not authenticated\))? +{what}", out), out
    lines = [json.loads(line) for line in shell.done("registry", "history", "fraud", "--json").splitlines()]
    assert [line["kind"] for line in lines] == ["registered", "signed", "approved", "promoted"]
    assert all(second["sequence"] > first["sequence"] for first, second in itertools.pairwise(lines))


def test_one_step_back_is_one_event_and_says_from_where(shell: Shell) -> None:
    for seed in (1, 2):
        shell.done("promote", shell.approved(seed), "--environment", "dev")
    out = shell.done("rollback", "fraud", "--environment", "dev", "--reason", "worse")
    assert re.match(r"fraud@1 → dev   rolled back from 2   \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\n", out)
    (placed,) = shell.json("status", "fraud")["placements"]
    assert (placed["version"], placed["reason"]) == (1, "worse")
    code, _, err = shell("rollback", "fraud", "--environment", "dev")
    assert (code, "fraud@1 is the first that dev serves" in err) == (4, True)


def test_a_candidate_stands_beside_what_is_placed(shell: Shell) -> None:
    shell.done("promote", shell.approved(1), "--environment", "dev")
    out = shell.done("promote", shell.approved(2), "--environment", "dev", "--share", "0.05")
    assert out.startswith("fraud@2 → dev with 5% of the requests")
    assert "Undo:  flyball rollback fraud --environment dev" in out
    assert "2 gets 5%" in shell.done("status")
    code, _, err = shell("promote", "fraud@2", "--environment", "dev", "--share", "0.1", "--shadow")
    assert (code, "--share and --shadow exclude each other" in err) == (2, True)


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_refusal_is_one_line_and_the_next_step_with_exit_code_4(shell: Shell, more: tuple[str, ...]) -> None:
    ref = shell.approved(1)
    code, out, err = shell("promote", ref, "--environment", "production", *more)
    assert (code, out) == (4, "")
    if more:
        told = json.loads(err)
        assert (told["code"], told["next"]) == ("out_of_order", "flyball promote fraud@1 --environment staging")
    else:
        assert err.splitlines() == [
            "Refused: fraud@1 has not served in staging, which comes before production",
            "  flyball promote fraud@1 --environment staging",
        ]
    (last,) = list(map(json.loads, shell.done("registry", "history", "fraud", "--json").splitlines()))[-1:]
    assert (last["kind"], last["body"]["code"]) == ("refused", "out_of_order")


def test_breaking_the_glass_is_loud_and_kept(shell: Shell) -> None:
    ref = shell.approved(1)
    code, _, err = shell("promote", ref, "--environment", "production", "--break-glass")
    assert (code, "requires a reason" in err) == (4, True)
    code, _, err = shell(
        "promote", ref, "--environment", "production", "--break-glass", "--reason", "the other one is on fire"
    )
    assert code == 0
    assert err.startswith("BREAK GLASS: fraud@1 to production without gates: the other one is on fire\n")
    assert "breaking the glass" in shell.done("registry", "history", "fraud")


def test_the_author_does_not_approve_their_own_version(shell: Shell) -> None:
    model = onnx_models.linear(shell.house.folder, "model", seed=1)
    shell.done("register", "fraud", model)
    shell.done("sign", "fraud@1", "--key", shell.house.key("ada"))
    code, _, err = shell("approve", "fraud@1", "--key", shell.house.key("ada"), role="approver")
    assert code == 4
    assert "ada may not approve" in err


def test_a_version_can_be_rejected_and_signed_anew(shell: Shell) -> None:
    shell.approved(1)
    out = shell.done("reject", "fraud@1", "--reason", "no validation report", role="approver")
    assert out.startswith("fraud@1   rejected: no validation report\n")
    code, _, err = shell("promote", "fraud@1", "--environment", "dev")
    assert (code, "was rejected: no validation report" in err) == (4, True)
    shell.done("sign", "fraud@1", "--key", shell.house.key("ada"))
    assert shell.json("registry", "show", "fraud@1")["approvals"] == []


def test_what_is_revoked_never_serves_again(shell: Shell) -> None:
    ref = shell.approved(1)
    out = shell.done("revoke", ref, "--reason", "leaked labels")
    assert "Next:  flyball trust revoke fraud@1 --reason TEXT" in out
    code, _, err = shell("promote", ref, "--environment", "dev")
    assert (code, "fraud@1 is revoked: leaked labels" in err) == (4, True)


def test_a_version_that_nobody_needs_is_retired(shell: Shell) -> None:
    ref = shell.approved(1)
    assert shell.done("retire", ref).startswith("fraud@1   retired\n")
    assert shell.json("registry", "list")[0]["state"] == "retired"


def test_an_alias_leads_to_a_version_until_it_is_moved_or_taken_away(shell: Shell) -> None:
    shell.approved(1)
    shell.approved(2)
    assert shell.done("registry", "alias", "fraud", "champion", "v1").startswith("fraud@champion → 1\n")
    assert shell.json("registry", "show", "fraud", "champion")["number"] == 1
    assert shell.done("registry", "alias", "fraud", "champion", "2").startswith("fraud@champion → 2, before 1\n")
    shell.done("registry", "alias", "fraud", "champion", "--remove")
    code, _, err = shell("registry", "show", "fraud@champion")
    assert (code, "'champion'" in err) == (3, True)


def test_everything_about_a_version_is_shown_before_somebody_approves_it(shell: Shell) -> None:
    model = onnx_models.linear(shell.house.folder, "model", seed=1)
    words = ("--purpose", "score cards", "--limits", "not for loans", "--validation-due", "2030-01-01", "--tier", "high")
    shell.done("register", "fraud", model, *words, "--data-digest", "sha256:data", "--parameter", "trees=100")
    out = shell.done("registry", "show", "fraud@1")
    for part in (
        "tier high",
        "score cards",
        "not for loans",
        "2030-01-01",
        "sha256:data",
        "trees=100",
        "0 of 2",
        "meta.json",
    ):
        assert part in out, part
    assert re.search(r"model.onnx +x FP32\[-1, 4\] → y FP32\[-1, 2\]", out)


def test_what_served_at_a_moment_is_told(shell: Shell) -> None:
    shell.done("promote", shell.approved(1), "--environment", "dev")
    moment = shell.json("registry", "history", "fraud", "--after", "0", "-n", "1")["at"]
    before = shell.json("registry", "at", moment)
    assert before["placements"] == []
    assert "no placements" in shell.done("registry", "at", "2026-01-01T00:00Z")
    (now,) = shell.json("registry", "at", "0s", "fraud")["placements"]
    assert (now["environment"], now["version"], now["approvers"]) == ("dev", 1, ["grace"])
    code, _, err = shell("registry", "at", "tomorrow")
    assert (code, "'tomorrow' is not a time" in err) == (2, True)


def test_lists_go_on_where_a_page_ends(shell: Shell) -> None:
    shell.approved(1)
    shell.approved(2)
    out = shell.done("registry", "list", "fraud", "-n", "1")
    assert "More:  flyball registry list fraud --before 2" in out
    (older,) = shell.json("registry", "list", "fraud", "--before", "2")
    assert older["number"] == 1
    assert "More:  flyball registry list --after fraud" in shell.done("registry", "list", "-n", "1")
    assert shell.json("registry", "list", "--after", "fraud") == []


def test_a_registry_that_is_whole_says_so_and_gives_what_to_keep_elsewhere(shell: Shell) -> None:
    shell.approved(1)
    out = shell.done("registry", "verify", role="auditor")
    seen = r"verified   \d+ events, 1 version, \d artifacts match their digests\n"
    assert re.match(seen + r"Store elsewhere:  --head \d+:[0-9a-f]{64}\n", out)
    assert "their bytes were not read" in shell.done("registry", "verify", "--quick", role="auditor")


def test_an_artifact_that_is_gone_is_found_by_verify_with_exit_code_4(shell: Shell) -> None:
    shell.approved(1)
    digest = next(
        file["digest"] for file in shell.json("registry", "show", "fraud@1")["files"] if file["name"] == "model.onnx"
    )
    (found,) = list(shell.house.home.rglob(digest.removeprefix("sha256:")))
    found.unlink()
    code, out, err = shell("registry", "verify", role="auditor")
    assert (code, digest in out) == (4, True)
    assert err.startswith("Refused: the registry was changed or damaged: 1 finding\n")


def test_the_files_of_a_version_come_back_as_they_were(shell: Shell) -> None:
    shell.approved(1)
    look = shell.house.folder / "look"
    out = shell.done("registry", "fetch", "fraud@1", "--out", look)
    assert "Next:  flyball inspect" in out
    assert (look / "model.onnx").read_bytes() == (shell.house.folder / "model-1.onnx").read_bytes()
    code, _, err = shell("registry", "fetch", "fraud@1", "--out", look)
    assert (code, "exists already" in err) == (2, True)


def test_who_signs_can_compare_with_what_they_have(shell: Shell) -> None:
    model = onnx_models.linear(shell.house.folder, "model", seed=1)
    shell.done("register", "fraud", model)
    mine = shell.house.folder / "mine"
    mine.mkdir()
    (mine / "model.onnx").write_bytes(model.read_bytes())
    shell.done("sign", "fraud@1", "--key", shell.house.key("ada"), "--compare", mine)
    (mine / "model.onnx").write_bytes(b"something else")
    code, _, err = shell("sign", "fraud@1", "--key", shell.house.key("ada"), "--compare", mine)
    assert (code, "model.onnx is not the same" in err) == (2, True)


def test_a_version_is_carried_to_another_site_and_judged_there(shell: Shell, tmp_path: Path) -> None:
    shell.approved(1)
    file = tmp_path / "fraud.flyball"
    out = shell.done("registry", "export", "fraud@1", "--out", file, "--key", shell.house.key("ada"))
    assert "fraud@1" in out
    other = registry_homes.House(tmp_path / "other")
    other.folder.mkdir()
    for name in registry_homes.PEOPLE:
        other.key(name).write_bytes(shell.house.key(name).read_bytes())
        other.key(name).chmod(0o600)
    other = registry_homes.make(other.folder)
    there = Shell(other, str(other.home), shell.run, shell.monkeypatch)
    assert there.done("registry", "import", file).startswith("fraud@1   sha256:")
    assert there.done("registry", "import", file) == "all its versions are already registered\n"
    there.done("promote", "fraud@1", "--environment", "dev")
    assert there.json("registry", "show", "fraud@1")["approvals"][0]["approver"] == "grace"
    kinds = [json.loads(line)["kind"] for line in there.done("registry", "history", "fraud", "--json").splitlines()]
    assert kinds == ["registered", "imported", "signed", "approved", "promoted"]


def test_a_site_that_trusts_nobody_of_the_other_takes_nothing(shell: Shell, tmp_path: Path) -> None:
    shell.approved(1)
    file = tmp_path / "fraud.flyball"
    shell.done("registry", "export", "fraud@1", "--out", file, "--key", shell.house.key("ada"))
    (tmp_path / "stranger").mkdir()
    other = registry_homes.of_strangers(tmp_path / "stranger")
    code, _, err = Shell(other, str(other.home), shell.run, shell.monkeypatch)("registry", "import", file)
    assert (code, "unknown_key" in err) == (4, True)
    with other.opened() as registry:
        assert registry.names() == []
        assert registry.history()[-1].kind == "refused"


def test_a_registry_elsewhere_is_kept_where_it_is(shell: Shell) -> None:
    for verb in (("registry", "rebuild"), ("registry", "gc"), ("registry", "key", "list")):
        code, _, err = shell(*verb)
        if shell.where.startswith("http"):
            assert (code, "needs a registry on this machine" in err) == (2, True)
        else:
            assert code == 0


def test_wrong_references_are_told_with_how_to_write_them(shell: Shell) -> None:
    for words, told in (
        (("registry", "show", "fraud"), "no version of fraud given"),
        (("registry", "show", "fraud@1", "2"), "two versions given: fraud@1 and 2"),
        (("rollback", "fraud", "--version", "x"), "'x' is not a version number"),
    ):
        code, _, err = shell(*words)
        assert (code, told in err) == (2, True), err


def test_a_key_is_printed_alone_and_once(run: Callable[..., Ran], tmp_path: Path) -> None:
    house = registry_homes.make(tmp_path)
    code, out, err = run("registry", "key", "add", "ops", "--role", "deployer", "--registry", house.home)
    assert code == 0
    assert re.fullmatch(r"fb_[\w-]{43}\n", out)
    assert "it is not shown again" in err
    _, listed, _ = run("registry", "key", "list", "--registry", house.home)
    assert re.search(r"ops +deployer +\d{4}-", listed)
    assert out.strip() not in listed
    for words, told in (
        (("add", "ops", "--role", "reader"), "the key ops exists already"),
        (("add", "x", "--role", "root"), "root is not a role"),
        (("remove", "nobody"), "unknown key nobody"),
    ):
        code, _, err = run("registry", "key", *words, "--registry", house.home)
        assert (code in (2, 3), told in err) == (True, True), err
    assert run("registry", "key", "remove", "ops", "--registry", house.home)[1] == "the key of ops is revoked\n"


def test_a_folder_is_made_a_registry_once(run: Callable[..., Ran], tmp_path: Path) -> None:
    where = tmp_path / "new"
    code, out, _ = run("registry", "init", where, "--environment", "test", "--environment", "live")
    assert (code, out.splitlines()[0]) == (0, f"{where}   sqlite:///registry.db   test → live")
    assert f"flyball trust init --registry {where}" in out
    code, _, err = run("registry", "init", where)
    assert (code, "is already a registry" in err) == (3, True)
    code, _, err = run("registry", "init", tmp_path / "odd", "--database", "mysql://x", "--environment", "a b")
    assert code == 2
    assert "--database: 'mysql://x' is not valid; allowed: sqlite:///FILE" in err
    assert "--environment: ['a b'] is not valid; allowed: 1 to 16 names" in err
    assert run("registry", "list", "--registry", tmp_path)[2].startswith(f"Refused: there is no registry in {tmp_path}\n")


def test_the_tables_can_be_thrown_away_and_artifacts_without_an_event_can_go(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    house = registry_homes.make(tmp_path)
    with house.opened() as registry:
        house.approved(registry)
        events = registry.head().sequence
    assert run("registry", "rebuild", "--registry", house.home)[1].startswith(f"rebuilt from {events} events\n")
    code, out, _ = run("registry", "gc", "--registry", house.home)
    assert (code, out.startswith("0 artifacts could be removed")) == (0, True)
    code, _, _ = run("registry", "gc", "--grace-hours", "0", "--registry", house.home)
    assert code == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--metric", "auc"), "'auc' is not NAME=VALUE"),
        (("--metric", "auc=high"), "--metric: auc is 'high', not a number"),
        (("--tier", "huge"), "tier"),
        (("--validation-due", "soon"), "--validation-due: 'soon' is not valid"),
        (("--card", "nowhere.yaml"), "cannot read nowhere.yaml"),
        (("--notes", "x" * 4097), "allowed: a text of up to 4096 characters"),
        (("--by", "x" * 257), "allowed: a text of 1 to 256 characters"),
    ],
)
def test_what_a_card_cannot_say_is_told_before_anything_is_kept(
    run: Callable[..., Ran], tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    house = registry_homes.make(tmp_path)
    model = onnx_models.linear(tmp_path, "model", seed=1)
    code, _, err = run("register", "fraud", model, *words, "--registry", house.home)
    assert (code in (2, 3), told in err) == (True, True), err
    with house.opened() as registry:
        assert registry.names() == []


@pytest.mark.parametrize("name", ["my model", "../evil", ".hidden", "x" * 129])
def test_a_name_that_is_not_allowed_is_refused_in_one_line_with_what_is(
    run: Callable[..., Ran], tmp_path: Path, name: str
) -> None:
    house = registry_homes.make(tmp_path)
    model = onnx_models.linear(tmp_path, "model", seed=1)
    code, _, err = run("register", name, model, "--by", "ada", "--registry", house.home)
    assert code == 2, err
    assert f"'{name}' cannot be a name: 1 to 128 of A-Z a-z 0-9 . _ - and not beginning with a dot\n" in err
    with house.opened() as registry:
        assert registry.names() == []
