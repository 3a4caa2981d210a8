"""One event, as it is kept and hashed: plain values, no database.

The hash is over canonical JSON of everything else, the hash before included, so that whoever changes one event has to
change all that follow. docs/reference/registry-events.md describes it for other readers.
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
"""The name of events about API keys; names of packages never begin with @."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def node_stream(environment: str) -> str:
    """The name of events about servers of an environment."""
    return f"@nodes.{environment}"


def publish_stream(environment: str) -> str:
    """The name of events about snapshots of an environment."""
    return f"@publish.{environment}"


@dataclass(frozen=True, slots=True)
class Head:
    """Where the chain ends: 0 and 64 zeros where nothing was ever written."""

    sequence: int
    hash: str

    @property
    def digest(self) -> str:
        """The hash as snapshots write it."""
        return f"sha256:{self.hash}"


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that is asked for. `expected_revision` is that of the name as its author saw it; none: whatever it is."""

    name: str
    kind: str
    body: dict[str, Any]
    actor: str
    reason: str = ""
    expected_revision: int | None = None
    authenticated: Authenticated = "none"


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the chain. `revision` counts the events of its name, `at` microseconds since 1970 in UTC."""

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
        """`at` as a time."""
        return time_of(self.at)

    @property
    def head(self) -> Head:
        """The chain's end when this was the newest."""
        return Head(self.sequence, self.hash)

    def document(self) -> dict[str, Any]:
        """The event for machines to read: as it is hashed, with the hash, and the time as a text."""
        return {**hashed(self), "at": text_of(self.at), "at_us": self.at, "hash": self.hash}


_HASHED = [one.name for one in fields(Event) if one.name != "hash"]


def sealed(draft: Draft, *, sequence: int, revision: int, at: int, previous: str) -> Event:
    """The event that a draft becomes at its place in the chain."""
    # Read back from its text: what is kept is what is hashed, whatever the caller does with the body afterwards.
    body = json.loads(canonical(draft.body))
    unhashed = Event(
        sequence, draft.name, revision, draft.kind, at, draft.actor, draft.authenticated, draft.reason, body, previous, ""
    )
    return replace(unhashed, hash=hash_of(unhashed))


def hash_of(event: Event) -> str:
    """The hash that an event must have, as 64 hex digits."""
    return hashlib.sha256(canonical(hashed(event)).encode()).hexdigest()


def hashed(event: Event) -> dict[str, Any]:
    """What the hash is over: everything but itself."""
    return {name: getattr(event, name) for name in _HASHED}


def canonical(document: object) -> str:
    """JSON with sorted keys, no spaces and nothing but ASCII: equal documents are equal texts, in every database."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def time_of(at: int) -> datetime:
    """Microseconds since 1970 as a time in UTC."""
    return _EPOCH + timedelta(microseconds=at)


def text_of(at: int) -> str:
    """Microseconds since 1970 as RFC 3339."""
    return time_of(at).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def microseconds(time: datetime) -> int:
    """A time as microseconds since 1970; one without a zone is taken as UTC."""
    moment = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)
