"""Going back to a version that servers would take: releases end, are for some environments, and rest on keys."""

import time
from pathlib import Path

import pytest

from flyball.errors import FlyballError
from flyball.registry.events.sentences import act
from flyball.signing import keys
from tests.support.registry_people import ADA, Desk

DAY_S = 86_400


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def served(desk: Desk, days: int) -> str:
    """A version that reaches production by a release for so many days."""
    ref = desk.register()
    desk.sign(ref, days=days)
    desk.approve(ref)
    desk.promote(ref)
    return ref


def later(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    """From now on it is so many days later."""
    now = time.time() + days * DAY_S
    monkeypatch.setattr(time, "time", lambda: now)


def test_a_version_whose_release_has_ended_is_passed_over_and_the_event_says_so(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for days in (30, 1, 30):
        served(desk, days)
    later(monkeypatch, 2)
    receipt = desk.registry.rollback("fraud", "production", actor=ADA)
    assert (receipt.version, receipt.previous) == (1, 3)
    (passed,) = receipt.event.body["passed_over"]
    assert passed["version"] == 2
    assert passed["why"].startswith("expired: the release of fraud@2 ended on ")
    assert act(receipt.event) == f"rolled production back to fraud@1 from fraud@3, past 2 ({passed['why']})"
    assert desk.registry.verify().findings == []


@pytest.mark.parametrize("policy", ["read", "damaged"])
def test_where_every_release_has_ended_nothing_changes_and_the_words_say_why(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    for days in (1, 1, 30):
        served(desk, days)
    later(monkeypatch, 2)
    if policy == "damaged":
        desk.home.trust.write_bytes(b"{}")
    with pytest.raises(FlyballError, match=r"production cannot go back from fraud@3: fraud@2 \(expired: ") as error:
        desk.registry.rollback("fraud", "production", actor=ADA)
    assert error.value.code == "nothing_before"
    assert desk.registry.handle.state("fraud").placements["production"].version == 3
    refused = list(desk.registry.history("fraud"))[-1]
    assert (refused.kind, refused.body["code"]) == ("refused", "nothing_before")


def test_a_version_that_was_signed_anew_for_other_environments_is_passed_over(desk: Desk) -> None:
    for _ in range(3):
        served(desk, 30)
    desk.sign("fraud@2", environments=["dev"])
    desk.approve("fraud@2")
    receipt = desk.registry.rollback("fraud", "production", actor=ADA)
    assert receipt.version == 1
    assert "wrong_environment: fraud@2 is not released for the environment production, only for dev" in str(
        receipt.event.body["passed_over"]
    )


def test_a_version_that_rests_on_a_revoked_key_is_not_gone_back_to_even_when_it_is_named(desk: Desk) -> None:
    for by in ("bob", "cid", "bob"):
        ref = desk.register()
        desk.sign(ref)
        desk.approve(ref, by=by)
        desk.promote(ref)
    hint = keys.hint(desk.keys["cid"].public_key())
    desk.trust(desk.policy.revoking(hint, "lost laptop", int(time.time())))
    with pytest.raises(FlyballError, match="production cannot go back to fraud@2: key_revoked: ") as error:
        desk.registry.rollback("fraud", "production", actor=ADA, to=2)
    assert error.value.code == "would_be_refused"
    assert desk.registry.rollback("fraud", "production", actor=ADA).version == 1


def test_going_back_does_not_hang_on_the_artifact_store(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        served(desk, 30)

    def away(digest: str) -> bytes:
        raise FlyballError(f"{digest} cannot be had")

    monkeypatch.setattr(desk.registry.handle.store, "read", away)
    assert desk.registry.rollback("fraud", "production", actor=ADA).version == 1
