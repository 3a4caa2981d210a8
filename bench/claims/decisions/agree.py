"""Topic: online, offline and a handwritten reference agree bit for bit on random rows."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bench.claims.bars import none
from bench.claims.claim import Claim, Topic
from bench.claims.figures import wrong_of
from flyball.decision.decision import Decision
from flyball.errors import FlyballError
from tests.reference import agree as reading
from tests.reference import loan, loan_rows

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.tails.stand import Stand

ROWS, QUICK_ROWS, SEED = 100_000, 2_000, 20261115
_SCORE_S = 900
ONLINE, OFFLINE = "online and the reference", "offline and the reference"


def measure(stand: Stand) -> None:
    """The same rows three ways."""
    folder = stand.folder / "loan"
    folder.mkdir()
    shutil.copy(reading.SPEC, folder / "loan.yaml")
    model = loan_rows.make_model(folder / "loan.onnx")
    rows = loan_rows.rows(QUICK_ROWS if stand.quick else ROWS, SEED)
    wanted = loan.Loan(model).decide(rows)
    stand.tell(f"{len(rows):,} rows, {sum(bool(one.faults) for one in wanted):,} of them not as the schema wants them")
    index = Decision.load(folder / "loan.yaml").bundle().write(folder / "snapshot")
    with stand.serve_snapshot(index) as server:
        online = reading.differences(wanted, reading.online(urlsplit(server.url).netloc, rows), reading.apart_online)
    _keep(stand, ONLINE, len(rows), online)
    scored = _scored(folder, loan_rows.write_jsonl(folder / "rows.jsonl", rows))
    offline = reading.differences(wanted, reading.offline(scored), reading.apart_offline)
    _keep(stand, OFFLINE, len(rows), offline)


def _keep(stand: Stand, which: str, rows: int, apart: list[str]) -> None:
    stand.keep(which, {"total": rows, "wrong": len(apart), "examples": apart[:20]})


def _scored(folder: Path, rows: Path) -> Path:
    out = folder / "scored.jsonl"
    command = [sys.executable, "-m", "flyball", "score", str(folder / "loan.yaml")]
    done = subprocess.run(
        [*command, "--data", str(rows), "--out", str(out)], capture_output=True, text=True, timeout=_SCORE_S, check=False
    )
    if done.returncode:
        raise FlyballError(f"flyball score ended with {done.returncode}: {done.stderr[-400:]}")
    return out


TOPIC = Topic(
    "agree",
    measure,
    subject="a loan decision by server, `flyball score` and a reference written by hand: faults, outcome, reasons, score",
    sample=f"{ROWS:,} random rows: missing, extreme, of wrong types, unseen categories, any script",
    claims=(
        Claim(
            "online",
            "rows that server and reference decide differently, to the last bit of the score",
            none(),
            wrong_of(ONLINE),
        ),
        Claim("offline", "rows that `flyball score` and reference decide differently", none(), wrong_of(OFFLINE)),
    ),
)
