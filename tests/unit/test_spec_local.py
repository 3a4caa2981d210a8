"""A decision in this process: it starts when it is needed, ends with its object, and is never half there."""

import gc
import json
import threading

import pytest

import flyball as fb
from flyball.decision.local import LocalServer
from flyball.documents.snapshot import Bundle
from flyball.documents.snapshot.store import canonical, digest_of
from tests.support.decision_folders import PLAIN, plain, plain_rows

ROW = {"card_id": "c", "amount": 1.0, "currency": "EUR", "country": "DE"}


@pytest.fixture
def decision(tmp_path):
    with fb.Decision.load(plain(tmp_path)) as made:
        yield made


def test_nothing_starts_before_it_is_needed_and_a_refused_decision_starts_nothing(tmp_path):
    decision = fb.Decision.load(plain(tmp_path, PLAIN.replace("large &&", "lage &&")))
    with pytest.raises(fb.DecisionRefusedError, match="large"):
        decision.decide(ROW)
    assert decision._server is None


def test_what_is_decided_does_not_depend_on_who_else_asks(decision):
    rows = plain_rows(64)
    alone = [row.decided.score if row.decided else None for one in rows for row in decision.decide_rows([one])]
    found = {}

    def ask(start):
        found[start] = [row.decided.score if row.decided else None for row in decision.decide_rows(rows[start : start + 16])]

    threads = [threading.Thread(target=ask, args=(start,)) for start in range(0, 64, 16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [score for start in sorted(found) for score in found[start]] == alone


def test_the_server_ends_with_its_object(tmp_path):
    decision = fb.Decision.load(plain(tmp_path))
    decision.decide(ROW)
    server = decision._server
    folder = server._folder
    assert folder.is_dir()
    del decision
    gc.collect()
    assert server._server is None
    assert not folder.exists()


def test_a_deployment_that_is_refused_leaves_the_one_before_as_it_was(decision):
    before = decision.decide(ROW)
    good = decision.bundle()
    document = json.loads(good.documents[0])
    document["decision"]["policy"]["rules"][0]["when"] = "lage && amount > 1.0"
    bad = canonical(document)
    index = json.loads(good.index)
    index["deployments"][0]["digest"] = digest_of(bad)
    index["generation"] = 2
    (ack,) = decision._server._server.apply(Bundle(canonical(index), (bad,)).to_bytes())
    assert ack.state == "refused"
    assert "policy.rules[0].when" in ack.reason
    after = decision.decide(ROW)
    assert (after.policy, after.score) == (before.policy, before.score)


def test_a_snapshot_that_is_refused_does_not_start_a_server(decision):
    document = json.loads(decision.bundle().documents[0])
    document["decision"]["models"] = []
    bad = canonical(document)
    index = canonical({"format": 1, "generation": 1, "deployments": [{"name": "plain", "digest": digest_of(bad)}]})
    with pytest.raises(fb.FlyballError, match="models"):
        LocalServer(Bundle(index, (bad,)))
