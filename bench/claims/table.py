"""The one table of claims: every suite, in the order of the page. Everything that lists claims reads it."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.claims.claim import Suite

NAMES = (
    "skeleton",
    "bench",
    "tails",
    "protocol",
    "decisions",
    "journal",
    "registry",
    "convert",
    "compat",
    "ease",
    "hardening",
    "endurance",
    "truth",
)


@cache
def suites() -> tuple[Suite, ...]:
    """All suites; importing their topics takes seconds, so it happens when the table is read."""
    found: tuple[Suite, ...] = tuple(importlib.import_module(f"bench.claims.{name}.suite").SUITE for name in NAMES)
    return found
