"""`flyball serve --registry`: a control loop beside the server of this process.

What is imported for it is imported only here: a server without a registry needs none of it.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.admin import late_listener
from flyball.documents.log import log
from flyball.errors import FlyballError, UsageError

if TYPE_CHECKING:
    from flyball.control.admin.listener import AdminListener
    from flyball.control.loop import ControlLoop
    from flyball.documents.snapshot import Bundle
    from flyball.native.server import Server
    from flyball.signing.keys import PrivateKey

_PANEL = "From a registry"
_STATE = Path(".flyball/state")
_ENVIRONMENT = "production"

RegistryHome = Annotated[
    Path | None,
    typer.Option(
        "--registry",
        metavar="HOME",
        help="Serve what a registry has placed in the environment, and follow it.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
PublisherKey = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Private key that signs snapshots: a publisher's.", show_default=False, rich_help_panel=_PANEL
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Where the last good snapshot is kept. [.flyball/state/ENVIRONMENT]",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
AdminListen = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="Serve the registry's admin API, too.", show_default=False, rich_help_panel=_PANEL
    ),
]


class Follower:
    """A control loop for the server of this process; it is made when the first snapshot is read."""

    def __init__(self, home: Path, environment: str, key: Path, state: Path, trust_root: Path | None) -> None:
        self._made = (home, environment, key, state, trust_root)
        self.admin: AdminListener | None = None
        """The registry's admin API, where it is wanted; it has a thread of its own."""
        self._loop: ControlLoop | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """What the server must be told, beside its flags."""
        from flyball.control.state_folder import paths_of_trust

        _, environment, _, state, trust_root = self._made
        root, policy = paths_of_trust(state, trust_root)
        return {"trust_root": str(root), "trust_policy": str(policy), "environment": environment}

    def read(self) -> Bundle:
        """What to start with: what the registry says, or the last good snapshot."""
        self._loop = loop_of(*self._made)
        return self._loop.first()

    def begin(self, server: Server) -> None:
        """Follow, from now on."""
        from flyball.control.planes import ServerPlane

        if self._loop is not None:
            self._loop.begin(ServerPlane(server, f"{node_name()}/{server.addresses()[0]}"[:200]))
        if self.admin is not None:
            self.admin.start()
            log("INFO", "admin API ready", url=self.admin.url)

    def wake(self) -> None:
        """Look at once."""
        if self._loop is not None:
            self._loop.wake()

    def end(self) -> None:
        """Follow no longer."""
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
    """The follower of a registry's environment, where one was named; nothing is read yet."""
    if home is None:
        if admin_listen is not None:
            raise UsageError("--admin-listen is for a registry's admin API", next_step="give --registry HOME, too")
        return None
    if key is None:
        raise UsageError(
            "a snapshot is signed by whoever compiles it, and no key was given for that",
            next_step="flyball key new publisher.pem; flyball trust add it as a publisher; then --publisher-key FILE",
        )
    chosen = environment or _ENVIRONMENT
    follower = Follower(home, chosen, key, state or _STATE / chosen, trust_root)
    follower.admin = None if admin_listen is None else late_listener(home, admin_listen)
    return follower


def loop_of(home: Path, environment: str, key: Path, state: Path, trust_root: Path | None) -> ControlLoop:
    """A control loop that has not begun."""
    from flyball.control.loop import ControlLoop
    from flyball.control.state_folder import StateFolder
    from flyball.signing.keys import load_private

    private = load_private(key)
    _check_environment(home, environment)
    _check_publisher(home, key, private)
    return ControlLoop(home, environment, private, StateFolder(state, trust_root), actor=node_name())


def _check_environment(home: Path, environment: str) -> None:
    """A slip would serve nothing and look well. A registry that cannot be read is no fault: the last snapshot serves."""
    from flyball.registry.home import Home

    try:
        known = Home.find(home).settings.environments
    except FlyballError:
        return
    if environment not in known:
        raise UsageError(f"{home} has no environment {environment!r}", next_step=f"one of {', '.join(known)}")


def _check_publisher(home: Path, file: Path, private: PrivateKey) -> None:
    """Another key's snapshots are refused by the server itself, which then serves nothing: who starts it hears first."""
    from flyball.registry.home import Home
    from flyball.signing.keys import hint, load_publics
    from flyball.signing.trust import Trust

    try:
        found = Home.find(home)
        policy = Trust(found.trust.read_bytes(), load_publics(found.trust_root), int(time.time())).policy
    except (FlyballError, OSError):
        return  # what is wrong with it is told by whoever needs it
    mine = hint(private.public_key())
    if not any(key.hint == mine and "publisher" in key.roles for key in policy.keys):
        raise UsageError(
            f"{file} is no publisher's key, and servers take snapshots of publishers only",
            next_step=f"flyball trust add {file.with_suffix('.pub')} --name NAME --role publisher --file {found.trust}",
        )


def node_name() -> str:
    """This machine, as events and reports name it."""
    return socket.gethostname()[:120] or "node"
