"""What may be a name: of a deployment, a version, an environment, an alias. One pattern for all of them, in every room.

Names become folders and parts of addresses, so they are held to this wherever one comes in. Must not know what is named.
"""

from __future__ import annotations

import re

NAME_PATTERN = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$"
"""For schemas, whose `$` is the very end."""
NAME_WORDS = "1 to 128 of A-Z a-z 0-9 . _ - and not beginning with a dot"

_NAME = re.compile(NAME_PATTERN)


def is_name(text: str) -> bool:
    """Whether this may be a name; Python's `$` would let a line's end pass."""
    return _NAME.fullmatch(text) is not None
