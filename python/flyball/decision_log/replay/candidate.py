"""Decides recorded rows with a candidate, beside the recorded decisions.

The candidate's first variant decides every row, so that a split adds no randomness. Must not know figures or reports.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flyball.decision.bulk_calls import DEADLINE_MS, QUEUE_WAIT_MS
from flyball.decision.compile.bundle import bundle_of
from flyball.decision.local import LocalServer
from flyball.decision_log.replay.batches import Target, decided_again
from flyball.decision_log.replay.rows import NotReplayable, ReplayRow, replay_row

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from flyball.decision.decision import Decision
    from flyball.decision_log.replay.batches import Prepared
    from flyball.native.journal import JournalLog

    Json = dict[str, Any]

_REMEDIED = "decided by a remedy or a kill switch, not by the model"


@dataclass(frozen=True, slots=True)
class Pair:
    """A decision as recorded and by the candidate, with the values of its segment."""

    id: str
    was: str
    now: str
    was_score: float | None
    now_score: float | None
    segment: tuple[Any, ...]
    """The values of the requested fields, in order."""


@dataclass(slots=True)
class Trial:
    """All rows that a candidate decided, and the reasons for those left out."""

    name: str
    candidate: str
    outcomes: list[str]
    """The outcomes of the candidate's policy, in order."""
    adverse: list[str]
    fields: tuple[str, ...]
    pairs: list[Pair] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def try_candidate(
    decision: Decision,
    records: Iterable[Json],
    *,
    fields: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Trial:
    """Decide records with a candidate; `progress` gets the number done and the last sequence number."""
    compiled = decision.check().compiled
    document = compiled.document
    policy = document["policy"]
    trial = Trial(
        decision.name,
        _digests(compiled.artifacts),
        list(policy["outcomes"]),
        list(policy.get("adverse") or ()),
        tuple(fields),
    )
    server = LocalServer(bundle_of([compiled], queue_wait_ms_max=QUEUE_WAIT_MS), offline=True, deadline_ms=DEADLINE_MS)
    try:
        target = Target("candidate", decision.name, server.client)
        prepared = (_prepared(record, document, target) for record in records)
        for done, (record, decided) in enumerate(decided_again(prepared), start=1):
            if isinstance(decided, NotReplayable):
                trial.left_out["erased" if decided.erased else decided.why] += 1
            else:
                trial.pairs.append(
                    Pair(
                        record["id"],
                        record["outcome"],
                        decided.outcome,
                        _finite(record.get("score")),
                        decided.score,
                        tuple(_value(record, name) for name in fields),
                    )
                )
            if progress is not None:
                progress(done, record["seq"])
    finally:
        server.close()
    return trial


def truths_of(log: JournalLog, decision: str, ids: Container[str]) -> dict[str, Any]:
    """True outcomes by decision id. A later record replaces an earlier one, whatever its own time."""
    outcomes = log.records(kinds=["outcome"], decision=decision)
    return {record["id"]: record.get("truth") for record in outcomes if record["id"] in ids}


def _prepared(record: Json, document: Mapping[str, Any], target: Target) -> Prepared:
    features = {item["name"]: item for item in document["features"]}
    row = replay_row(record, features)
    if isinstance(row, NotReplayable):
        return record, row, None
    if record.get("remedy") is not None or record.get("route") in ("declared", "kill_switch"):
        return record, NotReplayable(_REMEDIED), None
    known = record.get("features") or {}
    absent = [name for name, feature in features.items() if feature.get("compute") is None and name not in known]
    if absent:
        return record, NotReplayable(f"the candidate's feature {absent[0]!r} is not in the record"), None
    known_names = {item["name"] for item in document["input"]} | set(features)
    values = {name: value for name, value in row.values.items() if name in known_names}
    return record, ReplayRow(values, {"variant": document["variants"][0]["name"]}, False), target


def _value(record: Json, name: str) -> Any:
    """The value of a field, a feature, or a property of the request."""
    if name in (record.get("input") or {}):
        return record["input"][name]
    if name in (record.get("features") or {}):
        return record["features"][name].get("value")
    return record.get(name) if name in ("caller", "protocol", "variant", "route") else None


def _finite(score: object) -> float | None:
    """The score if finite; non-finite scores are text in records."""
    return float(score) if isinstance(score, int | float) else None


def _digests(artifacts: Iterable[Any]) -> str:
    return ", ".join(f"{item.name} {item.files.digest}" for item in artifacts)
