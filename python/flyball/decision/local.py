"""Runs a server in this process: the same code and API as elsewhere, on a private Unix socket or an address.

There is no second implementation. Must not know how decisions are written.
"""

from __future__ import annotations

import atexit
import shutil
import signal
import tempfile
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Self

from flyball.errors import FlyballError
from flyball.rows.html_table import html_table

if TYPE_CHECKING:
    from flyball.client import Client
    from flyball.documents.config.server import ServerConfig
    from flyball.documents.snapshot import Bundle
    from flyball.native.server import Server
    from flyball.native.server_documents import Ack

_STOP_S = 10.0
_DIGEST_SHOWN = len("sha256:") + 12
_running: weakref.WeakSet[LocalServer] = weakref.WeakSet()


class LocalServer:
    """A data plane in this process with a client of its own; close it, use it in a `with`, or let the process end.

    `client` calls it, and `url` is where other clients find it.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        deadline_ms: float = 60_000,
        journal: bool = False,
        listen: str | None = None,
        **settings: object,
    ) -> None:
        """`settings` are further keys of the server configuration; a `journal` is deleted on close.

        `listen` is HOST:PORT or unix:/PATH; by default nobody else can reach the server.
        """
        from flyball.client import Client
        from flyball.documents.config.server import server_config
        from flyball.native.server import Server

        self._folder = Path(tempfile.mkdtemp(prefix="flyball-"))
        self._lock = threading.Lock()
        if journal:
            settings["journal_folder"] = str(self._folder / "journal")
        try:
            # This process made the bundle, so no signature is needed.
            always: dict[str, object] = {
                "listen": [listen or f"unix:{self._folder / 's'}"],
                "log": "error",
                "unsigned": "allow",
            }
            config = server_config(**(always | settings))
            self._server: Server | None = _started(config, bundle, Server)
            self._refuse_if_not_served()
            address = self._server.addresses()[0]
            self.url = address if address.startswith("unix:") else f"http://{address}"
            self.client: Client = Client(self.url, deadline_ms=deadline_ms)
        except BaseException:
            self.close()
            raise
        _running.add(self)

    def close(self) -> None:
        """Drain and stop it."""
        with self._lock:
            server, self._server = getattr(self, "_server", None), None
        if getattr(self, "client", None) is not None:
            self.client.close()
        if server is not None:
            server.drain()
            server.wait(_STOP_S)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._server is None:
            return "<LocalServer, closed>"
        return f"<LocalServer {self.url}: {', '.join(ack.name for ack in self.acks())}>"

    def _repr_html_(self) -> str:
        lines = [(ack.name, ack.digest[:_DIGEST_SHOWN], self.url) for ack in self.acks()]
        return html_table(("serving", "digest", "at"), lines)

    def acks(self) -> list[Ack]:
        """The state of each deployment."""
        return self._server.acks() if self._server else []

    def _refuse_if_not_served(self) -> None:
        refused = [ack for ack in self.acks() if ack.state == "refused"]
        if refused:
            raise FlyballError("; ".join(f"{ack.name}: {ack.reason}" for ack in refused), code="decision_refused")


def _started(config: ServerConfig, bundle: Bundle, kind: type[Server]) -> Server:
    """Start the server with signals blocked: its threads inherit the mask, so this process keeps its signals."""
    if threading.current_thread() is not threading.main_thread():
        return kind(config, bundle.to_bytes())
    before = signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.valid_signals()))
    try:
        return kind(config, bundle.to_bytes())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@atexit.register
def _close_all() -> None:
    for server in list(_running):
        server.close()
