"""A call as steps without I/O, and the two loops that run steps: one blocks, one awaits.

A call is a generator: it yields what must be done (send, pause, take turns) and receives the result or the error. So the
blocking client and the asynchronous one share every line but these loops. Must not know protocols.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from flyball.errors import FlyballError

if TYPE_CHECKING:
    from flyball.client.deadline import Deadline

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Send:
    """Send one request once; the result is the transport's reply."""

    request: Any
    deadline: Deadline


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait before the next attempt."""

    seconds: float


@dataclass(frozen=True, slots=True)
class InTurn:
    """Run steps while no other call of this client does; the result is theirs."""

    steps: Callable[[], Steps[Any]]
    deadline: Deadline


Steps = Generator[Send | Pause | InTurn, Any, T]


class Transport(Protocol):
    """Connections to one server that block."""

    def send(self, request: Any, deadline: Deadline) -> Any:
        """Send a request once; return the reply, or raise if there is none."""

    def close(self) -> None:
        """Close the connections."""


class AsyncTransport(Protocol):
    """Connections to one server on an event loop."""

    async def send(self, request: Any, deadline: Deadline) -> Any:
        """Send a request once; return the reply, or raise if there is none."""

    async def close(self) -> None:
        """Close the connections."""


def run(steps: Steps[T], transport: Transport, turn: threading.Lock) -> T:
    """Run a call's steps and block until its result."""
    act: Callable[[], Send | Pause | InTurn] = partial(next, steps)
    while True:
        try:
            step = act()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        try:
            act = partial(steps.send, _done(step, transport, turn))
        except FlyballError as error:
            act = partial(steps.throw, error)


async def run_async(steps: Steps[T], transport: AsyncTransport, turn: asyncio.Lock) -> T:
    """Run a call's steps on the event loop."""
    act: Callable[[], Send | Pause | InTurn] = partial(next, steps)
    while True:
        try:
            step = act()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        try:
            act = partial(steps.send, await _done_async(step, transport, turn))
        except FlyballError as error:
            act = partial(steps.throw, error)


def _done(step: Send | Pause | InTurn, transport: Transport, turn: threading.Lock) -> Any:
    match step:
        case Send(request, deadline):
            return transport.send(request, deadline)
        case Pause(seconds):
            time.sleep(seconds)
            return None
        case InTurn(steps, deadline):
            if not turn.acquire(timeout=deadline.left_s()):
                raise deadline.passed()
            try:
                return run(steps(), transport, turn)
            finally:
                turn.release()


async def _done_async(step: Send | Pause | InTurn, transport: AsyncTransport, turn: asyncio.Lock) -> Any:
    match step:
        case Send(request, deadline):
            return await transport.send(request, deadline)
        case Pause(seconds):
            return await asyncio.sleep(seconds)
        case InTurn(steps, deadline):
            try:
                async with asyncio.timeout(deadline.left_s()):
                    await turn.acquire()
            except TimeoutError as error:
                raise deadline.passed() from error
            try:
                return await run_async(steps(), transport, turn)
            finally:
                turn.release()
