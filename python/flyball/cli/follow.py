"""`flyball serve --registry`: a control loop beside the server of this process.

The registry's imports happen only here: a server without a registry needs none of them.
"""

from __future__ import annotations

import socket
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flyball.cli.admin import late_listener
from flyball.cli.option import option
from flyball.documents.log import log
from flyball.errors import FlyballError, UsageError

if TYPE_CHECKING:
    from flyball.control.admin.listener import AdminListener
    from flyball.control.loop import ControlLoop
    from flyball.documents.snapshot import Bundle
    from flyball.native.server import Server
    from flyball.signing.keys import PrivateKey

_STATE = Path(".flyball/state")
_ENVIRONMENT = "production"

_option = partial(option, panel="From a registry")

RegistryHome = Annotated[
    Path | None,
    _option("Serve what a registry has placed in the environment, and follow its changes.", "--registry", metavar="HOME"),
]
PublisherKey = Annotated[Path | None, _option("A publisher's private key, to sign snapshots.", metavar="FILE")]
AdminListen = Annotated[str | None, _option("Also serve the registry's admin API here.", metavar="HOST:PORT")]


class Follower:
    """A control loop for the server of this process; `read` creates it."""

    def __init__(self, home: Path, environment: str, key: Path, state: Path, trust_root: Path | None) -> None:
        self._arguments = (home, environment, key, state, trust_root)
        self.admin: AdminListener | None = None
        """The registry's admin API, if requested; it has its own thread."""
        self._loop: ControlLoop | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Server settings beside its flags."""
        from flyball.control.state_folder import paths_of_trust

        _, environment, _, state, trust_root = self._arguments
        root, policy = paths_of_trust(state, trust_root)
        return {"trust_root": str(root), "trust_policy": str(policy), "environment": environment}

    def read(self) -> Bundle:
        """Return the first snapshot: the registry's current state, or the last good one."""
        self._loop = loop_of(*self._arguments)
        return self._loop.first()

    def begin(self, server: Server) -> None:
        """Start following the registry."""
        from flyball.control.planes import ServerPlane

        if self._loop is not None:
            self._loop.begin(ServerPlane(server, f"{node_name()}/{server.addresses()[0]}"[:200]))
        if self.admin is not None:
            self.admin.start()
            log("INFO", "admin API ready", url=self.admin.url)

    def wake(self) -> None:
        """Check the registry immediately."""
        if self._loop is not None:
            self._loop.wake()

    def end(self) -> None:
        """Stop following."""
        if self.admin is not None:
            self.admin.stop()
        if self._loop is not None:
            self._loop.stop()


def follower_of(
    home: Path | None,
    environment: str | None,
    key: Path | None,
    state: Path | None,
    trust_root: Path | None,
    *,
    admin_listen: str | None = None,
) -> Follower | None:
    """Build the follower of a registry's environment, None without --registry; reads nothing yet."""
    if home is None:
        if admin_listen is not None:
            raise UsageError("--admin-listen needs --registry", next_step="give --registry HOME, too")
        return None
    if key is None:
        raise UsageError(
            "--registry needs --publisher-key, to sign the snapshots compiled here",
            next_step="flyball key new publisher.pem; flyball trust add it as a publisher; then --publisher-key FILE",
        )
    chosen = environment or _ENVIRONMENT
    follower = Follower(home, chosen, key, state or _STATE / chosen, trust_root)
    follower.admin = None if admin_listen is None else late_listener(home, admin_listen)
    return follower


def loop_of(home: Path, environment: str, key: Path, state: Path, trust_root: Path | None) -> ControlLoop:
    """Build a control loop, not started yet."""
    from flyball.control.loop import ControlLoop
    from flyball.control.state_folder import StateFolder
    from flyball.signing.keys import load_private

    private = load_private(key)
    _check_environment(home, environment)
    _check_publisher(home, key, private)
    return ControlLoop(home, environment, private, StateFolder(state, trust_root), actor=node_name())


def _check_environment(home: Path, environment: str) -> None:
    """Raise for an unknown environment, which would serve nothing. Without the registry, the last snapshot serves."""
    from flyball.registry.home import Home

    try:
        known = Home.find(home).settings.environments
    except FlyballError:
        return
    if environment not in known:
        raise UsageError(f"{home} has no environment {environment!r}", next_step=f"environments: {', '.join(known)}")


def _check_publisher(home: Path, file: Path, private: PrivateKey) -> None:
    """Raise if the key is not a publisher's: the server would refuse its snapshots and serve nothing."""
    from flyball.registry.home import Home
    from flyball.signing.keys import hint, load_publics
    from flyball.signing.trust import Trust

    try:
        found = Home.find(home)
        policy = Trust(found.trust.read_bytes(), load_publics(found.trust_root), int(time.time())).policy
    except (FlyballError, OSError):
        return  # reported where the policy is needed
    mine = hint(private.public_key())
    if not any(key.hint == mine and "publisher" in key.roles for key in policy.keys):
        raise UsageError(
            f"{file} is not a publisher's key; servers accept only snapshots signed by a publisher",
            next_step=f"flyball trust add {file.with_suffix('.pub')} --name NAME --role publisher"
            f" --trust-policy {found.trust}",
        )


def node_name() -> str:
    """The name of this machine in events and reports."""
    return socket.gethostname()[:120] or "node"
