"""Third-party programs that tests need: where each comes from, and which are left out on purpose.

A missing part fails its tests. It is left out where FLYBALL_WITHOUT names it (`FLYBALL_WITHOUT=redis,s3`), and, outside
`make test-full`, where only that fetches it. Either way the summary of the run names it.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

import pytest

from bench.parts.here import NotHereError

WITHOUT = "FLYBALL_WITHOUT"
_SAYS = "without "


@dataclass(frozen=True, slots=True)
class Part:
    """Where a part comes from, and whether `make test` expects it or `make test-full` alone."""

    get: str
    full: bool = False


PARTS = {
    "cc": Part("apt-get install gcc libc6-dev"),
    "redis": Part("apt-get install redis-server"),
    "postgres": Part("apt-get install postgresql"),
    "virtual-time": Part("make PROFILE=tested build"),
    "s3": Part("make .parts/versitygw", full=True),
    "h2spec": Part("make .parts/h2spec", full=True),
    "mlflow": Part("make .parts/mlflow/ready", full=True),
    "model-signing": Part("make .parts/model-signing/ready", full=True),
}


def left_out() -> frozenset[str]:
    """The parts that FLYBALL_WITHOUT names."""
    named = {name.strip() for name in os.environ.get(WITHOUT, "").split(",")} - {""}
    if unknown := sorted(named - PARTS.keys()):
        raise pytest.UsageError(f"{WITHOUT}: unknown part {', '.join(unknown)}; known: {', '.join(PARTS)}")
    return frozenset(named)


@contextmanager
def needing(name: str) -> Iterator[None]:
    """Skips a test whose part is left out; inside, a part that is not here fails it."""
    if name in left_out():
        pytest.skip(f"{_SAYS}{name}: {WITHOUT} names it")
    try:
        yield
    except NotHereError as error:
        missing(name, str(error))


def missing(name: str, why: str | None = None) -> NoReturn:
    """What becomes of a test whose part is not on this machine; `why` says how to get it."""
    part = PARTS[name]
    if part.full and os.environ.get("FLYBALL_TESTS") != "full":
        pytest.skip(f"{_SAYS}{name}: make test-full fetches it")
    why = why or f"{name} is missing; get it: {part.get}"
    pytest.fail(f"{why}; or leave its tests out: {WITHOUT}={name}", pytrace=False)


def program(name: str, command: str | None = None, *, variable: str | None = None) -> str:
    """The path of a part that is one program: what the variable says, or the command on the path."""
    with needing(name):
        named = (variable and os.environ.get(variable)) or command
        return (named and shutil.which(named)) or missing(name)


def summary(skipped: Iterable[str]) -> list[str]:
    """The parts that a run left out, with the number of tests and the reason; of the reasons of all its skipped tests."""
    reasons = Counter(reason.removeprefix("Skipped: ") for reason in skipped)
    return [
        f"{reason} ({count} {'test' if count == 1 else 'tests'})"
        for reason, count in sorted(reasons.items())
        if reason.startswith(_SAYS)
    ]
