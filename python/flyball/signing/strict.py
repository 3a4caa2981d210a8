"""JSON, base64, digests and times of signed documents, read strictly: what two readers could take in two ways is refused.

`crates/signing` reads by the same rules: no key twice, no more than 32 levels, UTF-8 without a byte order mark, base64 with
its padding and no stray bits. Must not know what the documents mean.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from datetime import UTC, datetime
from typing import Any

from flyball.signing.reasons import Reason, refused

DEPTH_MAX = 32
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_HEX = re.compile(r"[0-9a-f]{64}")
_NESTING = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)


def read_object(data: bytes, what: str, bytes_max: int) -> dict[str, Any]:
    """The JSON object in these bytes; its size and depth are judged before anything is built from it."""
    if len(data) > bytes_max:
        raise refused(Reason.TOO_LARGE, f"{what} has {len(data):,} bytes, and {bytes_max:,} are allowed")
    if _depth(data) > DEPTH_MAX:
        raise refused(Reason.TOO_LARGE, f"{what} is nested more than {DEPTH_MAX} levels deep")
    try:
        document = json.loads(data.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant, parse_int=_whole)
        # A lone surrogate is no text, and 1e999 no number: Rust could not hold them.
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except ValueError as error:
        raise refused(Reason.MALFORMED, f"{what} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise refused(Reason.MALFORMED, f"{what} is not a JSON object")
    return document


def field(document: dict[str, Any], key: str, kind: type[Any], what: str) -> Any:
    """A value that must be there and be of this type; `true` is no number."""
    value = document.get(key)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise refused(Reason.MALFORMED, f"{what} has no {key}, or it is not {_KINDS[kind]}")
    return value


def constant(document: dict[str, Any], key: str, wanted: str | int, what: str) -> None:
    """A value that can only be this one; another of its type is a format that is not served."""
    found = field(document, key, type(wanted), what)
    if found != wanted:
        raise refused(Reason.UNSUPPORTED, f"{what}: {key} is {found!r}, and only {wanted!r} is served")


def decode_base64(text: str, what: str) -> bytes:
    """Standard base64 with its padding, in the one spelling that these bytes have."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise refused(Reason.MALFORMED, f"{what} is not base64: {error}") from error
    if encode_base64(data) != text:
        raise refused(Reason.MALFORMED, f"{what} is not base64 as it is written everywhere")
    return data


def encode_base64(data: bytes) -> str:
    """Standard base64 with its padding."""
    return base64.b64encode(data).decode("ascii")


def is_hex(text: object) -> bool:
    """Whether this is a SHA-256 as 64 small hexadecimal digits."""
    return isinstance(text, str) and _HEX.fullmatch(text) is not None


def is_digest(text: object) -> bool:
    """Whether this is `sha256:` and 64 small hexadecimal digits."""
    return isinstance(text, str) and text.startswith("sha256:") and is_hex(text[7:])


def seconds(time: str) -> int:
    """Unix seconds of a time as signed documents write it; `ValueError` where it is written in any other way."""
    if not _TIME.fullmatch(time):
        raise ValueError("a time is written 2026-11-16T04:00:00Z: UTC, with seconds and nothing smaller")
    return int(datetime.fromisoformat(time).timestamp())


def written(at: int) -> str:
    """A time as signed documents write it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_KINDS: dict[type[Any], str] = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


def _depth(data: bytes) -> int:
    """How deep brackets are nested outside of texts, found without parsing: the parser itself recurses."""
    depth = deepest = 0
    for token in _NESTING.finditer(data):
        first = token[0][:1]
        if first in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif first in b"]}":
            depth -= 1
    return deepest


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _whole(text: str) -> int:
    number = int(text)
    try:
        float(number)
    except OverflowError as error:
        raise ValueError("a number is out of range") from error
    return number


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON value")
