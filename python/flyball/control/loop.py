"""The control loop: polls the registry, compiles, applies, reports; works on while the registry is unreachable.

One thread. It observes and executes the actions that `step` returns: it polls the head of the log, compiles after new
events, applies changes, and reports the data plane's answers to the registry. The last good snapshot stays on disk. Must
not know the command line.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from typing import TYPE_CHECKING, Literal, Protocol

from flyball.control.compile import Compiler, Snapshot
from flyball.control.fetches import FETCHING, Fetches
from flyball.control.reports import reports_of
from flyball.control.state_folder import documents_of
from flyball.control.step import (
    Action,
    Applied,
    Apply,
    Ask,
    Compile,
    Compiled,
    Drop,
    Keep,
    Observation,
    RegistrySeen,
    Report,
    Reported,
    ServersSeen,
    State,
    step,
)
from flyball.documents.log import log
from flyball.documents.snapshot.store import digest_of
from flyball.errors import (
    FlyballError,
    RefusedError,
    RegistryBrokenError,
    RegistryConflictError,
    UnavailableError,
    UsageError,
)
from flyball.registry.events.event import Head, publish_stream
from flyball.registry.handle import RegistryHandle
from flyball.registry.tables.nodes import NODE_LETTERS_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from flyball.control.state_folder import StateFolder
    from flyball.documents.snapshot import Bundle
    from flyball.native.server_documents import Deployments
    from flyball.signing.keys import PrivateKey

POLL_S = 0.25
_BACKOFF_S_MAX = 5.0
_STOP_S = 5.0


class Plane(Protocol):
    """A data plane, in this process or elsewhere."""

    waiting: bool
    """Whether a server had not seen the last snapshot at its last report."""

    def apply(self, bundle: Bundle) -> None:
        """Apply a snapshot."""

    def reports(self) -> dict[str, Deployments]:
        """The servers' reports by name, without unreachable servers."""


