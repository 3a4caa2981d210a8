"""Topic: online, offline and a handwritten reference agree bit for bit on random rows."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flyball.decision.decision import Decision
from flyball.errors import FlyballError
from tests.reference import agree as reading
from tests.reference import loan, loan_rows

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.tails.stand import Stand

ROWS, QUICK_ROWS, SEED = 100_000, 2_000, 20261115
_SCORE_S = 900


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
    _record(stand, "online and the reference", len(rows), online)
    scored = _scored(folder, loan_rows.write_jsonl(folder / "rows.jsonl", rows))
    offline = reading.differences(wanted, reading.offline(scored), reading.apart_offline)
    _record(stand, "offline and the reference", len(rows), offline)


def _record(stand: Stand, which: str, rows: int, apart: list[str]) -> None:
    stand.keep(which, {"rows": rows, "apart": len(apart), "first": apart[:20]})
    figure = f"{rows - len(apart):,} of {rows:,}" + (f"; {apart[0]}" if apart else "")
    stand.report.record(f"random rows that {which} decide alike", figure, "all", holds=not apart)


def _scored(folder: Path, rows: Path) -> Path:
    out = folder / "scored.jsonl"
    command = [sys.executable, "-m", "flyball", "score", str(folder / "loan.yaml")]
    done = subprocess.run(
        [*command, "--data", str(rows), "--out", str(out)], capture_output=True, text=True, timeout=_SCORE_S, check=False
    )
    if done.returncode:
        raise FlyballError(f"flyball score ended with {done.returncode}: {done.stderr[-400:]}")
    return out
