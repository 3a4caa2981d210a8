"""What another model or policy would have decided: recorded rows through a candidate, beside what was decided.

The candidate's first variant decides every row, so that a split draws no lots here. Must not know figures, nor reports.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flyball.decision.bulk_calls import DEADLINE_MS, QUEUE_WAIT_MS
from flyball.decision.compile.bundle import bundle_of
from flyball.decision.local import LocalServer
from flyball.decision_log.replay.batches import Target, decided_again
from flyball.decision_log.replay.rows import AgainRow, Unready, again

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from flyball.decision.decision import Decision
    from flyball.decision_log.replay.batches import Prepared

    Json = dict[str, Any]

_REMEDIED = "decided by a remedy or a kill switch, not by the model"


@dataclass(frozen=True, slots=True)
class Pair:
    """A decision as it was and as the candidate makes it, with the values that segments are made of."""

    id: str
    was: str
    now: str
    was_score: float | None
    now_score: float | None
    segment: tuple[Any, ...]
    """The values of the fields that were asked for, in their order."""


@dataclass(slots=True)
class Trial:
    """All rows that a candidate decided, and why others were left out."""

    name: str
    candidate: str
    outcomes: list[str]
    """Those of the candidate's policy, in its order."""
    adverse: list[str]
    fields: tuple[str, ...]
    pairs: list[Pair] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def tried(
    decision: Decision,
    records: Iterable[Json],
    *,
    fields: Sequence[str] = (),
    told: Callable[[int, int], None] | None = None,
) -> Trial:
    """Decide records by a candidate; `told` hears how many are done, and the last one's number."""
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
            if isinstance(decided, Unready):
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
            if told is not None:
                told(done, record["seq"])
    finally:
        server.close()
    return trial


def _prepared(record: Json, document: Mapping[str, Any], target: Target) -> Prepared:
    features = {item["name"]: item for item in document["features"]}
    row = again(record, features)
    if isinstance(row, Unready):
        return record, row, None
    if record.get("remedy") is not None or record.get("route") in ("declared", "kill_switch"):
        return record, Unready(_REMEDIED), None
    known = record.get("features") or {}
    absent = [name for name, feature in features.items() if feature.get("compute") is None and name not in known]
    if absent:
        return record, Unready(f"the candidate's feature {absent[0]!r} is not in the record"), None
    taken = {item["name"] for item in document["input"]} | set(features)
    values = {name: value for name, value in row.values.items() if name in taken}
    return record, AgainRow(values, {"variant": document["variants"][0]["name"]}, False), target


def _value(record: Json, name: str) -> Any:
    """A field, a feature, or what else the record says of the request."""
    if name in (record.get("input") or {}):
        return record["input"][name]
    if name in (record.get("features") or {}):
        return record["features"][name].get("value")
    return record.get(name) if name in ("caller", "protocol", "variant", "route") else None


def _finite(score: object) -> float | None:
    """Scores that are not finite are texts."""
    return float(score) if isinstance(score, int | float) else None


def _digests(artifacts: Iterable[Any]) -> str:
    return ", ".join(f"{item.name} {item.files.digest}" for item in artifacts)
