"""What the registry's verbs tell of servers: where something is live, who answers with something else, who is gone."""

import re
from typing import Any

from flyball.registry.events.log import now_us
from flyball.registry.tables.nodes import NodeReport
from tests.support import registry_homes
from tests.support.registry_shell import Shell


def server_says(
    house: registry_homes.House, state: str, *, generation: int = 10_000, age_s: float = 0.0, **serving: Any
) -> None:
    """As a server of dev would report that it has taken a snapshot, or not."""
    with house.opened() as registry:
        placed = [one.version for one in registry.status("fraud").placements]
        report = NodeReport(
            node="web-1", environment="dev", deployment="fraud", generation=generation, digest="sha256:" + "0" * 64,
            reason="wrong_digest: the policy is not the one that was released" if state == "refused" else "", state=state,
            version=placed[0] if placed else 1, seen_at=now_us() - int(age_s * 1e6), **serving,
        )  # fmt: skip
        registry.handle.nodes.report("web-1", "dev", [report], actor="web-1")


def test_status_and_at_tell_which_server_answers_with_something_else(shell: Shell) -> None:
    for seed in (1, 2):
        shell.done("promote", shell.approved(seed), "--environment", "dev")
    server_says(shell.house, "refused", serving_version=1, serving_digest="sha256:" + "1" * 64)
    out = shell.done("status")
    assert re.search(r"web-1 +dev +fraud +2 +refused +1 ", out), out
    words = "web-1 of dev {} fraud@1 instead of fraud@2: wrong_digest: the policy is not the one that was released"
    assert words.format("serves") in out.replace("\n", " ")
    assert "no server" in out
    out = shell.done("registry", "at", "0s").replace("\n", " ")
    assert words.format("served") in out
    server_says(shell.house, "applied", serving_version=2, serving_digest="sha256:" + "0" * 64)
    out = shell.done("status", "fraud")
    assert re.search(r"fraud +dev +2 .* web-1 *$", out, re.MULTILINE), out
    assert "instead of fraud@2" not in out
    shown = shell.json("registry", "at")
    assert ([one["served_by"] for one in shown["placements"]], shown["nodes"]) == ([["web-1"]], [])


def test_a_server_that_is_gone_is_shown_so_and_forgotten_when_told(shell: Shell) -> None:
    shell.done("promote", shell.approved(1), "--environment", "dev")
    server_says(shell.house, "applied")
    code, _, err = shell("registry", "forget", "web-1")
    assert (code, "is not gone" in err) == (3, True)
    server_says(shell.house, "applied", age_s=3600)
    out = shell.done("status")
    assert "web-1 of dev is gone since" in out
    assert "flyball registry forget web-1" in out
    assert shell.done("registry", "forget", "web-1", "--reason", "taken down").startswith(
        "web-1 is removed from the status\n"
    )
    assert "web-1" not in shell.done("status")
    code, _, err = shell("registry", "forget", "web-1")
    assert (code, "unknown server 'web-1'" in err) == (3, True)


def test_a_promotion_tells_where_it_is_live(shell: Shell) -> None:
    ref = shell.approved(1)
    server_says(shell.house, "applied")
    assert re.search(
        r"^live on 1 server, \d+\.\d s after the event$", shell.done("promote", ref, "--environment", "dev"), re.MULTILINE
    )
    (said,) = shell.json("promote", shell.approved(2), "--environment", "dev")["servers"]
    assert (said["node"], said["state"]) == ("web-1", "applied")


def test_a_server_that_refuses_ends_the_verb_with_exit_code_4_and_the_event_stands(shell: Shell) -> None:
    ref = shell.approved(1)
    server_says(shell.house, "refused")
    code, out, err = shell("promote", ref, "--environment", "dev")
    assert (code, out.startswith("fraud@1 → dev")) == (4, True)
    assert "1 server of dev refused it and kept the old version: web-1: wrong_digest" in err
    assert "flyball rollback fraud --environment dev" in err


def test_a_server_that_is_silent_is_not_waited_for_and_one_that_lags_is_named(shell: Shell) -> None:
    first, second = shell.approved(1), shell.approved(2)
    server_says(shell.house, "applied", age_s=3600)
    assert "server" not in shell.done("promote", first, "--environment", "dev").partition("Next")[0]
    server_says(shell.house, "applied", generation=1)
    assert "no report yet from web-1" in shell.done("promote", second, "--environment", "dev", "--wait", "0.01")
