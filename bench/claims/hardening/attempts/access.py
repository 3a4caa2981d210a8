"""Attempts on access: tensors past a policy, and callers without rights."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

from bench.claims.hardening.attempts import Build, Seen, attempt
from bench.claims.hardening.bypass_tries import TRIES
from bench.claims.hardening.governed_server import DECISION, INPUTS, PLAIN, Answer, Server, governed

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path


@attempt("a governed model's raw score is read by /v2 over HTTP, past its policy")
def raw_score_over_http(build: Build, folder: Path) -> Seen:
    """The plain path, and the versions of both models."""
    with governed(build, folder) as server:
        paths = [f"/v2/models/{DECISION}/infer", *(f"/v2/models/{DECISION}/versions/{n}/infer" for n in (1, 2))]
        answers = [server.ask("POST", path, INPUTS) for path in paths]
    return Seen(_shown(answers), holds=all(answer.status == 403 for answer in answers))


@attempt("a governed model's raw score is read over gRPC, by a call and by a stream")
def raw_score_over_grpc(build: Build, folder: Path) -> Seen:
    """Both ways; a key that nobody knows is ignored where there are no callers."""
    with governed(build, folder) as server:
        told = [_try(server, name) for name in ("gRPC", "a gRPC stream")]
    return Seen("; ".join(text for _, text in told), holds=all(refused for refused, _ in told))


@attempt("a governed model's raw score is written to shared memory")
def raw_score_in_shared_memory(build: Build, folder: Path) -> Seen:
    """Input and output lie in one region."""
    with governed(build, folder) as server:
        told = [_try(server, f"shared memory over {way}") for way in ("HTTP", "gRPC")]
    return Seen("; ".join(text for _, text in told), holds=all(refused for refused, _ in told))


@attempt("a decision is taken down by a repository verb, past its registry")
def decision_unloaded_by_a_repository_verb(build: Build, folder: Path) -> Seen:
    """Unload over HTTP; then the decision is asked for."""
    with governed(build, folder) as server:
        unload = server.ask("POST", f"/v2/repository/models/{DECISION}/unload", {})
        after = server.decide()
    return Seen(
        f"unload {unload.status}, then the decision {after.status}", holds=unload.status == 403 and after.status == 200
    )


@attempt("tensors that are sent to a governed model leave no record")
def tensors_leave_no_record(build: Build, folder: Path) -> Seen:
    """With `expose: tensors`; a build that refuses a document with it is asked without."""
    with governed(build, folder, document={"expose": "tensors"}) as server:
        if server.decide().status == 200:
            return _recorded(server)
    (older := folder / "older").mkdir()
    with governed(build, older) as server:
        seen = _recorded(server)
    return Seen(f"{seen.text} (this build has no 'expose')", seen.holds)


@attempt("every known caller may use every model and decision")
def any_caller_uses_any_model(build: Build, folder: Path) -> Seen:
    """A caller for one model asks the decision; a caller for nothing asks the model."""
    rights = [{"name": "modeller", "may": [f"infer:{PLAIN}"]}, {"name": "idle", "may": []}]
    with _with_callers(build, folder, rights) as server:
        answers = [server.decide("modeller"), server.ask("POST", f"/v2/models/{PLAIN}/infer", INPUTS, "idle")]
        meant = server.ask("POST", f"/v2/models/{PLAIN}/infer", INPUTS, "modeller")
    return Seen(_shown(answers), holds=all(answer.status in (403, 404) for answer in answers) and meant.status == 200)


@attempt("every known caller reads /metrics, the index and the OpenAPI page")
def any_caller_reads_metrics_and_index(build: Build, folder: Path) -> Seen:
    """A caller for one model asks for what concerns all; a caller for nothing asks for the pages."""
    rights = [{"name": "modeller", "may": [f"infer:{PLAIN}"]}, {"name": "idle", "may": []}]
    with _with_callers(build, folder, rights) as server:
        metrics = server.ask("GET", "/metrics", key="modeller").status
        index = server.ask("POST", "/v2/repository/index", key="modeller").text
        pages = server.ask("GET", "/openapi.json", key="idle").status
    named = f'"{DECISION}"' in index
    text = f"/metrics {metrics}, the index names {'the decision' if named else 'its own model only'}, OpenAPI {pages}"
    return Seen(text, holds=metrics == 403 and not named and pages == 403)


@attempt("an error tells a caller which models there are that it may not use")
def errors_name_models_of_others(build: Build, folder: Path) -> Seen:
    """A name that is there and one that is not must be answered alike."""
    with _with_callers(build, folder, [{"name": "modeller", "may": [f"infer:{PLAIN}"]}]) as server:
        there = server.ask("POST", f"/v2/models/{DECISION}/versions/9/infer", INPUTS, "modeller")
        nowhere = server.ask("POST", "/v2/models/nowhere/versions/9/infer", INPUTS, "modeller")
    alike = (there.status, there.text.replace(DECISION, "nowhere")) == (nowhere.status, nowhere.text)
    return Seen(f"{there.status} {there.text[:90]}", holds=alike and DECISION not in nowhere.text)


def _with_callers(build: Build, folder: Path, callers: list[dict[str, Any]]) -> AbstractContextManager[Server]:
    """Callers with their rights; a build that knows no rights knows the callers alone."""
    command = [build.flyball, "caller", "may", "--help"]
    rights = subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 0
    return governed(build, folder, callers=callers if rights else [{"name": caller["name"]} for caller in callers])


def _recorded(server: Server) -> Seen:
    answer = server.ask("POST", f"/v2/models/{DECISION}/infer", INPUTS)
    server.ask("POST", "/v1/journal/seals", {})  # answers once all of it is on the disk
    facts = server.ask("GET", "/v1/journal").text
    recorded = '"tensors":1' in facts.replace(" ", "")
    return Seen(f"{answer.status}, {'one record' if recorded else 'no record'}", holds=answer.status == 200 and recorded)


def _try(server: Server, name: str) -> tuple[bool, str]:
    return next(one for one in TRIES if one.name == name).run(server)


def _shown(answers: list[Answer]) -> str:
    return "; ".join(f"{answer.status} {'the raw score' if answer.scores else answer.text[:60]}" for answer in answers)
