"""Makes what a URL selects: the protocol, and connections that block or run on an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.client.http_dialect import HttpDialect

if TYPE_CHECKING:
    from flyball.client.address import Address
    from flyball.client.exchange import Dialect
    from flyball.client.steps import AsyncTransport, Transport


def dialect_of(address: Address) -> Dialect:
    """The protocol that the address selects."""
    if not address.grpc:
        return HttpDialect()
    from flyball.client.grpc_dialect import GrpcDialect

    return GrpcDialect()


def transport_to(address: Address, connections_max: int) -> Transport:
    """Connections that block."""
    if address.grpc:
        from flyball.client.grpc import GrpcTransport

        return GrpcTransport(address)
    from flyball.client.http import HttpTransport

    return HttpTransport(address, connections_max)


def async_transport_to(address: Address, connections_max: int) -> AsyncTransport:
    """Connections for an event loop."""
    if address.grpc:
        from flyball.client.grpc import AsyncGrpcTransport

        return AsyncGrpcTransport(address)
    from flyball.client.http_async import AsyncHttpTransport

    return AsyncHttpTransport(address, connections_max)
