"""Past events from a journal, to fill windows: the inputs of one decision over a period.

Rows whose input is not readable (masked, encrypted, not sampled, erased) are left out and counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.decision.backfill import PastEvent, counted, milliseconds
from flyball.decision_log.replay.rows import not_replayable

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from flyball.decision.backfill import WindowsToFill
    from flyball.decision_log.read.whole_log import WholeLog

_MS_NS = 1_000_000


def events_of_journal(
    windows: WindowsToFill, log: WholeLog, since_ns: int | None, until_ns: int | None, left_out: Counter[str]
) -> list[PastEvent]:
    """The decision's events from `since_ns` to `until_ns`; `left_out` counts skipped records by reason."""
    return counted(_events(windows, log, since_ns, until_ns, left_out))


def _events(
    windows: WindowsToFill, log: WholeLog, since_ns: int | None, until_ns: int | None, left_out: Counter[str]
) -> Iterator[PastEvent]:
    names = {field["name"] for field in windows.fields}
    for record in log.records(kinds=["decision"], decision=windows.decision, since_ns=since_ns, until_ns=until_ns):
        missing = not_replayable(record)
        if missing is not None:
            left_out[missing.why] += 1
            continue
        fields = {name: value for name, value in record["input"].items() if name in names and value is not None}
        event_time = record["input"].get(windows.event_time) if windows.event_time else None
        at_ms = record["at"] // _MS_NS if event_time is None else milliseconds(event_time, f"record {record['seq']}")
        yield PastEvent(at_ms, fields)
