"""The one pattern for names of deployments, versions, environments and aliases.

Names become folders and parts of URLs, so every input is checked. Must not know what is named.
"""

from __future__ import annotations

import re

NAME_PATTERN = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$"
"""For schemas, where `$` matches only the very end."""
NAME_WORDS = "1 to 128 of A-Z a-z 0-9 . _ - and not beginning with a dot"

_NAME = re.compile(NAME_PATTERN)


def near_name(text: str) -> str:
    """A valid name like this text, to suggest."""
    near = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:128]
    return near or "NAME"


def is_name(text: str) -> bool:
    """Whether this is a valid name. Uses `fullmatch`, because Python's `$` also matches before a final newline."""
    return _NAME.fullmatch(text) is not None
