"""`flyball status` tells what ends under what is placed, before a server that starts anew finds out."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from flyball.registry.views import EndingView
from tests.support.command_line import flyball
from tests.support.registry_people import ADA, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def placed(desk: Desk, days: int = 30) -> str:
    ref = desk.register()
    desk.sign(ref, days=days)
    desk.approve(ref)
    desk.registry.promote(ref, "dev", actor=ADA)
    return ref


def told(desk: Desk) -> list[EndingView]:
    return desk.registry.status("fraud").endings


def later(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    """The registry is asked so many days from now."""
    now = time.time() + days * 86_400

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.fromtimestamp(now, tz)

    monkeypatch.setattr("flyball.registry.reads.datetime", Later)
    monkeypatch.setattr("flyball.registry.handle.time.time", lambda: now)


def test_nothing_is_said_while_nothing_ends(desk: Desk) -> None:
    placed(desk)
    assert told(desk) == []


def test_a_release_that_ends_soon_is_told_with_the_days_that_are_left(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    placed(desk, days=30)
    later(monkeypatch, 26.5)
    (one,) = told(desk)
    assert not one.ended
    assert one.words.startswith("fraud@1 in dev: its release ends in 3 days, ")
    assert "running servers keep it; a restarted one refuses it" in one.words


def test_a_release_that_ended_is_told_as_long_as_it_is_placed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    placed(desk, days=30)
    later(monkeypatch, 31.5)
    (one,) = told(desk)
    assert one.ended
    assert "its release ended 1 day ago" in one.words
    monkeypatch.setenv("COLUMNS", "300")
    shown = flyball("status", "--registry", desk.home.folder)
    assert any(line.startswith("! fraud@1 in dev: its release ended 1 day ago") for line in shown.stdout)


def test_a_version_below_the_minimum_is_told(desk: Desk) -> None:
    placed(desk)
    desk.trust(desk.policy.with_minimum("fraud", 4, int(time.time())))
    (one,) = told(desk)
    then = "running servers keep it; a restarted one refuses it"
    assert one.words.startswith(f"fraud@1 in dev is below the minimum, 4: {then}")


def test_the_key_of_an_approver_that_ends_soon_is_told(desk: Desk) -> None:
    placed(desk)
    soon = datetime.fromtimestamp(time.time() + 5 * 3600 + 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    keys = [key.model_copy(update={"until": soon}) if key.name == "bob" else key for key in desk.policy.keys]
    desk.trust(desk.policy.model_copy(update={"keys": keys}))
    (one,) = told(desk)
    assert one.words.startswith("fraud@1 in dev: the key of bob ends in 5 hours, ")


@pytest.mark.parametrize(("days", "ended"), [(85, False), (95, True)])
def test_a_trust_policy_that_ends_is_told(desk: Desk, monkeypatch: pytest.MonkeyPatch, days: int, ended: bool) -> None:
    ref = desk.register()
    desk.sign(ref, days=365)
    desk.approve(ref)
    desk.registry.promote(ref, "dev", actor=ADA)
    expires = datetime.fromtimestamp(time.time() + 90 * 86_400, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    desk.trust(desk.policy.model_copy(update={"expires": expires}))
    later(monkeypatch, days)
    (one,) = told(desk)
    assert (one.what, one.ended) == ("the trust policy", ended)
