"""The admin API's listener: uvicorn in its own thread, so that a data plane in this process never waits for it.

Keys travel in headers, so beyond this machine it requires TLS, unless `--allow-plaintext` is given.
Must not know what the application does.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flyball.errors import RefusedError, ServerFaultError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import uvicorn
    from fastapi import FastAPI

CONNECTIONS_MAX = 64
_HEAD_BYTES_MAX = 64 << 10
_START_S = 10.0
_GRACE_S = 10


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and the TLS files."""

    host: str
    port: int
    tls_cert: Path | None = None
    tls_key: Path | None = None
    plain_beyond: bool = False

    @classmethod
    def read(
        cls, text: str, tls_cert: Path | None = None, tls_key: Path | None = None, *, plain_beyond: bool = False
    ) -> Address:
        """Parse HOST:PORT, and require TLS for addresses beyond this machine."""
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdigit() or int(port) > 65535:
            raise UsageError(f"{text!r} is not an address", next_step="write HOST:PORT, such as 127.0.0.1:8100")
        if (tls_cert is None) != (tls_key is None):
            raise UsageError("a certificate and its key go together", next_step="give both --tls-cert and --tls-key")
        address = cls(host, int(port), tls_cert, tls_key, plain_beyond)
        if tls_cert is None and not plain_beyond and not _loopback(host):
            raise UsageError(
                f"{text} can be reached from other machines, and API keys would travel to it unencrypted",
                next_step="flyball admin --tls-cert FILE --tls-key FILE; or --allow-plaintext, where a proxy does TLS",
            )
        return address


class AdminListener:
    """A server in a thread. `url` is its address after `start`."""

    def __init__(self, app: FastAPI, address: Address) -> None:
        self._address = address
        self._server = _server(app, address)
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self.url = ""

    def start(self) -> None:
        """Bind, and return once it answers."""
        address = self._address
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        bound = socket.socket(family)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((address.host, address.port))
        except OSError as error:
            bound.close()
            raise RefusedError(
                f"cannot listen on {address.host}:{address.port}: {error.strerror}",
                code="address_refused",
                next_step="name another address, or port 0 for a free one",
            ) from error
        host = f"[{address.host}]" if family == socket.AF_INET6 else address.host
        self.url = f"{'https' if address.tls_cert else 'http'}://{host}:{bound.getsockname()[1]}"
        self._socket = bound
        self._thread = threading.Thread(target=self._run, name="flyball-admin", daemon=True)
        self._thread.start()
        if not _until(lambda: self._server.started or not self.alive, _START_S) or not self.alive:
            self.stop()
            raise ServerFaultError("the admin listener did not start; its log on stderr tells why", code="server_stopped")

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """Stop after requests in flight, with a limit."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_GRACE_S + 1)
        if self._socket is not None:
            self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket] if self._socket else None)


def _server(app: FastAPI, address: Address) -> uvicorn.Server:
    import uvicorn

    config = uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        backlog=CONNECTIONS_MAX,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=_GRACE_S,
        h11_max_incomplete_event_size=_HEAD_BYTES_MAX,
        ssl_certfile=address.tls_cert,
        ssl_keyfile=address.tls_key,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"cannot use the certificate {address.tls_cert}: {error}", next_step="give PEM files of a pair that fits"
        ) from error
    return uvicorn.Server(config)


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _until(done: Callable[[], bool], timeout_s: float) -> bool:
    """Poll a condition: uvicorn offers only a flag."""
    pause = threading.Event()
    for _ in range(int(timeout_s / 0.01)):
        if done():
            return True
        pause.wait(0.01)
    return done()
