"""One writer whose clock is ahead: the others go on, what is now stays right, and everybody is told."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flyball.registry.events.log import now_us
from tests.support.registry_people import ADA, Desk

HOUR_US = 3600 * 1_000_000


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Version 1 is placed, then version 2 by somebody whose clock is an hour ahead."""
    made = Desk(tmp_path)
    made.promote(made.ready())
    second = made.ready()
    log = made.registry.handle.log
    with monkeypatch.context() as ahead:
        ahead.setattr(log, "_clock", lambda: now_us() + HOUR_US)
        made.promote(second)
    return made


def placed(desk: Desk, when: datetime | None) -> int:
    (found,) = [one for one in desk.registry.at(when).placements if one.environment == "production"]
    return found.version


def test_now_goes_by_the_last_event_and_the_past_by_its_time(desk: Desk) -> None:
    now = datetime.now(UTC)
    assert placed(desk, None) == placed(desk, now + timedelta(minutes=1)) == 2
    assert placed(desk, now) == 1, "by its time it had not happened then"
    desk.registry.rollback("fraud", "production", actor=ADA)
    assert placed(desk, None) == 1


def test_whoever_writes_after_it_goes_on_and_is_told(desk: Desk) -> None:
    receipt = desk.registry.alias("fraud", "best", 1, actor=ADA)
    assert receipt.warning is not None
    assert "59 minutes ahead of this clock" in receipt.warning
    assert desk.registry.status().warnings == desk.registry.verify().warnings
    assert "minutes ahead" in desk.registry.status().warnings[0]
    assert desk.registry.verify().findings == []


def test_clocks_that_differ_by_little_are_not_worth_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)
    monkeypatch.setattr(desk.registry.handle.log, "_clock", lambda: now_us() + HOUR_US // 20)
    desk.ready()
    monkeypatch.undo()
    assert desk.registry.alias("fraud", "best", 1, actor=ADA).warning is None
    assert desk.registry.status().warnings == desk.registry.verify().warnings == []
