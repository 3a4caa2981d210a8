"""Servers with a journal for the tests, disks that are too small, and their logs.

Records are read by the second reader (`tests/reference/journal.py`); `verify` is the command that operators have.
"""

import contextlib
import errno
import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reference import journal
from tests.support import serving, snapshots
from tests.support.decision_documents import Json, deployment, document, thousandth
from tests.support.serving import Ending, Server, until
from tests.support.wire import Http, Metrics, Reply, metrics, settled

ACCOUNT = {"name": "account", "type": "string", "key": True, "pii": True}
AMOUNT = {"name": "amount", "type": "float", "min": 0.0, "max": 1_000_000.0}
SEGMENT_BYTES = 1 << 20
SETTINGS: Json = {
    "lanes": 1,
    "journal_segment_bytes": SEGMENT_BYTES,
    "journal_sync_ms": 50,
    "journal_loss_ms_max": 1000,
    "journal_checkpoint_s": 1,
}
_FILL_ROWS, _FILLS_MAX = 500, 60


def command(folder: Path, place: Path, record: Json | None, **settings: Any) -> list[str]:
    """flyballd with the decision `pay`, recorded at `place` as `record` says."""
    changes = {"input": [ACCOUNT, AMOUNT], **({"record": record} if record else {})}
    model = folder / "thousandth.onnx"
    if not model.exists():
        thousandth(folder)
    index = snapshots.write(folder, 1, [deployment(document(**changes), {"1": model})])
    config = folder / "config.json"
    config.write_text(json.dumps({**SETTINGS, "journal_folder": str(place), **settings}))
    return [*serving.flyballd(), "--snapshot", str(index), "--listen", "127.0.0.1:0", "--config", str(config)]


def post_rows(server: Server, count: int) -> Reply:
    """Many rows in one request."""
    rows = [{"id": str(at), "input": {"account": f"a{at}", "amount": at % 1000}} for at in range(count)]
    with Http(server) as connection:
        return connection.post("/v1/decisions/pay", {"rows": rows})


def ask_rows(server: Server, count: int) -> list[Json]:
    """The same, and what became of each."""
    reply = post_rows(server, count)
    assert reply.status == 200, reply.body
    found: list[Json] = reply.json["rows"]
    return found


def ids_of(rows: list[Json]) -> set[bytes]:
    """Of those that were decided."""
    found = [row.get("decision_id") or row["id"] for row in rows if "fault" not in row]
    return {uuid.UUID(one).bytes for one in found}


def verify(place: Path, *more: str) -> Ending:
    """`flyball decisions verify`."""
    return serving.run([*serving.flyball(), "decisions", "verify", "--journal-folder", str(place), *more])


def kept(place: Path) -> list[journal.Segment]:
    """The log, after the second reader found nothing wrong with it."""
    found = journal.segments(place)
    assert journal.faults(found) == []
    return found


def records(place: Path, kind: str) -> list[Json]:
    """All records of a kind."""
    return [frame.record for frame in journal.counted(kept(place)) if frame.kind == kind]


def decisions_made(reading: Metrics) -> int:
    return int(reading.sum("flyball_decisions_total"))


def decisions_accounted(reading: Metrics) -> int:
    """Recorded, or in gap records."""
    recorded = reading.sum("flyball_journal_records_total", kind="decision")
    return int(recorded + reading.sum("flyball_journal_gap_decisions_total"))


def adds_up(server: Server) -> Metrics:
    """The reading in which decisions made are those recorded and those in gap records; fails if there never is one."""
    told = "nothing was read"

    def probe() -> Metrics | None:
        nonlocal told
        settled(server)
        reading = metrics(server)
        told = _account(reading)
        return reading if decisions_made(reading) == decisions_accounted(reading) else None

    try:
        return until("decisions made == recorded + in gap records", probe)
    except AssertionError as never:
        raise AssertionError(f"{never}; last: {told}") from never


def _account(reading: Metrics) -> str:
    """Where the decisions are."""
    recorded = reading.sum("flyball_journal_records_total", kind="decision")
    gaps = reading.sum("flyball_journal_gap_decisions_total")
    undecided = reading.sum("flyball_decision_rows_undecided_total")
    made = decisions_made(reading)
    return f"{made} made, {recorded:.0f} recorded, {gaps:.0f} in gap records; {undecided:.0f} rows without a decision"


@contextlib.contextmanager
def small_disk(place: Path, mebibytes: int) -> Iterator[Path]:
    """A disk of its own, in memory."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a disk that can be filled needs a small tmpfs, and mounting one needs root: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)  # noqa: S607


def fill(path: Path, *, but_bytes: int = 0) -> Path:
    """Take all the room that is left, or all but some, in a file that can be removed again."""
    full = pytest.raises(OSError, match=os.strerror(errno.ENOSPC))
    with path.open("wb", buffering=0) as file, full:
        while True:
            file.write(bytes(4096))
    os.truncate(path, path.stat().st_size - but_bytes)
    return path


def until_full(server: Server) -> set[bytes]:
    """Decide until nothing more can be recorded; gives the ids of what was decided."""
    decided: set[bytes] = set()
    for _ in range(_FILLS_MAX):
        reply = post_rows(server, _FILL_ROWS)
        if reply.status == 200:
            decided |= ids_of(reply.json["rows"])
        if unavailable(server):
            return decided
    raise AssertionError(f"{len(decided)} decisions and the disk is still not full")


def unavailable(server: Server) -> str | None:
    """Why the journal takes nothing just now, by its own account."""
    with Http(server) as connection:
        reply = connection.get("/v1/journal")
    assert reply.status == 200, reply.body
    why: str | None = reply.json["unavailable"]
    return why
