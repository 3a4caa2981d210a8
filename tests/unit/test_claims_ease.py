"""The claims about the first hour: what README counts, and what stops a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from bench.claims.ease import examples, readme
from flyball.errors import UsageError
from tests.support.serving import REPOSITORY

if TYPE_CHECKING:
    from bench.claims.claim import Raw
    from bench.claims.tails.stand import Stand


def raw(**ran: dict[str, object]) -> Raw:
    return cast("Raw", {examples.RAN: ran})


def test_readme_needs_at_most_eight_commands_to_a_verified_journal() -> None:
    walk = readme.walk_of((REPOSITORY / "README.md").read_text())
    assert walk.extras == "lightgbm,journal"
    assert walk.commands <= readme.COMMANDS_MAX
    assert walk.page.rstrip().endswith("flyball decisions verify\n```")


def test_a_missing_wheel_is_named_with_the_command_that_builds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "README.md").write_text((REPOSITORY / "README.md").read_text())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"dist/ has no wheel.*\n.*make wheel"):
        readme.measure(cast("Stand", Any))


def test_every_example_has_a_run_that_is_timed() -> None:
    assert list(examples.EXAMPLES) == sorted(path.parent.name for path in (REPOSITORY / "examples").glob("*/run.py"))


def test_the_slowest_example_counts_and_one_that_fails_is_named() -> None:
    (claim,) = examples.TOPIC.claims
    figure = claim.figure(raw(credit={"seconds": 9.0, "fault": ""}, other={"seconds": 3.0, "fault": "exit code 1"}))
    assert (figure.value, figure.beside, figure.fault) == (9.0, "credit", "other: exit code 1")
    assert claim.bar.holds(60)
    assert not claim.bar.holds(60.1)