class ControlLoop:
    """Keeps a data plane in line with the registry. `first` returns the initial snapshot, `begin` starts the thread."""

    def __init__(self, home: Path | str, environment: str, key: PrivateKey, state: StateFolder, *, actor: str) -> None:
        self._home, self._environment, self._key, self.state = home, environment, key, state
        self._actor = actor
        self._opened: RegistryHandle | None = None
        self._compiler: Compiler | None = None
        self._fetches = Fetches(self.wake)
        proven, newest = state.proven(), state.newest()
        self.loop_state = State(proven, proven.without_registry(documents_of(newest)) if newest else {})
        self._refusals: dict[str, str] = {}
        self._logged: dict[str, str] = {}
        """The problem of each kind that was logged last, and has not ended since."""
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def first(self) -> Bundle:
        """The registry's current snapshot; the last good one if it is unreachable."""
        loop_state = self.loop_state
        try:
            step(loop_state, self._compile(Compile(self._look().head, "events")))
            self._await_what_is_new()
            loop_state.applied, loop_state.given = loop_state.documents(), loop_state.generation
            loop_state.proven.only(loop_state.applied)
            self._keep(Keep(loop_state.proven.good, loop_state.proven.taken))
            return self._bundle(loop_state.applied)
        except (FlyballError, OSError) as error:
            kept = self._kept()
            if kept is None:
                raise
            self._say_down(error)
            loop_state.applied = documents_of(kept)
            return kept

    def _await_what_is_new(self) -> None:
        """Wait for packages of names without an older document; others serve that one meanwhile."""
        while refusals := self.loop_state.unserved():
            for refusal in refusals.values():
                if isinstance(refusal, UnavailableError):
                    raise refusal
            if not any(refusal.code == FETCHING for refusal in refusals.values()):
                return
            self._fetches.wait()
            step(self.loop_state, self._compile(Compile(self.loop_state.seen, "files")))

    def _kept(self) -> Bundle | None:
        """The snapshot from files: the newest, with last good documents where no server accepted the newest."""
        newest = self.state.newest()
        if newest is None:
            return self.state.last_good()
        anchor = newest.parsed_index().registry
        if anchor is None or self.loop_state.fallback == documents_of(newest):
            return newest
        checkpoint = Head(anchor.sequence, anchor.hash.removeprefix("sha256:"))
        return Snapshot(self._environment, checkpoint, self.loop_state.fallback, {}).bundle(self.state.folder, self._key)

    def begin(self, plane: Plane) -> None:
        """Run in a new thread, with a data plane that has applied `first`.

        A server that has just started has no older documents: those that it refused are replaced by the last good ones
        first.
        """
        if self.loop_state.snapshot is not None:
            heard = step(self.loop_state, self._ask(plane))
            self._carry_out(plane, [action for action in heard if not isinstance(action, Report)])
        self._thread = threading.Thread(target=self._run, args=(plane,), name="flyball-control", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Poll at once: another thread knows of a change."""
        self._woken.set()

    def stop(self) -> None:
        """Stop after the current action."""
        self._stopped.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join(_STOP_S)
        self._fetches.close()
        if self._opened is not None:
            self._opened.close()
        self.state.close()

    def tick(self, plane: Plane) -> None:
        """Poll once and execute all actions; raises their errors."""
        self._carry_out(plane, step(self.loop_state, self._look()))
        if self._logged.pop("down", None):
            log("INFO", "registry reachable again", environment=self._environment)

    def _carry_out(self, plane: Plane, actions: list[Action]) -> None:
        for action in actions:
            if (seen := self._done(plane, action)) is not None:
                self._carry_out(plane, step(self.loop_state, seen))

    def _done(self, plane: Plane, action: Action) -> Observation | None:
        match action:
            case Compile():
                return self._compile(action)
            case Keep():
                self._keep(action)
            case Apply(documents):
                plane.apply(self._bundle(documents))
                return Applied(time.monotonic(), documents)
            case Ask():
                return self._ask(plane)
            case Drop():
                self._drop()
            case Report(reports):
                self._report(reports)
                return Reported(time.monotonic())
        return None

    def _run(self, plane: Plane) -> None:
        wait_s = POLL_S
        while not self._stopped.is_set():
            try:
                self.tick(plane)
                wait_s = POLL_S
            except (FlyballError, OSError) as error:
                self._say_down(error)
                wait_s = min(wait_s * 2, _BACKOFF_S_MAX)
            except Exception as error:  # a dead loop would leave its server at an old state forever
                log("ERROR", "control loop failed", reason=repr(error)[:2000])
                wait_s = _BACKOFF_S_MAX
            self._woken.wait(wait_s)
            self._woken.clear()

    def _ask(self, plane: Plane) -> ServersSeen:
        reports = plane.reports()
        return ServersSeen(time.monotonic(), reports, plane.waiting)

    def _drop(self) -> None:
        loop_state, applied = self.loop_state, self.loop_state.applied or {}
        dropped = self.state.drop_all_but(loop_state.proven.good.values(), applied.values(), loop_state.warm.values())
        if dropped:
            log("INFO", "unused packages removed", count=len(dropped), packages=dropped)

    def _keep(self, keep: Keep) -> None:
        """Write the last good snapshot; a full disk must not stop a rollback."""
        try:
            self.state.keep(self._bundle(keep.good), keep.taken)
        except (FlyballError, OSError) as error:
            self._log_once("unkept", "ERROR", "last good snapshot not kept", str(error))
        else:
            self._logged.pop("unkept", None)

    def _registry(self) -> RegistryHandle:
        if self._opened is None:
            self._opened = RegistryHandle.at(self._home)
            self._compiler = Compiler(self._opened, self._environment, self.state.folder, self._fetches)
        return self._opened

    def _look(self) -> RegistrySeen:
        """Poll the registry; expensive checks run only after new events."""
        opened, loop_state = self._registry(), self.loop_state
        head = opened.log.head().sequence
        trust_changed = self._take_trust(opened)
        acted = False
        if head != loop_state.seen or loop_state.snapshot is None:
            self._check_anchor(opened)
            acted = loop_state.seen < 0 or opened.log.acted_since(loop_state.seen)
        return RegistrySeen(time.monotonic(), head, acted, trust_changed, self._fetches.ended())

    def _take_trust(self, opened: RegistryHandle) -> bool:
        """Copy a newer trust policy; a refused one must not stop a rollback: servers keep the one they have."""
        try:
            taken = self.state.take_trust(opened.home.trust_root, opened.home.trust)
        except (RefusedError, UsageError) as error:
            if not self.state.trust_policy.is_file():
                raise
            self._log_once("distrusted", "ERROR", "trust policy refused", str(error))
            return False
        self._logged.pop("distrusted", None)
        return taken

    def _check_anchor(self, opened: RegistryHandle) -> None:
        """Refuse to follow a registry that was reset: an empty database would stop every deployment."""
        kept = self.state.last_good()
        anchor = kept.parsed_index().registry if kept else None
        if anchor is None or anchor.sequence == 0:
            return
        head = opened.log.head()
        if head.sequence < anchor.sequence or opened.log.get(anchor.sequence).head.digest != anchor.hash:
            raise RegistryBrokenError(
                f"the registry is not the one that was followed: its event {anchor.sequence} is gone or another",
                next_step=f"restore it from a backup; to follow it all the same, remove {self.state.folder}",
            )

    def _compile(self, asked: Compile) -> Compiled:
        assert self._compiler is not None  # noqa: S101 - created with the registry handle
        snapshot = self._compiler.compile()
        refusals = {name: f"{refusal.code}: {refusal.message}" for name, refusal in snapshot.refusals.items()}
        for name, words in refusals.items():
            if self._refusals.get(name) != words:
                fetching = snapshot.refusals[name].code == FETCHING
                message = "deployment waits for its files" if fetching else "deployment not compiled"
                log("INFO" if fetching else "WARN", message, deployment=name, reason=words)
        for name in self._refusals.keys() - refusals.keys():
            log("INFO", "deployment compiled again", deployment=name)
        self._refusals = refusals
        for name, why in snapshot.broken_glass.items():
            log("WARN", "placed by breaking the glass", deployment=name, environment=self._environment, reason=why)
        return Compiled(time.monotonic(), snapshot, asked)

    def _bundle(self, documents: dict[str, bytes]) -> Bundle:
        return dataclasses.replace(self.loop_state.compiled, documents=documents).bundle(self.state.folder, self._key)

    def _report(self, reports: Mapping[str, Deployments]) -> None:
        """Store the servers' reports, and publish the environment's snapshot."""
        opened, loop_state = self._registry(), self.loop_state
        for url, report in reports.items():
            node = url[:NODE_LETTERS_MAX]
            rows = reports_of(node, report, loop_state.compiled, loop_state.given, loop_state.proven.refused)
            opened.nodes.report(node, self._environment, rows, actor=self._actor)
        self._publish(opened)

    def _publish(self, opened: RegistryHandle) -> None:
        """Record a changed snapshot as one event, by the environment's first loop that has compiled all of it."""
        stream, generation = publish_stream(self._environment), self.loop_state.generation
        revision = opened.log.revision(stream)
        if self.loop_state.retryable or opened.tables.published(self._environment) >= generation:
            return
        digest = digest_of(self.loop_state.compiled.bundle(self.state.folder, self._key).index)
        body = {"environment": self._environment, "generation": generation, "digest": digest}
        with contextlib.suppress(RegistryConflictError):  # another loop was faster
            opened.log.append(stream, revision, "published", body, actor=self._actor, authenticated="server")

    def _say_down(self, error: Exception) -> None:
        if isinstance(error, UnavailableError) and self._opened is not None:
            self.loop_state.seen = -1  # events during the outage are checked afterwards
        self._log_once("down", "WARN", "registry not followed, serving the last good snapshot", str(error))

    def _log_once(self, kind: str, level: Literal["WARN", "ERROR"], message: str, reason: str) -> None:
        """Log a problem once per reason: a registry that is down for a night must not fill a disk."""
        if self._logged.get(kind) != reason:
            self._logged[kind] = reason
            log(level, message, reason=reason)
