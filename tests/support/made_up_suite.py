"""A suite of claims whose topics measure what a test scripts, and records of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.claims import ledger
from bench.claims.bars import at_most, none, times
from bench.claims.claim import Change, Claim, Figure, Raw, Suite, Topic
from bench.claims.figures import median_over
from bench.claims.record import DONE, FAILED, Attempt, Head, Record

GOOD = {"p50": {side: {"values": [us] * 3, "discarded": []} for side, us in (("beside", 11.0), ("alone", 10.0))}}
BAD = {"p50": {side: {"values": [us] * 3, "discarded": []} for side, us in (("beside", 15.0), ("alone", 10.0))}}
LOST = {"lost": 0}


def suite(
    bar: float = 1.2, changes: tuple[Change, ...] = (), measures: Mapping[str, Callable[..., None]] | None = None
) -> Suite:
    """Two topics: `times` with a claim about windows, `count` with one about a number."""

    def nothing(stand: Any) -> None:
        del stand

    measures = measures or {}
    beside = Claim(
        "p50", "p50 beside over alone", at_most(bar, times), median_over("p50", "beside", "alone"), changes=changes
    )
    lost = Claim("lost", "requests that were lost", none(), _lost)
    topics = (
        Topic("times", measures.get("times", nothing), subject="a GBDT", sample="3 windows", claims=(beside,)),
        Topic("count", measures.get("count", nothing), subject="a GBDT", sample="one run", claims=(lost,)),
    )
    return Suite("made-up", "What was made up", "Text above the table.", topics)


def _lost(raw: Raw) -> Figure:
    return Figure(raw["lost"])


def head(number: int = 1, **changes: Any) -> Head:
    """The head of the nth record: clean, shipped, on two cores."""
    machine = {"cores": 2, "cpu_model": "CPU", "memory_bytes": 8e9, "kernel": "6", "virtualisation": ""}
    here: dict[str, Any] = {
        "suite": "made-up",
        "started": f"2026-01-{number:02}T00:00:00Z",
        "commit": "c" * 12,
        "dirty": "",
        "profile": "dist",
        "machine_class": "cpu-2c-8gb",
        "machine": machine,
    }
    return Head(**{**here, **changes})


def stored(results: Path, made: Suite, raws: Mapping[str, Any], number: int = 1, **changes: Any) -> tuple[Path, Record]:
    """A record with an attempt at each topic that has raw values; a text in their place is how the attempt failed."""
    record = Record(head(number, **changes))
    folder = results / made.name / record.head.machine_class
    for name, raw in raws.items():
        add(folder, record, made, name, raw)
    return folder, record


def add(folder: Path, record: Record, made: Suite, topic: str, raw: Any) -> None:
    """One more attempt, stored as a run stores it."""
    terms = {claim.name: made.topic(topic).terms(claim) for claim in made.topic(topic).claims}
    attempt = Attempt(topic, len(record.of(topic)) + 1, terms)
    record.attempts.append(attempt)
    record.write(folder)
    ledger.begun(folder, record, attempt)
    failed = isinstance(raw, str)
    attempt.state, attempt.error, attempt.raw = (FAILED, raw, {}) if failed else (DONE, "", raw)
    attempt.digest = record.digest_of(attempt)
    record.write(folder)
    ledger.ended(folder, record, attempt)
