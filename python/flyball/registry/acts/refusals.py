"""Records refused acts as events, with an hourly limit per caller, so that nobody can fill the log.

Refusals above the limit are counted, and one event per hour states their number. Must not know why an act was refused, nor
whether it came over HTTP.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flyball.documents.names import is_name
from flyball.registry.events.kinds import printable
from flyball.registry.remote.hidden_paths import without_paths

if TYPE_CHECKING:
    from collections.abc import Callable

    from flyball.errors import FlyballError
    from flyball.registry.acts.interface import Actor
    from flyball.registry.events.log import EventLog

PER_HOUR_MAX = 60
REFUSED_STREAM = "@refused"
"""The stream of refusals about unknown names."""
LEFT_OUT = "left_out"
_HOUR_S = 3600.0
_WORDS_MAX = 4096


@dataclass(slots=True)
class _Hour:
    """One caller's hour: its start, and the numbers of recorded and counted refusals."""

    actor: Actor
    since: float
    written: int = 0
    left_out: int = 0


class Refusals:
    """Records refused acts in a log."""

    def __init__(self, log: EventLog, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._hours: dict[str, _Hour] = {}
        self._lock = threading.Lock()

    def write(self, act: str, name: str, error: FlyballError, *, words: str, actor: Actor, reason: str = "") -> None:
        """Record a refusal as an event, or count it."""
        self.settle()
        if self._fits(actor):
            known = is_name(name) and self._log.revision(name) > 0
            body = {"act": act, "code": error.code[:256], "words": _plain(without_paths(words))}
            stream = name if known else REFUSED_STREAM
            self._append(stream, body, actor, _plain(reason))
        error.recorded = True

    def settle(self, *, now: bool = False) -> None:
        """Record the counts of finished hours; `now`: of all hours, when the registry is closed."""
        # The lock is held during the write, so that no count is lost or recorded twice.
        with self._lock:
            before = self._clock() - _HOUR_S
            for name, hour in list(self._hours.items()):
                if not now and hour.since > before:
                    continue
                if hour.left_out:
                    words = f"{hour.left_out:,} within an hour, which were counted and not written down one by one"
                    body = {"act": "more", "code": LEFT_OUT, "words": words, LEFT_OUT: hour.left_out}
                    self._append(REFUSED_STREAM, body, hour.actor)
                del self._hours[name]

    def _append(self, stream: str, body: dict[str, Any], actor: Actor, reason: str = "") -> None:
        self._log.append(stream, None, "refused", body, actor=actor.name, reason=reason, authenticated=actor.authenticated)

    def _fits(self, actor: Actor) -> bool:
        with self._lock:
            hour = self._hours.setdefault(actor.name, _Hour(actor, self._clock()))
            if hour.written >= PER_HOUR_MAX:
                hour.left_out += 1
                return False
            hour.written += 1
            return True


def _plain(text: str) -> str:
    """Replace unprintable characters, so that no sent text can prevent the record."""
    return "".join(letter if printable(letter) else "�" for letter in text[:_WORDS_MAX])
