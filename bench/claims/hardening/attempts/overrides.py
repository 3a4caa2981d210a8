"""Attempts on overrides and outcomes: by anyone, with any outcome, under any name."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from bench.claims.hardening.attempts import Build, Seen, attempt
from bench.claims.hardening.governed_server import DECISION, Answer, Server, governed

if TYPE_CHECKING:
    from pathlib import Path

_COMMAND_S = 60.0


@attempt("a caller without that right records outcomes and overrides")
def override_without_the_right(build: Build, folder: Path) -> Seen:
    """The caller may decide, and nothing else; an older build knows no rights."""
    with governed(build, folder, callers=_callers(build, "desk", [f"decide:{DECISION}"])) as server:
        known = json.loads(server.decide("desk").text)["id"]
        answers = [_override(server, known, "pass", "desk"), _outcome(server, known, "desk")]
    return Seen(
        "; ".join(f"{answer.status} {answer.text[:80]}" for answer in answers), all(a.status == 403 for a in answers)
    )


@attempt("an override is taken with an outcome that the policy does not have")
def override_with_an_unknown_outcome(build: Build, folder: Path) -> Seen:
    """By somebody who may override."""
    with governed(build, folder) as server:
        known = json.loads(server.decide().text)["id"]
        refused, taken = _override(server, known, "banana"), _override(server, known, "reject")
    return Seen(f"{refused.status} {refused.text[:160]}", holds=refused.status == 400 and taken.status == 200)


@attempt("`decisions show` gives the name that an override states, and not who was authenticated")
def override_under_another_name(build: Build, folder: Path) -> Seen:
    """Caller `desk` says that `boss` overrode."""
    with governed(build, folder, callers=_callers(build, "desk", ["decide", "override"])) as server:
        known = json.loads(server.decide("desk").text)["id"]
        _override(server, known, "reject", "desk")
        command = [build.flyball, "decisions", "show", known, "--journal-folder", str(server.journal)]
        page = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_COMMAND_S).stdout
    line = next((line.strip() for line in page.splitlines() if "overridden" in line), "no override is shown")
    return Seen(line, holds="boss" in line and "caller desk" in line)


def _override(server: Server, known: str, outcome: str, key: str | None = None) -> Answer:
    return _told(server, "/v1/overrides", {"id": known, "outcome": outcome, "by": "boss", "why": "because"}, key)


def _outcome(server: Server, known: str, key: str) -> Answer:
    return _told(server, "/v1/outcomes", {"id": known, "truth": "fraud"}, key)


def _told(server: Server, path: str, document: dict[str, str], key: str | None) -> Answer:
    """As this build has it; one that knows no `decision` here is told without."""
    answer = server.ask("POST", path, {**document, "decision": DECISION}, key)
    return server.ask("POST", path, document, key) if "unknown field" in answer.text else answer


def _callers(build: Build, name: str, may: list[str]) -> list[dict[str, object]]:
    command = [build.flyball, "caller", "may", "--help"]
    rights = subprocess.run(command, capture_output=True, check=False, timeout=_COMMAND_S).returncode == 0
    return [{"name": name, **({"may": may} if rights else {})}]
