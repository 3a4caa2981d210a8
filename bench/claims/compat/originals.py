"""Topic: Triton's public suites and client examples, unmodified, in one run of `conformance.originals`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims.bars import at_least, none, share
from bench.claims.claim import Claim, Figure, NotMeasuredError, Topic
from conformance.case import FAIL, Row
from conformance.originals.section import SHARE_MIN, passed_share
from conformance.originals.suites import SUITES
from conformance.originals.verdicts import NOT_BUILT, judged
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from bench.claims.claim import Raw
    from bench.claims.tails.stand import Stand

ROWS = "suites"
_RECORD = Path("bench/results/compat.json")
_RUN_S = 5_400.0


def measure(stand: Stand) -> None:
    """Run all suites anew; what an earlier run of the same build left is no part of this one."""
    if not os.environ.get("TRITON_QA_DIR"):
        stand.not_measured("TRITON_QA_DIR is not set; clone triton-inference-server/server, client and common side by side")
        return
    _RECORD.unlink(missing_ok=True)
    some = ["--only", SUITES[0].name] if stand.quick else []
    done = subprocess.run([sys.executable, "-m", "conformance.originals", *some], timeout=_RUN_S, check=False)
    if not _RECORD.is_file():
        raise FlyballError(f"conformance.originals ended with {done.returncode} and left no record")
    stand.keep(ROWS, json.loads(_RECORD.read_text())["suites"])


def _rows(raw: Raw) -> list[Row]:
    """The cases with their verdicts and arguments; a suite that was left out makes the claim unmeasured."""
    missing = [suite.name for suite in SUITES if suite.name not in raw[ROWS]]
    if missing:
        raise NotMeasuredError(f"{len(missing)} suites did not run, such as {missing[0]}")
    return judged(Row(**row) for suite in SUITES for row in raw[ROWS][suite.name])


def _passed(raw: Raw) -> Figure:
    rows = _rows(raw)
    lacking = [row.group for row in rows if row.verdict == NOT_BUILT]
    note = f"; {NOT_BUILT}: {', '.join(lacking)}" if lacking else ""
    return Figure(passed_share(rows), f"{len(rows) - len(lacking)} cases{note}")


def _unargued(raw: Raw) -> Figure:
    rows = _rows(raw)
    failed = [f"{row.group}: {row.what}" for row in rows if row.verdict == FAIL]
    return Figure(len(failed), f"of {len(rows)}" + "".join(f": {one}" for one in failed[:1]))


TOPIC = Topic(
    "originals",
    measure,
    subject="Triton's public suites and client examples against `flyball serve`; what differs on purpose is applicable",
    sample=f"{len(SUITES)} suites, each once",
    claims=(
        Claim(
            "passed",
            "cases that pass, among those that apply",
            at_least(SHARE_MIN, share),
            _passed,
            shortfall="13 of the cases want ensembles, which are refused on purpose and count as applicable.",
        ),
        Claim("unargued", "cases that fail without an argument", none(), _unargued),
    ),
)
