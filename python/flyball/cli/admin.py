"""`flyball admin`: serves the registry's admin API until a signal ends it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from flyball.cli.option import option
from flyball.cli.output import warn_of_root
from flyball.cli.registry.options import WHERE, Home, home, registry_extra
from flyball.cli.signals import Signals
from flyball.errors import ServerFaultError

if TYPE_CHECKING:
    from flyball.control.admin.lazy_registry import LazyRegistry
    from flyball.control.admin.listener import AdminListener
    from flyball.registry.local import LocalRegistry

_POLL_S = 1.0
_GIB = 1 << 30

_Listen = Annotated[str, option("Address to listen on; port 0 picks a free port.", "--listen", metavar="HOST:PORT")]
_UploadMax = Annotated[int, option("Maximum size of an uploaded package, in GiB.", "--upload-gib-max", min=1, max=1024)]


def admin(
    registry: Home = WHERE,
    listen: _Listen = "127.0.0.1:8100",
    tls_cert: Annotated[Path | None, option("PEM file of the TLS certificate.", "--tls-cert")] = None,
    tls_key: Annotated[Path | None, option("PEM file of the TLS private key.", "--tls-key")] = None,
    allow_plaintext: Annotated[
        bool, option("Allow plain HTTP from other machines, behind a proxy that ends TLS.", "--allow-plaintext")
    ] = False,
    upload_gib_max: _UploadMax = 4,
) -> None:
    """Serve the registry's admin API: the same verbs over HTTP, for holders of a key (flyball registry key).

        flyball admin --registry .flyball/registry --listen 127.0.0.1:8100

    Then, on another machine:  FLYBALL_REGISTRY_KEY=… flyball status --registry https://HOST:PORT
    """
    with home(registry) as found:
        listener = listener_of(
            found,
            listen,
            tls_cert,
            tls_key,
            folder=Path(registry),
            plain_beyond=allow_plaintext,
            upload_bytes_max=upload_gib_max * _GIB,
        )
        # Blocked before the listener's thread starts, which inherits the mask: only this thread receives them.
        signals = Signals(signal.SIGTERM, signal.SIGINT)
        warn_of_root("flyball admin")
        listener.start()
        sys.stdout.write(f"ready {listener.url} registry={registry}\n")
        sys.stdout.flush()
        if not found.keys():
            sys.stderr.write("no API keys yet; add one:  flyball registry key add NAME --role deployer\n")
        try:
            _until_signalled(listener, signals)
        finally:
            listener.stop()


def late_listener(home: Path, listen: str) -> AdminListener:
    """Build the admin API beside a server, without starting it; the registry may be unreachable for now."""
    from flyball.control.admin.lazy_registry import LazyRegistry
    from flyball.control.gates import run_gates
    from flyball.registry.local import LocalRegistry

    return listener_of(LazyRegistry(lambda: LocalRegistry.open(home, gates=run_gates)), listen, folder=home)


def listener_of(
    registry: LocalRegistry | LazyRegistry,
    listen: str,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    *,
    folder: Path,
    plain_beyond: bool = False,
    upload_bytes_max: int = 4 * _GIB,
) -> AdminListener:
    """Build the admin API over a registry, without starting it; uploads are staged in `folder`."""
    with registry_extra("the admin API"):
        from flyball.control.admin.app import admin_app
        from flyball.control.admin.listener import Address, AdminListener
        from flyball.control.admin.uploads import Uploads
    address = Address.read(listen, tls_cert, tls_key, plain_beyond=plain_beyond)
    uploads = Uploads(folder, upload_bytes_max)
    uploads.clear()
    return AdminListener(admin_app(registry, uploads), address)


def _until_signalled(listener: AdminListener, signals: Signals) -> None:
    while signals.next(_POLL_S) is None:
        if not listener.alive:
            raise ServerFaultError("the admin listener stopped unexpectedly; see its log on stderr", code="server_stopped")
