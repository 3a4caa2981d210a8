"""Makes untrusted text safe for a terminal: control characters and direction overrides become escapes.

`crates/core/src/printable.rs` does the same for logs.
"""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

# A path that is not UTF-8 has surrogates, which no stream can encode.
_OVERRIDES = "\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
_UNSAFE = re.compile(f"[\x00-\x1f\x7f-\x9f{_OVERRIDES}]")
_UNSAFE_IN_LINES = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_OVERRIDES}]")


def printable(text: object) -> str:
    """Escape every character that a terminal would act on, newlines included (`\\u000a`)."""
    return _UNSAFE.sub(_escape, str(text))


def printable_lines(text: str) -> str:
    """Like `printable`, but keep newlines and tabs."""
    return _UNSAFE_IN_LINES.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"


class PrintableStream:
    """A text stream that escapes what is written to it; all else is passed through."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text, escaped."""
        self._stream.write(printable_lines(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the lines, escaped."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def printing(stream: IO[str]) -> IO[str]:
    """Wrap a stream so that everything written to it is escaped."""
    return stream if isinstance(stream, PrintableStream) else cast("IO[str]", PrintableStream(stream))


def unescaped(stream: IO[str]) -> IO[str]:
    """Unwrap a stream, for writers that escape before they add colours."""
    return stream._stream if isinstance(stream, PrintableStream) else stream
