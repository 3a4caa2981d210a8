"""Base64, digests and times in the format of signed documents. Must not know what the documents mean."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_HEX = re.compile(r"[0-9a-f]{64}")


def encode_base64(data: bytes) -> str:
    """Standard base64 with padding."""
    return base64.b64encode(data).decode("ascii")


def is_hex(text: str) -> bool:
    """Whether this is a SHA-256 as 64 small hexadecimal digits."""
    return _HEX.fullmatch(text) is not None


def is_digest(text: str) -> bool:
    """Whether this is `sha256:` and 64 small hexadecimal digits."""
    return text.startswith("sha256:") and is_hex(text[7:])


def seconds(time: str) -> int:
    """Parse a signed document's time to Unix seconds; raises `ValueError` for any other format."""
    if not _TIME.fullmatch(time):
        raise ValueError("a time is written 2026-11-16T04:00:00Z: UTC, with seconds and nothing smaller")
    return int(datetime.fromisoformat(time).timestamp())


def written(at: int) -> str:
    """Format Unix seconds as a signed document's time."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
