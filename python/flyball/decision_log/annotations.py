"""Records outcomes and overrides: through a running server, or directly in a journal that no server uses.

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


_CHUNK = 200  # a server reads at most 256 KiB per request, and a source may be long


def record_outcomes(
    outcomes: Sequence[Json],
    *,
    url: str | None,
    folder: Path,
    kek: str | None = None,
    key: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Record outcomes {"id", "decision", "truth", "when"?, "source"?}; return how many are on disk."""
    done = 0
    for some in _chunks(outcomes):
        if url is not None:
            from flyball.client import Client

            with Client(url) as client:
                done += client.outcomes(some)
        else:
            done += append(folder, kek, key, [{"kind": "outcome", **item, **_when_ns(item)} for item in some])
        if progress is not None:
            progress(done, len(outcomes))
    return done


def record_override(
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
    """Record a person's override of a decision."""
    if url is not None:
        from flyball.client import Client

        with Client(url) as client:
            client.override(decision, decision_id, outcome, by=by, why=why)
        return
    override = {"id": decision_id, "decision": decision, "outcome": outcome, "by": by, "why": why}
    append(folder, kek, key, [{"kind": "override", **override}])


def seal(url: str) -> bool:
    """Have the server seal its open segment; False if it does not support that."""
    from flyball.client import Client

    with Client(url) as client, suppress(NotFoundError):
        client.seal()
        return True
    return False


def outcome_document(decision: str, decision_id: str, truth: Any, when: str | None, source: str | None) -> Json:
    """Build one outcome from a command or a file."""
    document: Json = {"id": checked_id(decision_id), "decision": decision, "truth": truth}
    if when:
        document["when"] = moment_of(instant(when)).isoformat().replace("+00:00", "Z")
    return document if not source else {**document, "source": source}


def checked_id(text: str) -> str:
    """Parse a decision's id into its canonical form."""
    try:
        return str(UUID(text.strip()))
    except ValueError as error:
        raise InvalidInputError(f"{text!r} is not a decision id", next_step="list ids:  flyball decisions query") from error


def moment_of(unix_ns: int) -> datetime:
    """The time, to the microsecond."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=unix_ns // 1000)


def _when_ns(item: Json) -> Json:
    """The log's format, ns since 1970."""
    return {} if item.get("when") is None else {"when": instant(item["when"])}


def append(folder: Path, kek: str | None, key: Path | None, events: Sequence[Json]) -> int:
    """Append events to a journal that no server uses; return their number."""
    from flyball.native.journal import Journal

    with Journal(folder, kek=kek, key=key) as journal:
        for event in events:
            journal.append(event)
    return len(events)


def _chunks(items: Sequence[Json]) -> Iterator[Sequence[Json]]:
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]
