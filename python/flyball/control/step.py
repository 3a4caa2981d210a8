"""The control loop's decisions: `step` takes an observation and returns actions.

Plain values: no clock, registry, file or server. `loop.py` observes, executes the actions in order, and passes each result
back as the next observation. A test runs seeded histories through it in virtual time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from flyball.control.compile import REVOKED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from flyball.control.acknowledged import Proven
    from flyball.control.compile import Snapshot
    from flyball.errors import FlyballError
    from flyball.native.server_documents import Deployments

REPORT_S = 10.0
ASK_AGAIN_S = 1.0
TRUST_READ_S = 2.0
"""Delay until servers have read a new trust policy, which they do every second; then documents are applied again."""
REFUSALS_WAIT_S = 10.0
"""How long to wait for silent servers before a document that the others refused is withdrawn."""
COMPILE_AGAIN_S, COMPILE_AGAIN_S_MAX = 2.0, 30.0
"""First and longest interval between retries of a failed compilation."""
NEVER = -math.inf


@dataclass(frozen=True, slots=True)
class Compile:
    """Compile the registry's state: after events up to `head`, after fetched files, or as a retry."""

    head: int
    cause: Literal["events", "files", "retry"]


@dataclass(frozen=True, slots=True)
class Keep:
    """Write the last good snapshot: accepted documents by name, and digests of all ever accepted."""

    good: dict[str, bytes]
    taken: list[str]


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply these documents to the servers."""

    documents: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the servers what they serve."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Remove packages and documents that are neither good, nor applied, nor warm."""


@dataclass(frozen=True, slots=True)
class Report:
    """Send the servers' reports to the registry."""

    reports: Mapping[str, Deployments]


Action = Compile | Keep | Apply | Ask | Drop | Report


@dataclass(frozen=True, slots=True)
class RegistrySeen:
    """The registry's last event, and whether acts, the trust policy or fetched files are new."""

    now: float
    head: int
    acted: bool = False
    trust_changed: bool = False
    fetched: bool = False


@dataclass(frozen=True, slots=True)
class Compiled:
    """The result of a compilation."""

    now: float
    snapshot: Snapshot
    asked: Compile


@dataclass(frozen=True, slots=True)
class Applied:
    """Documents were applied to the servers."""

    now: float
    documents: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class ServersSeen:
    """The servers' reports; `waiting`: one of them has not seen the last snapshot yet."""

    now: float
    reports: Mapping[str, Deployments]
    waiting: bool


@dataclass(frozen=True, slots=True)
class Reported:
    """The registry has the servers' reports."""

    now: float


Observation = RegistrySeen | Compiled | Applied | ServersSeen | Reported


@dataclass(slots=True)
class State:
    """The state of a loop. `proven`: what servers accepted; `fallback`: documents from files, for names that do not
    compile."""

    proven: Proven
    fallback: dict[str, bytes] = field(default_factory=dict)
    snapshot: Snapshot | None = None
    applied: dict[str, bytes] | None = None
    warm: dict[str, bytes] = field(default_factory=dict)
    """Previously applied documents by name: servers have them warm."""
    given: int = 0
    """The generation that was applied last."""
    seen: int = -1
    """Sequence of the last processed event."""
    waiting: bool = False
    reported_at: float = NEVER
    applied_at: float = NEVER
    apply_again_at: float | None = None
    again_at: float = NEVER
    again_s: float = COMPILE_AGAIN_S

    @property
    def compiled(self) -> Snapshot:
        """The compiled snapshot; the first observation compiles it."""
        assert self.snapshot is not None  # noqa: S101 - compiled before
        return self.snapshot

    @property
    def generation(self) -> int:
        """The generation of the compiled snapshot."""
        return self.snapshot.generation if self.snapshot else 0

    @property
    def retryable(self) -> bool:
        """Whether a retry may help: a missing file may be restored without any event."""
        refusals = self.snapshot.refusals if self.snapshot else {}
        return any(refusal.code != REVOKED for refusal in refusals.values())

    def documents(self) -> dict[str, bytes]:
        """The documents to serve: the compiled ones, else the last good ones unless revoked.

        Documents that servers refused are replaced by those that they accepted before.
        """
        snapshot = self.compiled
        before = {**self.proven.good, **(self.fallback if self.applied is None else self.applied)}
        kept = {
            name: before[name]
            for name, refusal in snapshot.refusals.items()
            if name in before and refusal.code != REVOKED and not snapshot.has_revoked(before[name])
        }
        return self.proven.offered({**kept, **snapshot.documents}, snapshot.has_revoked)

    def unserved(self) -> dict[str, FlyballError]:
        """Placed names without any document to serve, with the reason."""
        served = self.documents()
        return {name: refusal for name, refusal in self.compiled.refusals.items() if name not in served}


