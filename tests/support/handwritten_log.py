"""A handwritten log, in the form in which the reader returns records."""

import json
from pathlib import Path
from typing import Any

ID = "0192f6c1-0000-7000-8000-00000000000{}"
DAY_NS = 1_763_164_800_000_000_000  # 2025-11-15T00:00:00Z
TOKEN = "ab" * 32


def decision(number: int = 1, **changed: Any) -> dict[str, Any]:
    return {
        "kind": "decision",
        "id": ID.format(number),
        "decision": "card-fraud",
        "document": "sha256:" + "d0" * 32,
        "policy": "sha256:" + "b0" * 32,
        "schema": "sha256:" + "5c" * 32,
        "runtime": "sha256:" + "99" * 32,
        "models": [{"model": "fraud", "version": "7", "digest": "sha256:3f9c" + "00" * 30}],
        "protocol": "http",
        "caller": None,
        "key": None,
        "trace": None,
        "single": True,
        "variant": None,
        "route": "champion",
        "batch": [{"model": "fraud", "rows": 5, "position": 2}],
        "features": {"payments_1h": {"value": 23, "origin": "window", "age_ms": 0}},
        "scores": {"fraud": 0.914},
        "outputs": {"fraud": {"probabilities": [0.086, 0.914]}},
        "score": 0.914,
        "outcome": "reject",
        "band": "reject",
        "rules": ["0"],
        "reasons": [
            {"code": "R11", "field": "payments_1h", "contribution": None},
            {"code": "R02", "field": "amount", "contribution": 0.31},
        ],
        "explain": False,
        "remedy": None,
        "timings": {"parse": 6000, "route": 1000, "infer": 21000, "respond": None},
        "input": {"amount": 4100.0, "country": "FR"},
        "subject": TOKEN,
        "personal": "sealed",
        **changed,
    }


def told(kind: str, number: int = 1, **pairs: Any) -> dict[str, Any]:
    return {"kind": kind, "id": ID.format(number), **pairs}


class HandwrittenLog:
    """As much of `JournalLog` as readers ask for. A record's number is its place; each is an hour later."""

    def __init__(self, folder: Path, *records: dict[str, Any], chunk: int = 2) -> None:
        self.folder, self._chunk = folder, chunk
        self.records_given = [self._placed(seq, record) for seq, record in enumerate(records)]

    def _placed(self, seq: int, record: dict[str, Any]) -> dict[str, Any]:
        place = {"seq": seq, "segment": 1, "frame": seq, "leaf": f"{seq:064x}", "prev": f"{seq:064x}"}
        return {"at": DAY_NS + seq * 3_600_000_000_000, "time": f"2025-11-15T{seq:02}:00:00.118Z", **place, **record}

    def chunk(self, from_seq: int, most: int, options: dict[str, Any]) -> tuple[bytes, int, bool]:
        end = min(from_seq + min(most, self._chunk), len(self.records_given))
        wanted = [record for record in self.records_given[from_seq:end] if _wanted(record, options)]
        return "\n".join(json.dumps(record) for record in wanted).encode(), end, end == len(self.records_given)

    def first_since(self, since_ns: int | None) -> int:
        return 0

    def with_input(self, record: dict[str, Any]) -> dict[str, Any]:
        return record

    def find(self, decision_id: str) -> list[dict[str, Any]]:
        return [record for record in self.records_given if record["id"] == decision_id]


def _wanted(record: dict[str, Any], options: dict[str, Any]) -> bool:
    since, kinds = options.get("since_ns"), options.get("kinds")
    return (since is None or record["at"] >= since) and (kinds is None or record["kind"] in kinds)
