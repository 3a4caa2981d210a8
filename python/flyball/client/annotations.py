"""Annotations of decisions: true outcomes, overrides, erasures, holds. Must not know transports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from flyball.errors import InvalidInputError, ServerFaultError

Truth = None | bool | int | float | str | Mapping[str, bool | int | float | str | None]


@dataclass(frozen=True, slots=True)
class Erased:
    """The result of an erasure: records that cannot be decrypted any more, and feature rows removed."""

    recorded: int
    records: int
    windows: int
    cached: int
    stored: int

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Erased:
        """Parse the server's response."""
        try:
            return cls(**document)
        except TypeError as error:
            raise ServerFaultError(f"invalid response to an erasure: {error}", code="bad_answer") from error


def hold_of(
    name: str, *, by: str, why: str, decision: str | None, since: datetime | None, until: datetime | None
) -> dict[str, object]:
    """A legal hold in the API's form."""
    given = {"decision": decision, "from": since and _moment(since), "to": until and _moment(until)}
    return {"name": name, "by": by, "why": why, **{key: value for key, value in given.items() if value is not None}}


def outcome_of(
    decision: str,
    id: str,  # noqa: A002 - the API's own name
    truth: Truth,
    *,
    when: datetime | None = None,
    source: str | None = None,
) -> dict[str, object]:
    """A true outcome in the API's form; `when` it became true, with a time zone."""
    given = {"when": None if when is None else _moment(when), "source": source}
    return {
        "id": id,
        "decision": decision,
        "truth": truth,
        **{name: value for name, value in given.items() if value is not None},
    }


def recorded_from(document: Mapping[str, Any]) -> int:
    """The number of recorded annotations in a response."""
    count = document.get("recorded")
    if not isinstance(count, int):
        raise ServerFaultError("invalid response: 'recorded' is not a number", code="bad_answer")
    return count


def _moment(when: datetime) -> str:
    if when.tzinfo is None:
        raise InvalidInputError(
            "the time has no time zone",
            next_step="add one:  datetime.now(tz=UTC), or .replace(tzinfo=…)",
        )
    return when.astimezone(UTC).isoformat().replace("+00:00", "Z")
