"""HTTP/1.1 messages on asyncio's streams: writes a request's head, reads a reply. Must not know connections.

asyncio has no HTTP of its own. This reads what servers may send to a client that asks for one coding and never upgrades:
bodies with a length, in chunks, or up to the end of the connection. The standard library parses the headers.
"""

from __future__ import annotations

import io
from http.client import HTTPException, parse_headers
from typing import TYPE_CHECKING

from flyball.client.http_dialect import HttpReply

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

_NO_BODY = (204, 304)


def head_of(method: str, path: str, host: str, headers: Mapping[str, str], length: int) -> bytes:
    """A request's head. Values come from `HttpDialect`, which lets no control character through."""
    lines = {"Host": host, "Accept-Encoding": "identity", **headers}
    if length or method == "POST":
        lines["Content-Length"] = str(length)
    written = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{written}\r\n".encode("ascii")


async def read_reply(reader: asyncio.StreamReader) -> tuple[HttpReply, bool]:
    """The next reply, and whether its connection can be used again. Raises ValueError for what is not HTTP/1.1."""
    status, version, headers = await _head(reader)
    while 100 <= status < 200:
        status, version, headers = await _head(reader)
    body, ended = await _body(reader, status, headers)
    reusable = ended and version != "HTTP/1.0" and headers.get("connection", "").lower() != "close"
    return HttpReply(status, headers, body), reusable


async def _head(reader: asyncio.StreamReader) -> tuple[int, str, dict[str, str]]:
    first, _, rest = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
    version, status, *_ = [*first.decode("latin-1").split(" ", 2), "", ""]
    if not version.startswith("HTTP/1.") or len(status) != 3 or not status.isdecimal():
        raise ValueError(f"{first[:40]!r} is not a status line of HTTP/1.1")
    try:
        parsed = parse_headers(io.BytesIO(rest))
    except HTTPException as error:
        raise ValueError(str(error)) from error
    return int(status), version, {name.lower(): value for name, value in parsed.items()}


async def _body(reader: asyncio.StreamReader, status: int, headers: Mapping[str, str]) -> tuple[bytes, bool]:
    """The body, and whether it ended before the connection does."""
    if status in _NO_BODY:
        return b"", True
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return await _chunks(reader), True
    length = headers.get("content-length")
    if length is None:
        return await reader.read(), False
    if not length.isdecimal():
        raise ValueError(f"Content-Length: {length!r} is not a number")
    return await reader.readexactly(int(length)), True


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while True:
        size = int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16)
        if size == 0:
            break
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass  # trailers
    return b"".join(parts)
