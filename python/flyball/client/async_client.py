"""`AsyncClient`: the methods of `Client`, each awaited, over HTTP or gRPC on an event loop.

A method of `Client` builds the steps of a call and gives them to `_run`. Here `_run` gives a coroutine, and so each method
of `Client` is a method of `AsyncClient` too, with the same arguments and the same checks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Never, ParamSpec, Self, TypeVar

from flyball.client.address import address_of
from flyball.client.client import Client
from flyball.client.opening import async_transport_to, dialect_of
from flyball.client.operations import Operations
from flyball.client.steps import run_async
from flyball.errors import UsageError

if TYPE_CHECKING:
    from flyball.client.steps import AsyncTransport, Steps

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    method: Callable[Concatenate[Client, P], T],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """A method of `Client` as a coroutine function of `AsyncClient`."""
    on_any: Callable[..., Any] = method

    @wraps(method)
    async def call(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await on_any(self, *args, **kwargs)
        return result

    # Python names it where the await was forgotten.
    call.__qualname__ = f"AsyncClient.{method.__name__}"
    return call


class AsyncClient:
    """A client of one server for one event loop. Close it, or use it in an `async with`.

        async with flyball.AsyncClient("http://127.0.0.1:8080", deadline_ms=50) as client:
            decided = await client.decide("card", {"amount": 12.5})

    The arguments are those of `Client`. Over HTTP at most `connections_max` requests are on the way at once; others wait,
    which counts towards their deadline. A cancelled call closes its connection.
    """

    def __init__(
        self, url: str, *, deadline_ms: float = 10_000, connections_max: int = 64, api_key: str | None = None
    ) -> None:
        address = address_of(url, api_key)
        self.url = url
        self._operations = Operations(dialect_of(address), deadline_ms)
        self._transport: AsyncTransport | None = async_transport_to(address, connections_max)
        self._turn = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"<AsyncClient {self.url}{'' if self._transport else ', closed'}>"

    infer = _awaited(Client.infer)
    decide = _awaited(Client.decide)
    decide_rows = _awaited(Client.decide_rows)
    outcome = _awaited(Client.outcome)
    outcomes = _awaited(Client.outcomes)
    override = _awaited(Client.override)
    erase = _awaited(Client.erase)
    hold = _awaited(Client.hold)
    release = _awaited(Client.release)
    holds = _awaited(Client.holds)
    seal = _awaited(Client.seal)
    metadata = _awaited(Client.metadata)
    ready = _awaited(Client.ready)
    live = _awaited(Client.live)

    async def close(self) -> None:
        """Close the connections; the client cannot be used again."""
        self._refuse_another_loop()
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    def __enter__(self) -> Never:
        raise UsageError(
            "an AsyncClient needs `async with`",
            next_step="async with flyball.AsyncClient(url) as client: …   or without asyncio:  flyball.Client(url)",
        )

    def __exit__(self, *_: object) -> None:
        """Never called; a `with` wants it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, steps: Steps[T]) -> T:
        transport = self._transport
        if transport is None:
            raise UsageError("the client is closed", next_step="create another:  flyball.AsyncClient(url)")
        self._refuse_another_loop()
        self._loop = asyncio.get_running_loop()
        return await run_async(steps, transport, self._turn)

    def _refuse_another_loop(self) -> None:
        if self._loop not in (None, asyncio.get_running_loop()):
            raise UsageError(
                "the client belongs to another event loop", next_step="create one in each:  async with AsyncClient(url)"
            )
