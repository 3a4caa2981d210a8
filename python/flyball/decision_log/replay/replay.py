"""Replays recorded decisions with the same documents and models, and compares each with its record.

The server's own code decides, offline, with the recorded features. Must not know the command line.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from flyball.decision_log.read.records import find
from flyball.decision_log.replay.batches import Target, decided_again
from flyball.decision_log.replay.compare import KEPT, TOLERANCE, Class, Compared, compare, compare_declared, shown
from flyball.decision_log.replay.deployments import NotReplayableError
from flyball.decision_log.replay.rows import NotReplayable, is_declared, not_replayable, replay_row
from flyball.native.journal import runtime_fingerprint
from flyball.rows.html_table import html_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from flyball.client import Decided
    from flyball.decision_log.replay.batches import Prepared
    from flyball.decision_log.replay.deployments import Deployments
    from flyball.native.journal import JournalLog

    Json = dict[str, Any]

EXAMPLES_MAX = 1000
_SERVERS_KEPT = 4


@dataclass(frozen=True, slots=True)
class Selection:
    """Which decisions to replay: one by id, a range, or a sample."""

    id: str | None = None
    decision: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    sample: int | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Replayed:
    """One replayed decision."""

    id: str
    seq: int
    decision: str
    compared: Compared
    batch: list[Json]


@dataclass(slots=True)
class Replay:
    """Results of a replay: counts by class, reasons, and the first decisions that are not bit-exact."""

    counts: Counter[Class] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    runtimes: Counter[str] = field(default_factory=Counter)
    """Number of decisions by difference to this machine's fingerprint."""
    moved: Counter[str] = field(default_factory=Counter)
    """The same for decisions whose scores are not bit-exact."""
    examples: list[Replayed] = field(default_factory=list)
    unbatched: dict[str, str] = field(default_factory=dict)
    """Models with batching off, and why."""

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {cls.value}" for cls, count in self.counts.most_common())
        return f"<Replay {self.rows:,} decisions: {counts or 'none'}>"

    def _repr_html_(self) -> str:
        return html_table(("replayed", "decisions"), [(cls.value, f"{self.counts[cls]:,}") for cls in Class])

    @property
    def rows(self) -> int:
        """The number of decisions."""
        return self.counts.total()

    @property
    def kept(self) -> bool:
        """Whether every decision is bit-exact or within tolerance."""
        return sum(self.counts[cls] for cls in KEPT) == self.rows


def replay(
    log: JournalLog,
    records: Iterable[Json],
    deployments: Deployments,
    *,
    tolerance: float = TOLERANCE,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Replay records; `progress` gets the number done and the last sequence number."""
    found = Replay()
    runtimes = Runtimes(log)
    prepared = (_prepared(record, deployments) for record in records)
    for record, decided in decided_again(prepared, lambda: deployments.close(_SERVERS_KEPT)):
        compared = _compared(record, decided, deployments, tolerance)
        _count(found, record, compared, runtimes.differences(str(record.get("runtime"))))
        if progress is not None:
            progress(found.rows, record["seq"])
    found.examples.sort(key=lambda item: item.seq)
    found.unbatched = deployments.unbatched()
    return found


def selected(log: JournalLog, selection: Selection) -> Iterator[Json]:
    """The selected records, in the log's order."""
    if selection.id is not None:
        yield decision_record(log, selection.id)
        return
    records = log.records(
        kinds=["decision"], decision=selection.decision, since_ns=selection.since_ns, until_ns=selection.until_ns
    )
    if selection.sample is None:
        yield from records
        return
    dice = random.Random(selection.seed)
    kept = list(islice(records, selection.sample))
    for index, record in enumerate(records, start=len(kept)):
        if (drawn := dice.randint(0, index)) < selection.sample:
            kept[drawn] = record
    yield from sorted(kept, key=lambda record: record["seq"])


def decision_record(log: JournalLog, decision_id: str) -> Json:
    """The record of a decision, or of a failed row."""
    history = find(log, decision_id)
    return next(item for item in history.documents if item["seq"] == history.decision.seq)


def _prepared(record: Json, deployments: Deployments) -> Prepared:
    missing = not_replayable(record)
    if missing is not None or is_declared(record):
        return record, missing or NotReplayable("declared"), None
    try:
        deployment = deployments.of(record)
        row = replay_row(record, deployment.features)
        if isinstance(row, NotReplayable):
            return record, row, None
        return record, row, Target(deployment.digest, deployment.name, deployments.running(deployment).client)
    except NotReplayableError as why:
        return record, NotReplayable(str(why)), None


def _compared(record: Json, decided: Decided | NotReplayable, deployments: Deployments, tolerance: float) -> Compared:
    if isinstance(decided, NotReplayable):
        if decided.erased:
            return Compared(Class.ERASED)
        if is_declared(record) and record.get("kind") == "decision":
            return _declared(record, deployments)
        return Compared(Class.CANNOT, (decided.why,))
    if decided.document != record["document"]:
        return Compared(Class.CANNOT, (f"this version of flyball compiles its document to {decided.document}",))
    return compare(record, decided, tolerance)


def _declared(record: Json, deployments: Deployments) -> Compared:
    try:
        return compare_declared(record, deployments.of(record).decision)
    except NotReplayableError as why:
        return Compared(Class.CANNOT, (str(why),))


def _count(found: Replay, record: Json, compared: Compared, others: list[str]) -> None:
    found.counts[compared.cls] += 1
    found.runtimes.update(others)
    if compared.cls is Class.CANNOT:
        found.reasons.update(compared.notes)
    if compared.scores:
        found.moved.update(others)
    if compared.cls is not Class.BIT_EXACT and len(found.examples) < EXAMPLES_MAX:
        found.examples.append(
            Replayed(record["id"], record["seq"], str(record.get("decision")), compared, record.get("batch") or [])
        )


class Runtimes:
    """Compares recorded fingerprints with this machine's, each once."""

    def __init__(self, log: JournalLog) -> None:
        self._log = log
        self._here = runtime_fingerprint()
        self._known: dict[str, list[str]] = {}

    def differences(self, digest: str) -> list[str]:
        """The differences to this machine; empty if there are none."""
        if digest not in self._known:
            blob = self._log.blob(digest) if digest.startswith("sha256:") else None
            known = json.loads(blob) if blob is not None else None
            self._known[digest] = (
                ["its runtime is no longer in the log"] if known is None else differences(known, self._here)
            )
        return self._known[digest]


def differences(was: Any, now: Any, path: str = "") -> list[str]:
    """One text per difference of two fingerprints; lists by added and removed items."""
    if was == now:
        return []
    if isinstance(was, dict) and isinstance(now, dict):
        names = sorted({*was, *now})
        parts = (differences(was.get(name), now.get(name), f"{path}.{name}" if path else str(name)) for name in names)
        return [text for part in parts for text in part]
    if isinstance(was, list) and isinstance(now, list):
        changed = [f"-{item}" for item in was if item not in now] + [f"+{item}" for item in now if item not in was]
        return [f"{path} {' '.join(changed) or 'reordered'}"]
    return [f"{path} {shown(was)} → {shown(now)}"]
