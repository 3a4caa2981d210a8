"""Whether pages, records and ledgers agree, and whether records are too old for a release. Must not measure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.claims import ages, ledger, page
from bench.claims.ages import AGE_MAX, fresh
from bench.claims.record import RECORDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.claims.claim import Suite

MAKE = "make claims-page"


def faults(suites: Sequence[Suite], results: Path = RECORDS) -> list[str]:
    """What is wrong with docs/claims.md and the records under it; fails where a record was edited or removed."""
    written = page.PAGE.read_text()
    template = (page.TEMPLATES / page.PAGE.name).read_text()
    found = page.undeclared(suites, results)
    if page.render(template, suites, page.as_of(written), results) != written:
        found.append(f"{page.PAGE} is not what claims and records give:  {MAKE}")
    return found + rewritten(results)


def rewritten(results: Path = RECORDS) -> list[str]:
    """Ledgers of which an earlier commit has lines that are gone."""
    return [
        f"{path}: lines of an earlier commit are gone; records are never removed"
        for path in sorted(results.glob(f"*/*/{ledger.NAME}"))
        if any(not path.read_text().startswith(before) for before in ages.earlier_versions(str(path)))
    ]


def stale(suites: Sequence[Suite], results: Path = RECORDS) -> list[str]:
    """Suites without a whole run of a clean tree, shipped as built, within the last commits."""
    found = []
    for suite in suites:
        records = [record for folder in page.folders_of(suite, results) for record in folder.records]
        whole = [record for record in records if page.is_whole(record, suite)]
        if not any(fresh(record.head) for record in whole):
            newest = max((record.head.started for record in whole), default="never")
            found.append(f"make claim-{suite.name}: no whole run within {AGE_MAX} commits; newest: {newest}")
    return found
