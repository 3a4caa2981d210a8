"""Tells outcomes and overrides: through a running server, or straight into a journal that none holds.

Must not know the command line.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from flyball.decision_log.read.filters import instant
from flyball.errors import InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    Json = dict[str, Any]


_AT_ONCE = 200  # a server reads 256 KiB of them at once, and a source may be long


def tell_outcomes(
    outcomes: Sequence[Json],
    *,
    url: str | None,
    folder: Path,
    kek: str | None = None,
    key: Path | None = None,
    told: Callable[[int, int], None] | None = None,
) -> int:
    """Outcomes {"id", "decision", "truth", "when"?, "source"?}; how many are on the disk."""
    done = 0
    for some in _chunks(outcomes):
        if url is not None:
            from flyball.client import Client

            with Client(url) as client:
                done += client.outcomes(some)
        else:
            done += _append(folder, kek, key, [{"kind": "outcome", **item, **_when_ns(item)} for item in some])
        if told is not None:
            told(done, len(outcomes))
    return done


def tell_override(
    decision: str,
    decision_id: str,
    outcome: str,
    *,
    by: str,
    why: str,
    url: str | None,
    folder: Path,
    kek: str | None = None,
    key: Path | None = None,
) -> None:
    """What a person decided instead."""
    if url is not None:
        from flyball.client import Client

        with Client(url) as client:
            client.override(decision, decision_id, outcome, by=by, why=why)
        return
    told = {"id": decision_id, "decision": decision, "outcome": outcome, "by": by, "why": why}
    _append(folder, kek, key, [{"kind": "override", **told}])


def seal(url: str) -> bool:
    """Have the server that writes the journal seal its open segment; false: it is one that seals in its own time only."""
    from flyball.client import Client

    with Client(url) as client, suppress(NotFoundError):
        client.seal()
        return True
    return False


def outcome_document(decision: str, decision_id: str, truth: Any, when: str | None, source: str | None) -> Json:
    """One outcome of a command or a file."""
    document: Json = {"id": checked_id(decision_id), "decision": decision, "truth": truth}
    if when:
        document["when"] = _rfc3339(instant(when))
    return document if not source else {**document, "source": source}


def checked_id(text: str) -> str:
    """A decision's id, in its usual form."""
    try:
        return str(UUID(text.strip()))
    except ValueError as error:
        raise InvalidInputError(f"{text!r} is no decision id", next_step="ids are in:  flyball decisions query") from error


def _rfc3339(unix_ns: int) -> str:
    """As the API takes it, to the microsecond."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=unix_ns // 1000)).isoformat().replace("+00:00", "Z")


def _when_ns(item: Json) -> Json:
    """As the log has it."""
    return {} if item.get("when") is None else {"when": instant(item["when"])}


def _append(folder: Path, kek: str | None, key: Path | None, events: Sequence[Json]) -> int:
    from flyball.native.journal import Journal

    with Journal(folder, kek=kek, key=key) as journal:
        for event in events:
            journal.append(event)
    return len(events)


def _chunks(items: Sequence[Json]) -> Iterator[Sequence[Json]]:
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]
