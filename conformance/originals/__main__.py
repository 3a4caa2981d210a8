"""`make claim-compat`: run Triton's own suites, and write their section of docs/reference/conformance.md.

Run:  TRITON_QA_DIR=…/server/qa python -m conformance.originals [--only SUITE …]   from the repository's root.

Triton's client repository is TRITON_CLIENT_DIR, by default the folder `client` beside `server`. What a suite lacks here is
its row on the page, and keeps neither the page nor the claims from the other suites. On Debian the clients in other
languages need rustup, Go, and these packages:

    protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libgrpc++-dev rapidjson-dev libcurl4-openssl-dev
    libopencv-dev zlib1g-dev googletest g++ make pkg-config default-jdk-headless maven nodejs npm
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from bench.claims.report import exit_with
from bench.environments import install_lock
from bench.parts.here import NotHereError
from conformance.case import FAIL, Row
from conformance.originals import languages, section
from conformance.originals.languages import LANGUAGES
from conformance.originals.repository import generate
from conformance.originals.suites import EXAMPLES, SUITES
from conformance.originals.verdicts import NOT_BUILT, argued_in_vain, judged
from flyball.cli.progress import progress_on
from flyball.native.machine import build_info

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PAGE = Path("docs/reference/conformance.md")
RECORD = Path("bench/results/compat.json")
_ROOT = Path(__file__).resolve().parents[2]
_HERE = Path(__file__).resolve().parent
_HOW = (
    "clone triton-inference-server/server, client and common into one folder:  make claim-compat TRITON_QA_DIR=…/server/qa"
)


def main() -> int:
    """Run the suites; the exit code is 1 if too few cases pass, or one fails without an argument."""
    names = [suite.name for suite in SUITES]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=names, metavar="SUITE", help=", ".join(names))
    arguments = parser.parse_args()
    out = Console(stderr=True, highlight=False, soft_wrap=True)
    qa = os.environ.get("TRITON_QA_DIR")
    if not qa:
        out.print(f"not measured here    Triton's own suites    TRITON_QA_DIR is not set; {_HOW}")
        return 0
    if not Path(qa, "common", "infer_util.py").is_file():
        raise NotHereError(f"TRITON_QA_DIR: {qa} is not the folder qa of Triton's repository; {_HOW}")
    source = Path(qa).resolve()
    client = Path(os.environ.get("TRITON_CLIENT_DIR") or source.parents[1] / "client").resolve()
    chosen = arguments.only or names
    commit = build_info().commit
    suites = _recorded(commit)
    for suite, found in _run(source, client, chosen, out):
        suites[suite] = found
        _record(commit, suites)
    complete = all(name in suites for name in names)
    rows = judged(row for name in names if complete or name in chosen for row in suites[name])
    if complete:
        PAGE.write_text(section.replaced(PAGE.read_text(), section.section(rows, commit)))
    for row in rows:
        if row.verdict == FAIL:
            out.print(f"fail  {row.group}: {row.what}\n      {row.reason}", style="red", markup=False)
    for row in argued_in_vain(rows):
        out.print(f"passes although its entry says otherwise  {row.group}: {row.what}", style="yellow", markup=False)
    share, failed = section.passed_share(rows), sum(row.verdict == FAIL for row in rows)
    out.print(f"{len(rows)} cases, {share:.1%} of the applicable ones pass, {failed} fail. Record: {RECORD}")
    return 1 if failed or share < section.SHARE_MIN else 0


def _lacks(suite: str, qa: Path, client: Path) -> str | None:
    """What is missing here for a suite."""
    if suite not in EXAMPLES:
        return None
    if not (client / "src").is_dir():
        return f"Triton's client repository is not at {client}; set TRITON_CLIENT_DIR"
    for folder in ("docs/examples/model_repository", "src/test/models"):
        if not (qa.parent / folder).is_dir():
            return f"Triton's folder {folder} is missing beside qa"
    return languages.missing(suite, client) if suite in LANGUAGES else None


def _recorded(commit: str) -> dict[str, list[Row]]:
    """The suites that earlier runs of the same build have finished: `--only` adds to them."""
    if not RECORD.is_file():
        return {}
    record = json.loads(RECORD.read_text())
    # Records once held rows alone. Development builds all have one name, so their runs could be of different code.
    if "suites" not in record or record["commit"] != commit or commit == "development":
        return {}
    return {suite: [Row(**row) for row in rows] for suite, rows in record["suites"].items()}


def _record(commit: str, suites: Mapping[str, list[Row]]) -> None:
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    rows = {suite: [dataclasses.asdict(row) for row in found] for suite, found in suites.items()}
    RECORD.write_text(json.dumps({"commit": commit, "suites": rows}, indent=1, ensure_ascii=False) + "\n")


def _run(qa: Path, client: Path, names: list[str], out: Console) -> Iterator[tuple[str, list[Row]]]:
    """Each suite with its rows, as soon as it has ended."""
    lacking = {name: reason for name in names if (reason := _lacks(name, qa, client))}
    environment = install_lock(_HERE / "requirements.lock", _ROOT / ".parts" / "triton-qa")
    if isinstance(environment, str):
        raise NotHereError(f"cannot install Triton's client: {environment}")
    made = _ROOT / ".parts" / "triton-qa-models"
    generate(qa, environment.python, made)
    built = _ROOT / ".parts" / "triton-clients"
    for name in names:
        # A build knows nothing of flyball: where it fails, a tool or the network is missing.
        if name in LANGUAGES and name not in lacking and (fault := languages.build(name, client, built, environment.python)):
            lacking[name] = fault
    for name, reason in lacking.items():
        out.print(f"{NOT_BUILT}    {name}    {reason}", markup=False)
        yield name, [Row(name, "build", NOT_BUILT, reason)]
    names = [name for name in names if name not in lacking]
    flyball = Path(sys.executable).with_name("flyball")
    # A network of its own: the cases use Triton's ports, which may be taken here.
    command = ["unshare", "-rn", sys.executable, "-m", "conformance.originals.run"]
    rows: list[Row] = []
    with progress_on(out) as progress:
        step = progress.begin("cases", 1.0)
        child = subprocess.Popen(
            [*command, *map(str, (qa, client, made, built, environment.python, flyball)), *names],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
        )
        with child:
            assert child.stdout is not None  # noqa: S101 - asked for above
            for line in child.stdout:
                row = Row(**json.loads(line))
                if rows and rows[-1].group != row.group:
                    yield rows[-1].group, rows
                    rows = []
                rows.append(row)
                step.update(0.5, f"{row.group}, {len(rows)} cases")
        step.end("done")
    if child.returncode:
        raise NotHereError(f"the suites could not be run (exit {child.returncode}); they need `unshare` and user namespaces")
    if rows:
        yield rows[-1].group, rows


if __name__ == "__main__":
    exit_with(main)
