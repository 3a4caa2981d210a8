"""The section of the conformance page on Triton's own suites: a table, and why cases do not pass."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from conformance.case import FAIL, PASS
from conformance.originals.verdicts import DIFFERS, NOT_APPLICABLE, NOT_BUILT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conformance.case import Row

HEADING = "## Triton's own test suites"
SHARE_MIN = 0.95
_VERDICTS = (PASS, DIFFERS, NOT_APPLICABLE, FAIL)


_HOW = """\
`make claim-compat` runs the original cases of Triton's public repository, folder `qa`, unmodified and on their own ports,
against `flyball serve`. Every case of a suite's test files counts, whether a step of the runner can run it or not.

What the runner sets up differently from the suites' own scripts:

- Triton's own generators make the models. ONNX models of the same name, tensors and answers stand in for fixtures of other
  backends and for ensembles of one step. They are slow by computing: six seconds where a case cancels a call.
- The settings `server_name` is `triton` and `triton_statuses` is on: the cases compare both.
- Where a suite runs one instance of a model, `compute_lanes` is 1. Where requests wait behind a slow one,
  `--queue-wait-ms-max` is 60000. For large requests `body_bytes_max` is 128 MiB and `answer_bytes_max` is 1 GiB.
- Copies of a small model fill up repositories whose models a case counts.
- `TRITON_SERVER_VERSION`, which cases compare, is flyball's version.
- Checks that the scripts do themselves are not run: those that read Triton's log, and those with `curl`.
- A case has three minutes; the one that loads and unloads a model 32,768 times has fifteen.
"""


def passed_share(rows: Sequence[Row]) -> float:
    """Passed cases among those that apply."""
    applicable = sum(row.verdict not in (NOT_APPLICABLE, NOT_BUILT) for row in rows)
    return sum(row.verdict == PASS for row in rows) / applicable if applicable else 0.0


def section(rows: Sequence[Row], commit: str) -> str:
    """The Markdown text, which starts with the heading."""
    lines = [
        f"{HEADING}\n",
        _HOW,
        f"Commit {commit}. {passed_share(rows):.1%} of the applicable cases pass.\n",
        "| suite | cases | pass | differs on purpose | not applicable | fail |",
        "|---|---|---|---|---|---|",
    ]
    for name in [*dict.fromkeys(row.group for row in rows), ""]:
        found = Counter(row.verdict for row in rows if name in (row.group, "") and row.verdict != NOT_BUILT)
        cells = " | ".join(str(found[verdict]) for verdict in _VERDICTS)
        cases = sum(found.values())
        lines.append(f"| {name or '**all**'} | {cases} | {cells} |" if cases else f"| {name} | {NOT_BUILT} | | | | |")
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
