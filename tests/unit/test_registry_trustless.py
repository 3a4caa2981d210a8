"""A registry whose trust policy is damaged, has expired or is an old one: it can be read, and production can go back."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flyball.cli.registry.text import approvals, waits_for
from flyball.errors import FlyballError, SignatureError
from flyball.signing.strict import written
from flyball.signing.trust import sign_policy
from tests.support.registry_people import ADA, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def damage(desk: Desk) -> str:
    desk.home.trust.write_bytes(desk.home.trust.read_bytes()[:200])
    return "malformed"


def expire(desk: Desk) -> str:
    policy = desk.policy.model_copy(update={"expires": written(int(time.time()) - 1)})
    desk.home.trust.write_bytes(sign_policy(policy, [desk.root]))
    return "trust_expired"


def lose_root(desk: Desk) -> str:
    desk.home.trust_root.write_text("nothing")
    return "usage"


def replay(desk: Desk) -> str:
    """The policy of before somebody changed it, and another process acted by the new one."""
    older = desk.home.trust.read_bytes()
    desk.trust(desk.policy.with_minimum("other", 2, int(time.time())))
    other = desk.opened()
    other.handle.trust()
    other.close()
    desk.home.trust.write_bytes(older)
    return "trust_downgrade"


BREAKS = [damage, expire, lose_root, replay]


@pytest.mark.parametrize("spoil", BREAKS)
def test_it_can_be_read_and_how_many_must_approve_is_unknown(desk: Desk, spoil: Callable[[Desk], str]) -> None:
    ref = desk.ready()
    desk.promote(ref)
    spoil(desk)
    shown = desk.registry.show(ref)
    assert (shown.approvals_needed, shown.state, len(shown.approvals)) == (None, "signed", 1)
    assert approvals(shown) == "1 of ? (bob)"
    assert waits_for(shown)[0] == "flyball trust show"
    assert '"approvals_needed":null' in shown.model_dump_json()
    status = desk.registry.status()
    assert [one.version for one in status.placements if one.environment == "production"] == [1]
    assert [one.approvals_needed for one in status.waiting] == [None]
    assert [one.newest for one in desk.registry.names()] == [1]
    assert [one.number for one in desk.registry.versions("fraud")] == [1]


@pytest.mark.parametrize("spoil", BREAKS)
def test_production_goes_back_to_what_stands_as_it_was_placed(desk: Desk, spoil: Callable[[Desk], str]) -> None:
    for _ in range(2):
        desk.promote(desk.ready())
    spoil(desk)
    assert desk.registry.rollback("fraud", "production", actor=ADA).version == 1
    desk.registry.alias("fraud", "best", 1, actor=ADA)


@pytest.mark.parametrize("spoil", BREAKS)
def test_nothing_is_promoted_and_the_words_are_about_the_policy(desk: Desk, spoil: Callable[[Desk], str]) -> None:
    ref = desk.ready()
    code = spoil(desk)
    with pytest.raises(FlyballError) as error:
        desk.registry.promote(ref, "dev", actor=ADA)
    assert getattr(error.value, "reason", error.value.code) == code


def test_an_old_policy_is_refused_by_every_act_once_one_was_judged_by_a_newer_and_not_for_being_read(desk: Desk) -> None:
    ref, older = desk.register(), desk.home.trust.read_bytes()
    desk.trust(desk.policy.with_minimum("other", 2, int(time.time())))
    desk.registry.status()
    newer = desk.home.trust.read_bytes()
    desk.home.trust.write_bytes(older)
    desk.sign(ref)  # nobody has acted by the newer one
    desk.home.trust.write_bytes(newer)
    desk.sign(ref)
    desk.home.trust.write_bytes(older)
    for act in (lambda: desk.sign(ref), lambda: desk.approve(ref)):
        with pytest.raises(SignatureError) as error:
            act()
        assert error.value.reason == "trust_downgrade"
    desk.registry.rebuild()
    with pytest.raises(SignatureError, match="trust_downgrade"):
        desk.approve(ref)
    desk.home.trust.write_bytes(newer)
    desk.approve(ref)


def test_a_version_that_was_signed_anew_since_is_not_gone_back_to_and_the_next_step_helps(desk: Desk) -> None:
    for _ in range(2):
        desk.promote(desk.ready())
    desk.sign("fraud@1")
    desk.approve("fraud@1", by="cid")
    damage(desk)
    with pytest.raises(FlyballError, match="signed again since it served, and the trust policy is unreadable") as error:
        desk.registry.rollback("fraud", "production", actor=ADA)
    assert error.value.next_step == "repair the trust policy first:  flyball trust show"
