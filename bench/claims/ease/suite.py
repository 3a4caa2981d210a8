"""The topics of `make claim-ease`."""

from __future__ import annotations

from bench.claims.claim import Suite
from bench.claims.ease import examples, readme, suites

SUITE = Suite(
    "ease",
    "A new user's first hour",
    "",
    (suites.MISTAKES, suites.FORMS, suites.ASYNC, suites.LINES, readme.TOPIC, examples.TOPIC),
)
