"""A case: a small function whose name is a sentence. It returns if the server is correct, and raises otherwise.

Standard library only: it is imported in every client's own environment.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Run = TypeVar("Run", bound="Callable[..., Any]")

PASS, FAIL, SKIPPED = "pass", "fail", "skipped"
BOTH = ("http", "grpc")


@dataclass(frozen=True)
class Row:
    """The result of one case."""

    group: str
    what: str
    verdict: str
    reason: str = ""


@dataclass(frozen=True)
class Case:
    """A function, the example that it mirrors, its protocols, and why it is skipped."""

    run: Callable[..., Any]
    of: str
    flavours: tuple[str, ...]
    skipped: str

    def what(self, flavour: str) -> str:
        """The row's text."""
        name = f"`{self.of.format(flavour=flavour)}`: " if self.of else ""
        return name + self.run.__name__.replace("_", " ")


CASES: dict[str, list[Case]] = defaultdict(list)  # by module


def case(*, of: str = "", only: str = "", skipped: str = "") -> Callable[[Run], Run]:
    """Register a function as a case of its module."""

    def keep(run: Run) -> Run:
        CASES[run.__module__].append(Case(run, of, (only,) if only else BOTH, skipped))
        return run

    return keep
