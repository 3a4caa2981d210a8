"""Tests that need a part which is not here: they fail, unless somebody said that it is left out, and the run names it."""

from collections.abc import Callable

import pytest

from bench.parts.here import NotHereError
from tests.support import parts


def need(name: str) -> None:
    with parts.needing(name):
        raise NotHereError("redis-server is missing; get it: apt-get install redis-server")


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """The environment of a run: what it leaves out, and whether it is `make test-full`."""

    def choose(without: str = "", *, full: bool = False) -> None:
        monkeypatch.setenv(parts.WITHOUT, without)
        monkeypatch.setenv("FLYBALL_TESTS", "full" if full else "")

    return choose


@pytest.mark.parametrize(("name", "full"), [("redis", False), ("redis", True), ("s3", True)])
def test_a_missing_part_fails_its_test_with_the_way_to_get_it_and_to_leave_it_out(
    chosen: Callable[..., None], name: str, full: bool
) -> None:
    chosen(full=full)
    with pytest.raises(pytest.fail.Exception) as failed:
        need(name)
    assert str(failed.value).endswith(f"apt-get install redis-server; or leave its tests out: FLYBALL_WITHOUT={name}")


def test_a_part_that_is_left_out_skips_its_test_even_where_it_is_here(chosen: Callable[..., None]) -> None:
    chosen("s3, redis", full=True)
    with pytest.raises(pytest.skip.Exception, match="without redis: FLYBALL_WITHOUT names it"), parts.needing("redis"):
        raise AssertionError("the test ran")


def test_a_part_that_only_test_full_fetches_is_expected_there_alone(chosen: Callable[..., None]) -> None:
    chosen()
    with pytest.raises(pytest.skip.Exception, match="without s3: make test-full fetches it"):
        need("s3")


def test_a_part_that_nobody_knows_is_refused(chosen: Callable[..., None]) -> None:
    chosen("reddis")
    with pytest.raises(pytest.UsageError, match="unknown part reddis; known: cc, redis, "):
        need("postgres")


def test_a_program_is_what_its_variable_names_or_on_the_path(
    chosen: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen()
    monkeypatch.delenv("THE_SHELL", raising=False)
    assert parts.program("cc", "sh", variable="THE_SHELL").endswith("/sh")
    monkeypatch.setenv("THE_SHELL", "/nowhere/sh")
    with pytest.raises(pytest.fail.Exception, match="cc is missing; get it: apt-get install gcc"):
        parts.program("cc", "sh", variable="THE_SHELL")


def test_the_summary_names_each_part_with_its_reason_and_how_many_tests_it_took() -> None:
    skipped = [
        "Skipped: without s3: make test-full fetches it",
        "Skipped: only root is warned",
        "Skipped: without redis: FLYBALL_WITHOUT names it",
        "Skipped: without s3: make test-full fetches it",
    ]
    assert parts.summary(skipped) == [
        "without redis: FLYBALL_WITHOUT names it (1 test)",
        "without s3: make test-full fetches it (2 tests)",
    ]
