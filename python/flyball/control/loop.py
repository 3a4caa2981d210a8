"""The control loop: registry → compile → apply → report, again and again, and on its own while the registry is away.

One thread. It polls the end of the log, compiles where that moved, applies what changed, and says in the registry what the
data plane made of it. The last good snapshot stays on disk. Must not know the command line.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from flyball.control.compile import REVOKED, Compiler, Snapshot
from flyball.control.fetches import FETCHING, Fetches
from flyball.control.reports import reports_of
from flyball.control.state_folder import documents_of
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
from flyball.registry.handle import Opened
from flyball.registry.tables.nodes import NODE_LETTERS_MAX

if TYPE_CHECKING:
    from pathlib import Path

    from flyball.control.state_folder import StateFolder
    from flyball.documents.snapshot import Bundle
    from flyball.native.server_documents import Deployments
    from flyball.signing.keys import PrivateKey

POLL_S = 0.25
_BACKOFF_S_MAX = 5.0
_REPORT_S = 10.0
_ASK_AGAIN_S = 1.0
_TRUST_READ_S = 2.0
"""Servers look each second whether the trust policy changed; what serves is judged by it when it is applied again."""
_STOP_S = 5.0
_REFUSALS_WAIT_S = 10.0
"""How long servers that have not answered are waited for before a document that the others refused gives way."""
_COMPILE_AGAIN_S, _COMPILE_AGAIN_S_MAX = 2.0, 30.0
"""What did not compile is tried again so soon, then ever more seldom."""


class Plane(Protocol):
    """A data plane, here or elsewhere."""

    waiting: bool
    """Whether a server had not yet seen the last snapshot when it was asked."""

    def apply(self, bundle: Bundle) -> None:
        """Give it a snapshot."""

    def told(self) -> dict[str, Deployments]:
        """What each server says of itself, by its name; a server that cannot be asked is left out."""


class ControlLoop:
    """Keeps a data plane at what the registry says. `first` gives what to start with, `begin` starts the thread."""

    def __init__(self, home: Path | str, environment: str, key: PrivateKey, state: StateFolder, *, actor: str) -> None:
        self._home, self._environment, self._key, self.state = home, environment, key, state
        self._actor = actor
        self._opened: Opened | None = None
        self._compiler: Compiler | None = None
        self._fetches = Fetches(self.wake)
        self._proven = state.proven()
        newest = state.newest()
        self._before = self._proven.without_registry(documents_of(newest)) if newest else {}
        self._applied: dict[str, bytes] | None = None
        self._warm: dict[str, bytes] = {}
        """What was given before, by name: servers have it warm."""
        self._given = 0
        self._snapshot: Snapshot | None = None
        self._seen = -1
        self._again_at, self._again_s = 0.0, _COMPILE_AGAIN_S
        self._told: dict[str, str] = {}
        self._reported_at, self._applied_at = 0.0, 0.0
        self._judged_at: float | None = None
        self._down: str | None = None
        self._unkept: str | None = None
        self._distrusted: str | None = None
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def first(self) -> Bundle:
        """What the registry says now; while it cannot be reached, the last good snapshot."""
        try:
            self._look(self._registry())
            self._await_what_is_new()
            self._applied, self._given = self._documents(), self._generation
            self._keep(self._applied)
            return self._bundle(self._applied)
        except (FlyballError, OSError) as error:
            kept = self._kept()
            if kept is None:
                raise
            self._say_down(error)
            self._applied = documents_of(kept)
            return kept

    def _await_what_is_new(self) -> None:
        """Wait for packages of names that have nothing older to be served; the others go on with that."""
        while refusals := self._without_anything():
            for refusal in refusals.values():
                if isinstance(refusal, UnavailableError):
                    raise refusal
            if not any(refusal.code == FETCHING for refusal in refusals.values()):
                return
            self._fetches.wait()
            self._compile()

    def _without_anything(self) -> dict[str, FlyballError]:
        served = self._documents()
        refusals = self._snapshot.refusals if self._snapshot else {}
        return {name: refusal for name, refusal in refusals.items() if name not in served}

    def _kept(self) -> Bundle | None:
        """What the files say: the newest snapshot, with the last good document where no server ever took the newest."""
        newest = self.state.newest()
        if newest is None:
            return self.state.last_good()
        anchor = newest.parsed_index().registry
        if anchor is None or self._before == documents_of(newest):
            return newest
        checkpoint = Head(anchor.sequence, anchor.hash.removeprefix("sha256:"))
        return Snapshot(self._environment, checkpoint, self._before, {}).bundle(self.state.folder, self._key)

    def begin(self, plane: Plane) -> None:
        """Go on in a thread of its own, with a data plane that has what `first` gave.

        A server that has just started has nothing older to go on with: what it refused is served as it was before.
        """
        if self._snapshot is not None:
            self._hear(plane)
        self._thread = threading.Thread(target=self._run, args=(plane,), name="flyball-control", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Look at once: somebody in this process knows that something changed."""
        self._woken.set()

    def stop(self) -> None:
        """End, after what is under way."""
        self._stopped.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join(_STOP_S)
        self._fetches.close()
        if self._opened is not None:
            self._opened.close()
        self.state.close()

    def tick(self, plane: Plane) -> None:
        """Look once, and do what is to be done. Raises what stands in the way."""
        opened = self._registry()
        if self._look(opened):
            self._judged_at = time.monotonic() + _TRUST_READ_S
        judging = self._judged_at is not None and time.monotonic() >= self._judged_at
        if judging:
            self._judged_at = None
            self._proven.refused.clear()  # by the new policy it may be taken
        self._apply(plane, anew=judging)
        if time.monotonic() - self._reported_at >= (_ASK_AGAIN_S if plane.waiting else _REPORT_S):
            self._settle(opened, plane)
        if self._down is not None:
            self._down = None
            _log("INFO", "registry reachable again", environment=self._environment)

    def _run(self, plane: Plane) -> None:
        wait_s = POLL_S
        while not self._stopped.is_set():
            try:
                self.tick(plane)
                wait_s = POLL_S
            except (FlyballError, OSError) as error:
                self._say_down(error)
                wait_s = min(wait_s * 2, _BACKOFF_S_MAX)
            except Exception as error:  # a loop that ends would leave its server at an old state for ever
                _log("ERROR", "control loop failed", reason=repr(error)[:2000])
                wait_s = _BACKOFF_S_MAX
            self._woken.wait(wait_s)
            self._woken.clear()

    def _apply(self, plane: Plane, *, anew: bool = False) -> None:
        """Give servers what changed. The last good snapshot is written first, so that it is never the older one."""
        documents = self._documents()
        if documents != self._applied or anew:
            self._keep(documents)
            plane.apply(self._bundle(documents))
            before = self._applied or {}
            self._warm |= {name: before[name] for name in before if documents.get(name) != before[name]}
            self._applied, self._given, self._applied_at = documents, self._generation, time.monotonic()
            self._reported_at = 0.0

    def _hear(self, plane: Plane) -> dict[str, Deployments]:
        """What servers say. Where all of them refuse a document, the good one before it is put in its place at once."""
        told, applied = plane.told(), self._applied or {}
        everybody = not plane.waiting or time.monotonic() - self._applied_at >= _REFUSALS_WAIT_S
        self._proven.hear(applied, told, generation=self._given, everybody=everybody)
        self._keep(applied)
        self._apply(plane)
        self._drop()
        return told

    def _drop(self) -> None:
        applied = self._applied or {}
        self._warm = {name: document for name, document in self._warm.items() if name in applied}
        dropped = self.state.drop_all_but(self._proven.good.values(), applied.values(), self._warm.values())
        if dropped:
            _log("INFO", "packages dropped that nothing serves any more", count=len(dropped), packages=dropped)

    def _keep(self, wanted: dict[str, bytes]) -> None:
        """Keep what servers took of what is wanted. A disk that is full must not keep a rollback from a server."""
        self._proven.only(wanted)
        try:
            self.state.keep(self._bundle(self._proven.good), self._proven.taken)
        except (FlyballError, OSError) as error:
            if self._unkept != str(error):
                self._unkept = str(error)
                _log("ERROR", "last good snapshot not kept", reason=self._unkept)
        else:
            self._unkept = None

    def _registry(self) -> Opened:
        if self._opened is None:
            self._opened = Opened.at(self._home)
            self._compiler = Compiler(self._opened, self._environment, self.state.folder, self._fetches)
        return self._opened

    def _look(self, opened: Opened) -> bool:
        """Compile where the log moved; whether there is a new trust policy."""
        head = opened.log.head()
        trusted = self._take_trust(opened)
        if head.sequence != self._seen or self._snapshot is None:
            self._check_anchor(opened)
            if self._snapshot is None or self._seen < 0 or opened.log.acted_since(self._seen):
                self._compile()
                self._reported_at = 0.0  # who placed something waits for the word of servers that serve it already
                self._again_s = _COMPILE_AGAIN_S
                self._again_at = time.monotonic() + self._again_s
            self._seen = head.sequence
        elif self._fetches.ended():
            self._compile()
            self._reported_at = 0.0
        elif self._mendable() and time.monotonic() >= self._again_at:
            self._compile()
            self._again_s = min(self._again_s * 2, _COMPILE_AGAIN_S_MAX)
            self._again_at = time.monotonic() + self._again_s
        return trusted

    def _mendable(self) -> bool:
        """Whether something did not compile that may do so later: a file may be put back, and no event tells."""
        refusals = self._snapshot.refusals if self._snapshot else {}
        return any(refusal.code != REVOKED for refusal in refusals.values())

    def _take_trust(self, opened: Opened) -> bool:
        """A policy that is not taken must not keep a rollback from servers: they go on with the one that they have."""
        try:
            taken = self.state.take_trust(opened.home.trust_root, opened.home.trust)
        except (RefusedError, UsageError) as error:
            if not self.state.trust_policy.is_file():
                raise
            if self._distrusted != error.message:
                self._distrusted = error.message
                _log("ERROR", "trust policy not taken", reason=str(error))
            return False
        self._distrusted = None
        return taken

    def _check_anchor(self, opened: Opened) -> None:
        """Never follow a registry that went back: an empty database would take everything away from callers."""
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

    def _compile(self) -> None:
        assert self._compiler is not None  # noqa: S101 - made with the registry
        self._snapshot = self._compiler.compile()
        refusals = {name: f"{refusal.code}: {refusal.message}" for name, refusal in self._snapshot.refusals.items()}
        for name, words in refusals.items():
            if self._told.get(name) != words:
                fetching = self._snapshot.refusals[name].code == FETCHING
                message = "deployment waits for its files" if fetching else "deployment not compiled"
                _log("INFO" if fetching else "WARN", message, deployment=name, reason=words)
        for name in self._told.keys() - refusals.keys():
            _log("INFO", "deployment compiled again", deployment=name)
        self._told = refusals
        for name, why in self._snapshot.broken_glass.items():
            _log("WARN", "placed by breaking the glass", deployment=name, environment=self._environment, reason=why)

    def _documents(self) -> dict[str, bytes]:
        """What is to be served: what compiled, and for the rest what was good before, unless it was revoked.

        What servers refused gives way to what they took before.
        """
        assert self._snapshot is not None  # noqa: S101 - compiled before
        before = {**self._proven.good, **(self._before if self._applied is None else self._applied)}
        kept = {
            name: before[name]
            for name, refusal in self._snapshot.refusals.items()
            if name in before and refusal.code != REVOKED and not self._snapshot.has_revoked(name, before[name])
        }
        return self._proven.offered({**kept, **self._snapshot.documents})

    def _bundle(self, documents: dict[str, bytes]) -> Bundle:
        assert self._snapshot is not None  # noqa: S101 - compiled before
        return dataclasses.replace(self._snapshot, documents=documents).bundle(self.state.folder, self._key)

    @property
    def _generation(self) -> int:
        return self._snapshot.generation if self._snapshot else 0

    def _settle(self, opened: Opened, plane: Plane) -> None:
        """Report what became of it, and keep what serves as the last good snapshot."""
        assert self._snapshot is not None  # noqa: S101 - compiled before
        for node, said in self._hear(plane).items():
            reports = reports_of(node[:NODE_LETTERS_MAX], said, self._snapshot, self._given, self._proven.refused)
            opened.nodes.report(node[:NODE_LETTERS_MAX], self._environment, reports, actor=self._actor)
        self._publish(opened)
        self._reported_at = time.monotonic()

    def _publish(self, opened: Opened) -> None:
        """One event for each change of what the environment serves, by the first of its loops that has all of it."""
        assert self._snapshot is not None  # noqa: S101 - compiled before
        stream, generation = publish_stream(self._environment), self._generation
        revision, known = opened.log.revision(stream), opened.tables.published(self._environment)
        if self._mendable() or (known is not None and known.generation >= generation):
            return
        digest = digest_of(self._snapshot.bundle(self.state.folder, self._key).index)
        body = {"environment": self._environment, "generation": generation, "digest": digest}
        with contextlib.suppress(RegistryConflictError):  # another loop was faster
            opened.log.append(stream, revision, "published", body, actor=self._actor, authenticated="server")

    def _say_down(self, error: Exception) -> None:
        """Once for each reason: a registry that is away for a night must not fill a disk."""
        if isinstance(error, UnavailableError) and self._opened is not None:
            self._seen = -1  # what happened meanwhile is looked for when it is back
        words = str(error)
        if self._down != words:
            self._down = words
            _log("WARN", "registry not followed, serving what was last good", reason=words)


def _log(level: str, message: str, **fields: Any) -> None:
    sys.stderr.write(json.dumps({"level": level, "message": message, **fields}) + "\n")
    sys.stderr.flush()
