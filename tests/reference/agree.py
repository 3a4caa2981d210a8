"""Compares what a server and the scorer decide with the decision that is written by hand, row by row.

Scores must be the same to the last bit: JSON carries every float whole. Must not know how servers are started.
"""

import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.reference import loan

CHUNK_ROWS = 500
SPEC = Path(__file__).with_name("loan.yaml")


def online(address: str, rows: list[loan.Json]) -> Iterator[loan.Json]:
    """What a server answers for each row, many to a request."""
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        for start in range(0, len(rows), CHUNK_ROWS):
            asked = [{"id": str(start + place), "input": row} for place, row in enumerate(rows[start : start + CHUNK_ROWS])]
            connection.request("POST", "/v1/decisions/loan", json.dumps({"rows": asked}).encode())
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, (answer.status, body[:500])
            decided = json.loads(body)["rows"]
            assert [one["id"] for one in decided] == [one["id"] for one in asked]
            yield from decided
    finally:
        connection.close()


def offline(path: Path) -> Iterator[loan.Json]:
    """What the scorer wrote for each row."""
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def differences(
    wanted: list[loan.Decided], got: Iterator[loan.Json], apart: Callable[[loan.Decided, loan.Json], str | None]
) -> list[str]:
    """In words, for each row that is not as it must be."""
    told = [(row, apart(one, other)) for row, (one, other) in enumerate(zip(wanted, got, strict=True))]
    return [f"row {row}: {difference}" for row, difference in told if difference]


def apart_online(wanted: loan.Decided, got: loan.Json) -> str | None:
    if wanted.faults or "fault" in got:
        named = {fault["field"] for fault in got.get("fault", {}).get("faults", [])}
        return None if named == wanted.faults else f"faults of {sorted(named)}, wanted {sorted(wanted.faults)}"
    return _apart(wanted, got, [reason["code"] for reason in got["reasons"] if reason.get("field") is None])


def apart_offline(wanted: loan.Decided, got: loan.Json) -> str | None:
    told = got.get("fault")
    if wanted.faults or told:
        unsaid = [name for name in wanted.faults if told is None or name not in told]
        return f"{unsaid} not in the fault {told!r}" if unsaid or not wanted.faults else None
    return _apart(wanted, got, [reason["code"] for reason in json.loads(got.get("reasons") or "[]")])


def _apart(wanted: loan.Decided, got: loan.Json, reasons: list[str]) -> str | None:
    is_: tuple[Any, ...] = (got["outcome"], got["band"], got["score"], reasons)
    must = (wanted.outcome, wanted.band, wanted.score, wanted.reasons)
    return None if is_ == must else f"{is_}, wanted {must}"
