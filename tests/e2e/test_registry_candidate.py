"""A candidate from the registry: promoted with a share, signed and approved by its own release, and ended by a promotion."""

from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from flyball.registry.acts.interface import Candidate
from tests.support import binomial_bounds, onnx_models
from tests.support.registry_people import ADA, Desk
from tests.support.registry_servers import following
from tests.support.serving import Server, until
from tests.support.wire import Http, infer_path, json_request

DRAWS = 400
SHARE = Fraction(1, 4)


def answers(server: Server, count: int) -> Counter[str]:
    """How many each version gave."""
    body = json_request(onnx_models.row("linear", 1))
    with Http(server) as connection:
        return Counter(connection.post(infer_path("fraud"), body).json["model_version"] for _ in range(count))


def tried(server: Server) -> object:
    """What the server says that it tries."""
    with Http(server) as connection:
        return next(one for one in connection.get("/v1/deployments").json["deployments"] if one["state"] == "applied")[
            "candidate"
        ]


@pytest.mark.timeout(90)
def test_a_candidate_gets_its_share_until_it_is_promoted_in_full(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.promote(desk.ready(seed=1))
    second = desk.ready(seed=2)
    desk.promote(second, "staging")
    with following(desk) as (server, remote):
        assert answers(server, 20) == {"1": 20}
        remote.promote(second, "production", actor=ADA, reason="a quarter first", candidate=Candidate(float(SHARE), False))
        until("it is tried", lambda: tried(server) is not None)
        assert tried(server) == {"versions": ["2"], "share": float(SHARE), "shadow": False}
        by = answers(server, DRAWS)
        assert by["2"] in binomial_bounds.within(DRAWS, SHARE), by
        assert set(by) == {"1", "2"}
        remote.promote(second, "production", actor=ADA, reason="it is better")
        until("it is no longer tried", lambda: tried(server) is None)
        assert answers(server, 20) == {"2": 20}
    placed = {one.environment: one for one in desk.registry.status("fraud").placements}["production"]
    assert (placed.version, placed.candidate, placed.actor) == (2, None, "deploys")
