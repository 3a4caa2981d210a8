"""`make conformance`: drive flyballd with third-party clients, and write docs/reference/conformance.md.

Run:  python -m conformance [--only GROUP …] [--json]   from the repository's root; the make target builds first.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from bench.claims.report import exit_with
from bench.claims.subjects import FLYBALLD, need
from conformance import environments
from conformance.case import FAIL, PASS, SKIPPED, Row
from conformance.groups import GROUPS, Group, Part
from conformance.originals import section
from conformance.page import Findings, record_text
from conformance.runner import CASE_S
from conformance.servers import serving
from flyball.cli.progress import progress_on

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conformance.addresses import Addresses

PAGE = Path("docs/reference/conformance.md")
RECORD = Path("bench/results/conformance.json")
_ROOT = Path(__file__).resolve().parents[1]
_PART_S = 15 * CASE_S


def main() -> int:
    """Run the groups; the exit code is 1 if a row fails."""
    known = {group.name: group for group in GROUPS}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(known), metavar="GROUP", help=", ".join(known))
    parser.add_argument("--json", action="store_true", help="print the record as JSON; other output goes to stderr")
    parser.add_argument("--flyballd", type=Path, default=FLYBALLD, help="the server's binary")
    arguments = parser.parse_args()
    chosen = [known[name] for name in arguments.only or known]
    flyballd = need(arguments.flyballd).resolve()
    out = Console(stderr=True, highlight=False, soft_wrap=True)
    findings = Findings(_build(flyballd), environments.versions(), _run(flyballd, chosen, out))
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_text(record_text(findings))
    if not arguments.only:  # a page of some groups would drop the others
        PAGE.write_text(section.replaced(findings.page(), section.kept(PAGE.read_text())))
    if arguments.json:
        sys.stdout.write(record_text(findings))
    for row in findings.rows:
        if row.verdict == FAIL:
            out.print(f"fail  {row.group}: {row.what}\n      {row.reason}", style="red", markup=False)
    out.print(f"{len(findings.rows)} rows, {findings.failed} fail. Record: {RECORD}")
    return 1 if findings.failed else 0


def _run(flyballd: Path, chosen: Sequence[Group], out: Console) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="fb-") as folder, serving(flyballd, Path(folder)) as addresses:
        for group in chosen:
            python = environments.python(group.environment)
            with progress_on(out) as progress:
                step = progress.begin(group.name, 1.0)
                found: list[Row] = []
                for part in group.parts:
                    for row in _rows(python, group, part, addresses):
                        found.append(row)
                        step.update(0.5, f"{len(found)} rows")
                step.end(", ".join(f"{sum(row.verdict == word for row in found)} {word}" for word in (PASS, FAIL, SKIPPED)))
            rows += found
    return rows


def _rows(python: Path, group: Group, part: Part, addresses: Addresses) -> Iterator[Row]:
    """The rows of one module, run by its client's interpreter."""
    command = [str(python), "-m", "conformance.runner", part.module, group.name]
    inherited = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile(mode="w+") as words:
        given.write(str(addresses.with_flavour(part.flavour)).encode())
        given.seek(0)
        child = subprocess.Popen(
            command,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=words,
            text=True,
            env={**inherited, "PYTHONPATH": f"{_ROOT}:{_ROOT / 'python'}", "GRPC_VERBOSITY": "NONE"},
        )
        too_long = threading.Timer(_PART_S, child.kill)
        too_long.start()
        with child:
            assert child.stdout is not None  # noqa: S101 - asked for above
            for line in child.stdout:
                if line.startswith('{"group":'):  # clients print too
                    row = Row(**json.loads(line))
                    yield dataclasses.replace(row, what=group.row_text(row.what, part))
        too_long.cancel()
        if child.returncode:
            words.seek(0)
            reason = " ".join(words.read().split())[-300:]
            yield Row(group.name, "the client runs to its end", FAIL, f"exit {child.returncode}: {reason}")


def _build(flyballd: Path) -> str:
    return subprocess.run([flyballd, "--version"], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    exit_with(main)
