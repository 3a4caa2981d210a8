"""`Server`: a data plane in this process. Must not know the command line, nor what a snapshot contains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from flyball.native.boundary import call, native, ort_library
from flyball.native.server_documents import Ack, Deployments, Totals

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from flyball.documents.config.server import ServerConfig

_ACKS = TypeAdapter(list[Ack])


class Server:
    """A data plane in this process, on its own threads. Block signals before you start one."""

    def __init__(
        self, config: ServerConfig, bundle: bytes, on_load: Callable[[str, str | None, bool], Path | None] | None = None
    ) -> None:
        """`on_load` returns the newest snapshot with a model that a client loads; it is called on another thread.

        It gets the model's name, and the configuration in JSON if the client sent one.
        """
        if config.ort_path is None:
            config = config.model_copy(update={"ort_path": str(ort_library())})
        self._server = call(native.Server, config.model_dump_json().encode(), bundle, on_load)

    def addresses(self) -> list[str]:
        """The bound addresses: "127.0.0.1:8080", "tls://127.0.0.1:8443", "unix:/run/flyball.sock"."""
        return call(self._server.addresses)

    def ready_line(self) -> str:
        """The line that reports readiness, as `flyballd` prints it."""
        return call(self._server.ready_line)

    def acks(self) -> list[Ack]:
        """The result of each deployment."""
        return _ACKS.validate_json(call(self._server.acks))

    def deployments(self) -> Deployments:
        """All deployments: serving, refused with the reason, and kept warm."""
        return Deployments.model_validate_json(call(self._server.deployments))

    def apply(self, bundle: bytes) -> list[Ack]:
        """Apply another snapshot, deployment by deployment."""
        return _ACKS.validate_json(call(self._server.apply, bundle))

    def drain(self) -> None:
        """Start draining; does not wait."""
        call(self._server.drain)

    def wait(self, timeout_s: float) -> bool:
        """Whether the server stopped within the time."""
        return call(self._server.wait, timeout_s)

    def totals(self) -> Totals:
        """Requests so far."""
        return Totals.model_validate_json(call(self._server.totals))
