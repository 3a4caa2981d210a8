"""Packages that were fetched to a machine: dropped a day after somebody last used them, and not before."""

import os
import time
from pathlib import Path

import pytest

from flyball.control.state_folder import StateFolder
from flyball.registry.packages.cache import GRACE_S, drop_unused, used
from tests.support.registry_people import Desk


def made(folder: Path, *names: str, age_s: float = 0.0) -> None:
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "model.onnx").write_bytes(b"x")
        os.utime(folder / name, (time.time() - age_s, time.time() - age_s))


def there(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_nobody_used_for_a_day_is_dropped_and_what_is_needed_or_was_used_stays(tmp_path: Path) -> None:
    made(tmp_path, "a1", "a2", "a3", ".half.1f", age_s=GRACE_S + 60)
    made(tmp_path, "b1", ".half.2f", age_s=GRACE_S - 60)
    used(tmp_path / "a2")
    assert sorted(drop_unused(tmp_path, {"a3"})) == [".half.1f", "a1"]
    assert there(tmp_path) == {"a2", "a3", "b1", ".half.2f"}
    assert drop_unused(tmp_path / "nowhere") == []


def test_a_pass_drops_so_many_at_most_the_oldest_first(tmp_path: Path) -> None:
    for number in range(40):
        made(tmp_path, f"p{number:02}", age_s=GRACE_S + 60 + number)
    assert len(drop_unused(tmp_path)) == 32
    assert there(tmp_path) == {f"p{number:02}" for number in range(8)}
    assert len(drop_unused(tmp_path)) == 8


def test_a_registry_s_own_copies_do_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(tmp_path)
    first = desk.ready()
    cache = desk.home.folder / "packages"
    (name,) = there(cache)
    os.utime(cache / name, (0, 0))
    second = desk.registry.show(desk.ready()).root.removeprefix("sha256:")
    assert there(cache) == {second}
    desk.promote(first)
    assert there(cache) == {name, second}, "what is needed again is fetched again"


def test_a_control_loop_keeps_what_is_given_good_or_warm_and_some_of_the_rest_for_a_day(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "state")
    packages = tmp_path / "state" / "packages"
    made(packages, "aa", "bb", "cc", "dd", age_s=GRACE_S + 60)
    made(packages, *(f"e{number:x}" for number in range(12)), age_s=60)
    dropped = state.drop_all_but([b"aa"], [b"bb"], [b"cc"])
    assert "dd" in dropped
    assert {"aa", "bb", "cc"} <= there(packages)
    assert len(there(packages)) == 3 + 8
    state.drop_all_but([b"aa"], [b"bb"])
    assert "cc" in there(packages), "its day begins when nothing needs it any more"
    state.close()
