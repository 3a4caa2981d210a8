"""The addresses of a run's servers: the document that the driver passes to the cases.

Standard library only: it is read in every client's own environment.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True)
class Addresses:
    """Two servers with the same models: an open one with every option on, and one with the defaults."""

    open: str  # host:port, HTTP and gRPC
    closed: str
    tls: str  # of the open one
    mutual_tls: str  # of the closed one: callers must have a certificate
    socket: str  # path of the open one's Unix socket
    authority: str  # files, PEM
    caller_certificate: str
    caller_key: str
    flavour: str = ""  # http or grpc, for cases that have both

    @classmethod
    def read(cls, text: str) -> Addresses:
        """Parse the driver's document."""
        return cls(**json.loads(text))

    def with_flavour(self, flavour: str) -> Addresses:
        """The same servers for another protocol."""
        return replace(self, flavour=flavour)

    def __str__(self) -> str:
        return json.dumps(asdict(self))
