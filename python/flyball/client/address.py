"""A server's address and a caller's key: which protocol a URL selects. Must not know connections."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from flyball.errors import UsageError

API_KEY_ENV = "FLYBALL_API_KEY"
_HOST_PORT = re.compile(r"[A-Za-z0-9.-]+:[0-9]{1,5}")
_FORMS = "write http://HOST:PORT, grpc://HOST:PORT or unix:/PATH"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens, and who calls it."""

    url: str
    grpc: bool
    host: str
    """HOST:PORT; `localhost` for a Unix socket."""
    unix_path: str | None
    api_key: str | None = field(repr=False)


def address_of(url: str, api_key: str | None) -> Address:
    """Parse a URL; without an `api_key`, FLYBALL_API_KEY from the environment counts."""
    key = api_key or os.environ.get(API_KEY_ENV) or None
    if key is not None and not (key.isascii() and key.isprintable()):
        raise UsageError(
            "api_key: only printable ASCII characters are allowed", next_step="copy the key without its new line"
        )
    parts = urlsplit(url)
    if parts.scheme == "unix" and not parts.netloc and parts.path:
        return Address(url, False, "localhost", parts.path, key)
    if parts.scheme not in ("http", "grpc") or not parts.netloc:
        meant = f"write  http://{url}" if _HOST_PORT.fullmatch(url) else _FORMS
        raise UsageError(f"{url!r} is not a server's address", next_step=meant)
    if parts.path.strip("/") or parts.query or parts.fragment:
        extra = url.partition(parts.netloc)[2]
        raise UsageError(f"{url!r} must not have a path: remove {extra!r}", next_step=_FORMS)
    if "@" in parts.netloc:
        raise UsageError("a server's address has no user or password", next_step="give a key:  Client(url, api_key=KEY)")
    return Address(url, parts.scheme == "grpc", parts.netloc, None, key)


def is_visible_ascii(text: str) -> bool:
    """Whether a text has only visible ASCII characters, as an idempotency key does."""
    return text.isascii() and text.isprintable() and " " not in text
