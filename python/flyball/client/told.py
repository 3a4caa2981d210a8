"""What is told of a decision after it was made: the truth, and what a person decided instead. Must not know transports."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from flyball.errors import InvalidInputError, ServerFaultError

Truth = None | bool | int | float | str | Mapping[str, bool | int | float | str | None]


def outcome_of(
    decision: str,
    id: str,  # noqa: A002 - the API's own name
    truth: Truth,
    *,
    when: datetime | None = None,
    source: str | None = None,
) -> dict[str, object]:
    """The truth about a decision as the API takes it; `when` it became true, in a zone."""
    given = {"when": None if when is None else _moment(when), "source": source}
    return {
        "id": id,
        "decision": decision,
        "truth": truth,
        **{name: value for name, value in given.items() if value is not None},
    }


def recorded_from(document: Mapping[str, Any]) -> int:
    """How many were recorded."""
    count = document.get("recorded")
    if not isinstance(count, int):
        raise ServerFaultError("the server's answer does not say what it recorded", code="bad_answer")
    return count


def _moment(when: datetime) -> str:
    if when.tzinfo is None:
        raise InvalidInputError(
            "the time of an outcome has no zone, and may be any of 24 hours",
            next_step="say which:  datetime.now(tz=UTC), or .replace(tzinfo=…)",
        )
    return when.astimezone(UTC).isoformat().replace("+00:00", "Z")
