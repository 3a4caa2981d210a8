"""The section of the conformance page on Triton's own suites: a table, and why cases do not pass."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from conformance.case import FAIL, PASS
from conformance.originals.verdicts import DIFFERS, NOT_APPLICABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.case import Row

HEADING = "## Triton's own test suites"
SHARE_MIN = 0.95
_VERDICTS = (PASS, DIFFERS, NOT_APPLICABLE, FAIL)


def passed_share(rows: Sequence[Row]) -> float:
    """Passed cases among those that apply."""
    applicable = sum(row.verdict != NOT_APPLICABLE for row in rows)
    return sum(row.verdict == PASS for row in rows) / applicable if applicable else 0.0


def section(rows: Sequence[Row], commit: str) -> str:
    """The Markdown text, which starts with the heading."""
    lines = [
        f"{HEADING}\n",
        "`make claim-compat` runs the original cases of Triton's public repository, folder `qa`, unmodified and on their",
        "own ports, against `flyball serve`. Their models are made by Triton's own generators. ONNX models of the same",
        "name, tensors and answers stand in for fixtures of other backends and for ensembles of one step. The setting",
        "`server_name` is `triton`, which the cases compare.\n",
        f"Commit {commit}. {passed_share(rows):.1%} of the applicable cases pass.\n",
        "| suite | cases | pass | differs on purpose | not applicable | fail |",
        "|---|---|---|---|---|---|",
    ]
    for name in [*dict.fromkeys(row.group for row in rows), ""]:
        found = Counter(row.verdict for row in rows if name in (row.group, ""))
        cells = " | ".join(str(found[verdict]) for verdict in _VERDICTS)
        lines.append(f"| {name or '**all**'} | {sum(found.values())} | {cells} |")
    lines.append("\n| suite | case | verdict | reason |\n|---|---|---|---|")
    lines += [
        f"| {row.group} | `{row.what}` | {row.verdict} | {row.reason.replace('|', chr(92) + '|')} |"
        for row in rows
        if row.verdict != PASS
    ]
    return "\n".join(lines) + "\n"


def replaced(page: str, new: str) -> str:
    """A page with its section replaced; it is the last one."""
    before, _, _ = page.partition(HEADING)
    return f"{before.rstrip()}\n\n{new}"


def kept(page: str) -> str:
    """The section of a page, or nothing."""
    _, heading, after = page.partition(HEADING)
    return heading + after
