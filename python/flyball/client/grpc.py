"""gRPC by grpcio: one channel, blocking or on an event loop. Needs the extra: pip install 'flyball[grpc]'.

Calls use `channel.unary_unary`, so only message types are generated. Must not know what travels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.client.grpc_dialect import GrpcRequest, error_of
from flyball.errors import needing

if TYPE_CHECKING:
    from flyball.client.address import Address
    from flyball.client.deadline import Deadline

_OPTIONS = [
    ("grpc.max_send_message_length", -1),  # the server enforces the limit
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


class GrpcTransport:
    """One HTTP/2 connection to one server; thread-safe."""

    def __init__(self, address: Address) -> None:
        self._grpc = _grpc()
        self._address = address
        self._channel = self._grpc.insecure_channel(address.host, options=_OPTIONS)

    def close(self) -> None:
        """Close the connection; calls in flight are cancelled."""
        self._channel.close()

    def send(self, request: GrpcRequest, deadline: Deadline) -> Any:
        """Make one call."""
        try:
            return _call(self._channel, request, self._address.api_key, deadline)
        except self._grpc.RpcError as error:
            raise error_of(error, self._address.host, deadline) from error


class AsyncGrpcTransport:
    """One HTTP/2 connection to one server, for one event loop."""

    def __init__(self, address: Address) -> None:
        self._grpc = _grpc()
        self._address = address
        self._open: Any = None

    async def close(self) -> None:
        """Close the connection; calls in flight are cancelled."""
        if self._open is not None:
            await self._open.close()

    async def send(self, request: GrpcRequest, deadline: Deadline) -> Any:
        """Make one call."""
        if self._open is None:  # a channel belongs to the loop that runs when it is made
            self._open = self._grpc.aio.insecure_channel(self._address.host, options=_OPTIONS)
        try:
            return await _call(self._open, request, self._address.api_key, deadline)
        except self._grpc.RpcError as error:
            raise error_of(error, self._address.host, deadline) from error


def _grpc() -> Any:
    with needing("gRPC needs grpcio and protobuf", extra="grpc"):
        import grpc
    return grpc


def _call(channel: Any, request: GrpcRequest, api_key: str | None, deadline: Deadline) -> Any:
    """Start one call: the response, or for an asynchronous channel what gives it."""
    caller = [] if api_key is None else [("authorization", f"Bearer {api_key}")]
    method = channel.unary_unary(
        request.method,
        request_serializer=type(request.message).SerializeToString,
        response_deserializer=request.response.FromString,
    )
    return method(request.message, timeout=deadline.left_s(), metadata=[*request.metadata, *caller])
