"""HTTP over a Unix socket: a urllib3 pool that connects to a path."""

from __future__ import annotations

import socket

from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import NewConnectionError


def pool_to(path: str) -> type[HTTPConnectionPool]:
    """A pool class that connects to one socket, whatever the host's name."""

    class ToPath(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                if isinstance(self.timeout, int | float):
                    sock.settimeout(self.timeout)
                sock.connect(path)
            except OSError as error:
                sock.close()
                raise NewConnectionError(self, f"no connection to {path}: {error.strerror or error}") from error
            return sock

    class Pool(HTTPConnectionPool):
        ConnectionCls = ToPath

    return Pool