def step(state: State, seen: Observation) -> list[Action]:
    """Update the state by an observation; returns the actions, in order."""
    match seen:
        case RegistrySeen():
            return list(_on_registry(state, seen))
        case Compiled():
            _on_compiled(state, seen)
            return list(_serve(state, seen.now))
        case Applied(now, documents):
            before = state.applied or {}
            warm = state.warm | {name: before[name] for name in before if documents.get(name) != before[name]}
            state.warm = {name: document for name, document in warm.items() if name in documents}
            state.applied, state.given, state.applied_at = documents, state.generation, now
            state.reported_at = NEVER
            return []
        case ServersSeen():
            return list(_on_servers(state, seen))
        case Reported(now):
            state.reported_at = now
            return []


def _on_registry(state: State, seen: RegistrySeen) -> Iterator[Action]:
    if seen.trust_changed:
        state.apply_again_at = seen.now + TRUST_READ_S
    moved = state.snapshot is None or seen.head != state.seen
    if moved and (state.snapshot is None or state.seen < 0 or seen.acted):
        yield Compile(seen.head, "events")
        return
    state.seen = seen.head
    if not moved and seen.fetched:
        yield Compile(seen.head, "files")
    elif not moved and state.retryable and seen.now >= state.again_at:
        yield Compile(seen.head, "retry")
    else:
        yield from _serve(state, seen.now)


def _on_compiled(state: State, seen: Compiled) -> None:
    state.snapshot, state.seen = seen.snapshot, seen.asked.head
    if seen.asked.cause != "retry":
        state.reported_at = NEVER  # a promotion may wait for reports of servers that serve it already
    if seen.asked.cause == "files":
        return
    state.again_s = min(state.again_s * 2, COMPILE_AGAIN_S_MAX) if seen.asked.cause == "retry" else COMPILE_AGAIN_S
    state.again_at = seen.now + state.again_s


def _serve(state: State, now: float) -> Iterator[Action]:
    again = state.apply_again_at is not None and now >= state.apply_again_at
    if again:
        state.apply_again_at = None
        state.proven.refused.clear()  # the new policy may accept it
    given = list(_give(state, again=again))
    yield from given
    if given or now - state.reported_at >= (ASK_AGAIN_S if state.waiting else REPORT_S):
        yield Ask()


def _give(state: State, *, again: bool = False) -> Iterator[Action]:
    """Apply changed documents. The last good snapshot is written first, so that it is never the older one."""
    documents = state.documents()
    if documents != state.applied or again:
        yield _keep(state, documents)
        yield Apply(documents)


def _on_servers(state: State, seen: ServersSeen) -> Iterator[Action]:
    """Process reports: a document that all servers refuse is replaced by the last good one at once."""
    applied, state.waiting = state.applied or {}, seen.waiting
    everybody = not seen.waiting or seen.now - state.applied_at >= REFUSALS_WAIT_S
    state.proven.hear(applied, seen.reports, generation=state.given, everybody=everybody)
    yield _keep(state, applied)
    yield from _give(state)
    yield Drop()
    yield Report(seen.reports)


def _keep(state: State, wanted: dict[str, bytes]) -> Keep:
    state.proven.only(wanted)
    return Keep(dict(state.proven.good), state.proven.taken)
