"""HTTP/1.1 on asyncio's streams: a bounded pool of keep-alive connections. Must not know what travels.

A connection returns to the pool only after a whole reply. In every other case, a cancelled task among them, it is closed.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flyball.client.http1 import head_of, read_reply
from flyball.client.http_dialect import HttpReply, HttpRequest, attempt_headers, broken_connection, no_connection

if TYPE_CHECKING:
    from flyball.client.address import Address
    from flyball.client.deadline import Deadline


@dataclass(frozen=True, slots=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def is_open(self) -> bool:
        return not self.reader.at_eof() and not self.writer.is_closing()


class AsyncHttpTransport:
    """At most `connections_max` connections to one server, for one event loop."""

    def __init__(self, address: Address, connections_max: int) -> None:
        self._address = address
        self._url = f"http://{address.host}"
        self._slots = asyncio.Semaphore(connections_max)
        self._idle: list[_Connection] = []
        self._closed = False

    async def close(self) -> None:
        """Close every connection; those in use close when their request ends."""
        self._closed = True
        while self._idle:
            writer = self._idle.pop().writer
            writer.close()
            with suppress(OSError):  # the server has closed it first
                await writer.wait_closed()

    async def send(self, request: HttpRequest, deadline: Deadline) -> HttpReply:
        """Send a request once, as soon as a connection is free."""
        try:
            async with asyncio.timeout(deadline.left_s()), self._slots:
                return await self._exchange(request, deadline)
        except TimeoutError as error:
            raise deadline.passed() from error

    async def _exchange(self, request: HttpRequest, deadline: Deadline) -> HttpReply:
        connection = self._waiting() or await self._connect()
        reusable = False
        try:
            headers = {**request.headers, **attempt_headers(self._address.api_key, deadline)}
            connection.writer.write(head_of(request.method, request.path, self._address.host, headers, len(request.body)))
            connection.writer.write(request.body)
            await connection.writer.drain()
            reply, reusable = await read_reply(connection.reader)
            return reply
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise broken_connection(self._url, error) from error
        finally:
            if reusable and not self._closed:
                self._idle.append(connection)
            else:
                connection.writer.transport.abort()

    def _waiting(self) -> _Connection | None:
        """An idle connection that the server has not closed: the one used last, so that the others may expire."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open():
                return connection
            connection.writer.transport.abort()
        return None

    async def _connect(self) -> _Connection:
        try:
            if self._address.unix_path is not None:
                return _Connection(*await asyncio.open_unix_connection(self._address.unix_path))
            host, _, port = (
                self._address.host.rpartition(":") if _has_port(self._address.host) else (self._address.host, "", "80")
            )
            return _Connection(*await asyncio.open_connection(host.strip("[]"), int(port)))
        except OSError as error:
            raise no_connection(self._url, _plain(error)) from error


def _plain(error: OSError) -> OSError:
    """The operating system's own words, which asyncio hides; of several addresses, those about the first."""
    number = error.errno or next((int(found) for found in re.findall(r"\[Errno (\d+)\]", str(error))), None)
    return error if number is None or number < 0 else OSError(number, os.strerror(number))


def _has_port(host: str) -> bool:
    return host.rpartition(":")[2].isdecimal() and not host.endswith("]")
