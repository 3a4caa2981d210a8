"""No way around a policy: the tries of `make claim-hardening`, each refused and counted; and what a right opens."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.claims.hardening.attempts import Build
from bench.claims.hardening.bypass_tries import CALLERS, TRIES, counted
from bench.claims.hardening.governed_server import DECISION, INPUTS, PLAIN, Server, governed
from tests.support.serving import REPOSITORY


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with governed(Build(REPOSITORY), tmp_path_factory.mktemp("bypass"), callers=CALLERS) as running:
        yield running


def test_there_are_forty_ways_to_try() -> None:
    assert len({one.name for one in TRIES}) == 40


@pytest.mark.parametrize("one", TRIES, ids=lambda one: one.name)
def test_a_way_around_the_policy_is_refused_and_counted(server: Server, one: object) -> None:
    before = counted(server)
    refused, told = one.run(server)  # type: ignore[attr-defined]
    assert refused, told
    assert counted(server) > before, told


def test_those_with_a_right_are_answered(server: Server) -> None:
    assert server.decide("decider").status == 200
    assert server.ask("POST", f"/v2/models/{PLAIN}/infer", INPUTS, "modeller").scores


def test_the_refusal_says_what_to_call_instead_to_those_who_may_see_it(server: Server) -> None:
    path = f"/v2/models/{DECISION}/infer"
    told = server.ask("POST", path, INPUTS, "full")
    wanted = "model 'pay' serves decision 'pay'; call POST /v1/decisions/pay, or set 'expose: tensors' in its spec"
    assert (told.status, wanted in told.text) == (403, True)
    unseen = server.ask("POST", path, INPUTS, "modeller")
    nowhere = server.ask("POST", "/v2/models/nowhere/infer", INPUTS, "modeller")
    assert unseen.status == nowhere.status == 404
    assert unseen.text.replace("'pay'", "'nowhere'") == nowhere.text
    assert "; serving: price" in nowhere.text


def test_lists_have_what_a_caller_may_see(tmp_path: Path) -> None:
    with governed(Build(REPOSITORY), tmp_path, callers=CALLERS) as server:
        for path, method in (
            ("/v2/repository/index", "POST"),
            ("/v2/models/stats", "GET"),
            ("/v1/deployments", "GET"),
            ("/v1/decisions", "GET"),
        ):
            seen = server.ask(method, path, key="modeller").text
            assert f'"{DECISION}"' not in seen, path
            assert server.ask(method, path, key="idle").status == 403, path
        assert f'"{DECISION}"' in server.ask("POST", "/v2/repository/index", key="decider").text
        assert f'"{DECISION}"' in server.ask("GET", "/v1/decisions", key="decider").text
        for path in ("/openapi.json", "/v2", "/metrics", "/v1/journal"):
            assert server.ask("GET", path, key="idle").status == 403, path
            assert server.ask("GET", path, key="full").status == 200, path
        for path in ("/v2/health/live", "/v2/health/ready"):
            assert server.ask("GET", path, key="idle").status == 200, path
