"""`Server`: a data plane in this process. Must not know the command line, nor what a snapshot contains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from flyball.native.boundary import boundary, native, ort_library
from flyball.native.server_documents import Ack, Deployments, Totals

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from flyball.documents.config.server import ServerConfig

_ACKS = TypeAdapter(list[Ack])


class Server:
    """A data plane in this process, on threads of its own. Mask signals before you make one."""

    def __init__(self, config: ServerConfig, bundle: bytes, on_load: Callable[[str], Path | None] | None = None) -> None:
        """`on_load`: asked on another thread for the newest snapshot that has a model, when a client wants it loaded."""
        if config.ort_path is None:
            config = config.model_copy(update={"ort_path": str(ort_library())})
        with boundary():
            self._server = native.Server(config.model_dump_json().encode(), bundle, on_load)

    def addresses(self) -> list[str]:
        """The bound addresses: "127.0.0.1:8080", "tls://127.0.0.1:8443", "unix:/run/flyball.sock"."""
        with boundary():
            return self._server.addresses()

    def ready_line(self) -> str:
        """The one line that says that the server is ready, the same as `flyballd`'s."""
        with boundary():
            return self._server.ready_line()

    def acks(self) -> list[Ack]:
        """What became of each deployment."""
        with boundary():
            return _ACKS.validate_json(self._server.acks())

    def deployments(self) -> Deployments:
        """What serves now, what was refused and why, and what is kept warm."""
        with boundary():
            return Deployments.model_validate_json(self._server.deployments())

    def apply(self, bundle: bytes) -> list[Ack]:
        """Apply another snapshot, deployment by deployment."""
        with boundary():
            return _ACKS.validate_json(self._server.apply(bundle))

    def drain(self) -> None:
        """Begin to drain; does not wait."""
        with boundary():
            self._server.drain()

    def wait(self, timeout_s: float) -> bool:
        """Whether the server stopped within the time."""
        with boundary():
            return self._server.wait(timeout_s)

    def totals(self) -> Totals:
        """Requests so far."""
        with boundary():
            return Totals.model_validate_json(self._server.totals())
