"""The events that a journal recorded, as windows count them: the inputs of one decision over a period.

Rows whose input is not in the log, because it is masked, sealed, unsampled or erased, are left out and counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.decision.backfill import PastEvent, counted, milliseconds
from flyball.decision_log.replay.rows import whole

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from flyball.decision.backfill import WindowsToFill
    from flyball.decision_log.read.whole_log import WholeLog

_MS_NS = 1_000_000


def events_of_journal(
    windows: WindowsToFill, log: WholeLog, since_ns: int | None, until_ns: int | None, left_out: Counter[str]
) -> list[PastEvent]:
    """The events of the decision, from `since_ns` up to `until_ns`; `left_out` counts the others by their reason."""
    return counted(_events(windows, log, since_ns, until_ns, left_out))


def _events(
    windows: WindowsToFill, log: WholeLog, since_ns: int | None, until_ns: int | None, left_out: Counter[str]
) -> Iterator[PastEvent]:
    names = {field["name"] for field in windows.fields}
    for record in log.records(kinds=["decision"], decision=windows.decision, since_ns=since_ns, until_ns=until_ns):
        unready = whole(record)
        if unready is not None:
            left_out[unready.why] += 1
            continue
        fields = {name: value for name, value in record["input"].items() if name in names and value is not None}
        told = record["input"].get(windows.event_time) if windows.event_time else None
        at_ms = record["at"] // _MS_NS if told is None else milliseconds(told, f"record {record['seq']}")
        yield PastEvent(at_ms, fields)
