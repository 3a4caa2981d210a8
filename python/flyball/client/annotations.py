"""Annotations of decisions: true outcomes, overrides, erasures, holds. Must not know transports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from flyball.client.decisions import ROWS_MAX
from flyball.errors import InvalidInputError, ServerFaultError

Truth = None | bool | int | float | str | Mapping[str, bool | int | float | str | None]


@dataclass(frozen=True, slots=True)
class Annotation:
    """One request to record an annotation, or to list them."""

    path: str
    document: Mapping[str, object] = field(default_factory=dict)
    method: str = "POST"


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
) -> Annotation:
    """A legal hold."""
    given = {"decision": decision, "from": since and _moment(since), "to": until and _moment(until)}
    document = {"name": name, "by": by, "why": why, **{key: value for key, value in given.items() if value is not None}}
    return Annotation("/v1/holds", document)


def release_of(name: str, *, by: str, why: str) -> Annotation:
    """The release of a legal hold."""
    return Annotation(f"/v1/holds/{quote(name, safe='')}", {"by": by, "why": why}, "DELETE")


def override_of(decision: str, id: str, outcome: str, *, by: str, why: str) -> Annotation:  # noqa: A002 - the API's name
    """A person's override of a decision."""
    return Annotation("/v1/overrides", {"id": id, "decision": decision, "outcome": outcome, "by": by, "why": why})


def erasure_of(subject: str, *, by: str, why: str, keys: Sequence[str]) -> Annotation:
    """The erasure of a subject's personal data."""
    return Annotation("/v1/erasures", {"subject": subject, "by": by, "why": why, "keys": list(keys)})


def outcomes_of(outcomes: Sequence[Mapping[str, object]]) -> Annotation:
    """Several true outcomes."""
    if not 1 <= len(outcomes) <= ROWS_MAX:
        raise InvalidInputError(f"{len(outcomes)} outcomes; allowed: 1 to {ROWS_MAX} at once")
    return Annotation("/v1/outcomes", {"outcomes": [dict(item) for item in outcomes]})


HOLDS = Annotation("/v1/holds", method="GET")
SEAL = Annotation("/v1/journal/seals")


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
