"""Writes a run's results as a page and as a record. Neither has a date: equal runs give equal bytes."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from conformance.case import FAIL, PASS, SKIPPED, Row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HEAD = """\
# Conformance

This page shows which third-party clients work with `flyballd` unmodified. `make conformance` installs them, makes the
models, starts a server with every option enabled and one with defaults, runs every row and writes this page; it fails if a
row fails.

<!-- written by `make conformance`; do not edit -->
"""


@dataclass(frozen=True, slots=True)
class Findings:
    """All rows of a run, in the page's order."""

    build: str
    clients: Mapping[str, str]
    rows: Sequence[Row]

    @property
    def failed(self) -> int:
        """The number of failed rows."""
        return sum(row.verdict == FAIL for row in self.rows)

    def record(self) -> dict[str, Any]:
        """The JSON record."""
        return {
            "build": self.build,
            "clients": dict(self.clients),
            "counts": dict(Counter(row.verdict for row in self.rows)),
            "rows": [asdict(row) for row in self.rows],
        }

    def page(self) -> str:
        """The Markdown page."""
        names = list(dict.fromkeys(row.group for row in self.rows))
        parts = [_HEAD, self._clients(), self._counts(names), self._skips()]
        parts += [self._group(name) for name in names]
        return "\n".join(parts)

    def _clients(self) -> str:
        lines = [f"| {client} | {version} |\n" for client, version in self.clients.items()]
        return "| client | version |\n|---|---|\n" + "".join(lines)

    def _counts(self, names: Sequence[str]) -> str:
        lines = []
        for name in [*names, ""]:
            found = Counter(row.verdict for row in self.rows if name in (row.group, ""))
            lines.append(f"| {name or '**all**'} | {found[PASS]} | {found[FAIL]} | {found[SKIPPED]} |\n")
        return "| group | pass | fail | skipped |\n|---|---|---|---|\n" + "".join(lines)

    def _skips(self) -> str:
        reasons = dict.fromkeys(row.reason for row in self.rows if row.verdict == SKIPPED)
        if not reasons:
            return ""
        lines = [f"- {reason}.\n" for reason in reasons]
        return "## Why rows are skipped\n\n" + "".join(lines)

    def _group(self, name: str) -> str:
        lines = [f"| {_cell(row.what)} | {row.verdict} | {_cell(row.reason)} |\n" for row in self.rows if row.group == name]
        return f"## {name}\n\n| what | verdict | reason |\n|---|---|---|\n" + "".join(lines)


def record_text(findings: Findings) -> str:
    """The record's bytes."""
    return json.dumps(findings.record(), indent=1, ensure_ascii=False) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
