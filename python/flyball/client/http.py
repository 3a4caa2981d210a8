"""HTTP/1.1 by urllib3: a pool of keep-alive connections, with a deadline on every wait. Must not know what travels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import urllib3
from urllib3.exceptions import ConnectTimeoutError, EmptyPoolError, HTTPError, MaxRetryError, NewConnectionError
from urllib3.exceptions import TimeoutError as WaitError

from flyball.client.http_dialect import HttpReply, HttpRequest, attempt_headers, broken_connection, no_connection
from flyball.client.unix_socket import pool_to

if TYPE_CHECKING:
    from flyball.client.address import Address
    from flyball.client.deadline import Deadline

_CHUNK_BYTES = 1 << 16


class HttpTransport:
    """A pool of keep-alive connections to one server; thread-safe."""

    def __init__(self, address: Address, connections_max: int) -> None:
        self._url = f"http://{address.host}"
        self._api_key = address.api_key
        # block: extra threads wait for a connection instead of opening and discarding more.
        self._pool = urllib3.PoolManager(num_pools=1, maxsize=connections_max, block=True, retries=False)
        if address.unix_path is not None:
            self._pool.pool_classes_by_scheme = {"http": pool_to(address.unix_path)}

    def close(self) -> None:
        """Close every idle connection."""
        self._pool.clear()

    def send(self, request: HttpRequest, deadline: Deadline) -> HttpReply:
        """Send a request once."""
        try:
            response = self._pool.request(
                request.method,
                self._url + request.path,
                body=request.body or None,
                headers={**request.headers, **attempt_headers(self._api_key, deadline)},
                timeout=urllib3.Timeout(total=deadline.left_s()),
                pool_timeout=deadline.left_s(),
                preload_content=False,
                decode_content=True,
                redirect=False,
            )
            try:
                content = _read(response, deadline)
            finally:
                # A connection with half a response cannot be reused; closing it keeps its slot in the pool.
                if not response.closed:
                    response.close()
                response.release_conn()
        except (NewConnectionError, ConnectTimeoutError, MaxRetryError) as error:
            raise (no_connection(self._url, error) if deadline.allows(0) else deadline.passed()) from error
        except (WaitError, EmptyPoolError) as error:
            raise deadline.passed() from error
        except HTTPError as error:
            raise broken_connection(self._url, error) from error
        return HttpReply(response.status, {name.lower(): value for name, value in response.headers.items()}, content)


def _read(response: urllib3.BaseHTTPResponse, deadline: Deadline) -> bytes:
    """Read the whole body; a slow server cannot exceed the deadline by more than one wait."""
    parts: list[bytes] = []
    while True:
        left = deadline.left_s()
        sock = getattr(response.connection, "sock", None)
        if sock is not None:
            sock.settimeout(left)
        part = response.read1(_CHUNK_BYTES)
        if not part:
            return b"".join(parts)
        parts.append(part)
