"""A rollback under load: asked of the admin API, done by a server that follows the registry, noticed by no caller."""

import json
import time
from collections import Counter
from pathlib import Path

import pytest

from bench.claims.callers import Answer, Callers
from flyball.registry.remote.registry import RemoteRegistry
from tests.support import onnx_models
from tests.support.registry_people import ADA, Desk
from tests.support.registry_servers import following
from tests.support.serving import until
from tests.support.wire import infer_path, json_request

CALLERS = 4
AFTER = 50
"""Answers that each caller must have got to questions that it asked after the acknowledgement."""


def question(_number: int) -> tuple[str, bytes]:
    return infer_path("fraud"), json.dumps(json_request(onnx_models.row("linear", 1))).encode()


def version(answer: Answer) -> str | None:
    """The version that gave it; none where it was refused or lost."""
    return answer.content["model_version"] if answer.status == 200 else None


def each_has(callers: Callers, count: int, since: float) -> bool:
    """Whether every caller has so many answers to questions from then on."""
    return all(sum(one.asked >= since for one in answers) >= count for answers in callers.answers)


def applied(remote: RemoteRegistry, version: int) -> bool:
    """Whether the server said that it serves this version."""
    return any(node.state == "applied" and node.version == version for node in remote.status("fraud").nodes)


@pytest.mark.timeout(90)
def test_a_rollback_under_load_fails_no_request_and_the_bad_version_answers_nobody_afterwards(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    for seed in (1, 2):
        desk.promote(desk.ready(seed=seed))
    with following(desk) as (server, remote), Callers(server.url, [question] * CALLERS) as callers:
        until("the server says that it serves version 2", lambda: applied(remote, 2))
        until("callers are answered by it", lambda: each_has(callers, AFTER, 0.0))
        receipt = remote.rollback("fraud", "production", actor=ADA, reason="it is worse")
        assert (receipt.version, receipt.previous) == (1, 2)
        until("the server says that it serves version 1", lambda: applied(remote, 1))
        acknowledged = time.monotonic()
        until("callers are answered after that", lambda: each_has(callers, AFTER, acknowledged))
    told = Counter(map(version, callers.all()))
    assert told.keys() == {"1", "2"}, "each is answered, and it was under load before and after"
    assert set(map(version, callers.all(acknowledged))) == {"1"}
    history = [event for event in desk.registry.history("fraud") if event.kind == "rolled_back"]
    assert [(event.actor, event.reason) for event in history] == [("deploys", "it is worse")]
