"""One event as it is stored and hashed: plain values, no database.

The hash covers the canonical JSON of all other fields, the previous hash included, so that changing one event requires
changing all later ones. docs/reference/registry-events.md describes the format for other readers.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flyball.registry.acts.interface import Authenticated

GENESIS = "0" * 64
BODY_BYTES_MAX = 256 * 1024
KEYS_STREAM = "@keys"
"""The stream of events about API keys; package names never begin with @."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def node_stream(environment: str) -> str:
    """The stream of events about the servers of an environment."""
    return f"@nodes.{environment}"


def publish_stream(environment: str) -> str:
    """The stream of events about the snapshots of an environment."""
    return f"@publish.{environment}"


@dataclass(frozen=True, slots=True)
class Head:
    """The end of the chain: 0 and 64 zeros for an empty log."""

    sequence: int
    hash: str

    @property
    def digest(self) -> str:
        """The hash in the form that snapshots use."""
        return f"sha256:{self.hash}"


@dataclass(frozen=True, slots=True)
class Draft:
    """An event to append. `expected_revision`: the revision of the name that its author saw; None accepts any."""

    name: str
    kind: str
    body: dict[str, Any]
    actor: str
    reason: str = ""
    expected_revision: int | None = None
    authenticated: Authenticated = "none"


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the chain. `revision` counts the events of its name; `at` is in microseconds since 1970, UTC."""

    sequence: int
    name: str
    revision: int
    kind: str
    at: int
    actor: str
    authenticated: Authenticated
    reason: str
    body: dict[str, Any]
    previous: str
    hash: str

    @property
    def when(self) -> datetime:
        """`at` as a datetime."""
        return time_of(self.at)

    @property
    def head(self) -> Head:
        """The head of the chain right after this event."""
        return Head(self.sequence, self.hash)

    def document(self) -> dict[str, Any]:
        """The event as JSON: the hashed fields, the hash, and the time as text."""
        return {**hashed(self), "at": text_of(self.at), "at_us": self.at, "hash": self.hash}


_HASHED = [one.name for one in fields(Event) if one.name != "hash"]


def sealed(draft: Draft, *, sequence: int, revision: int, at: int, previous: str) -> Event:
    """A draft as an event at its position in the chain."""
    # Parsed from its own JSON, so that the event cannot change when the caller later changes the body.
    body = json.loads(canonical(draft.body))
    unhashed = Event(
        sequence, draft.name, revision, draft.kind, at, draft.actor, draft.authenticated, draft.reason, body, previous, ""
    )
    return replace(unhashed, hash=hash_of(unhashed))


def hash_of(event: Event) -> str:
    """The expected hash of an event, as 64 hex digits."""
    return hashlib.sha256(canonical(hashed(event)).encode()).hexdigest()


def hashed(event: Event) -> dict[str, Any]:
    """The hashed fields: all but the hash."""
    return {name: getattr(event, name) for name in _HASHED}


def canonical(document: object) -> str:
    """JSON with sorted keys, no spaces, ASCII only: equal documents are equal texts in every database."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def time_of(at: int) -> datetime:
    """Microseconds since 1970 as a UTC datetime."""
    return _EPOCH + timedelta(microseconds=at)


def text_of(at: int) -> str:
    """Microseconds since 1970 as RFC 3339."""
    return time_of(at).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def microseconds(time: datetime) -> int:
    """A datetime as microseconds since 1970; without a zone it counts as UTC."""
    moment = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)
