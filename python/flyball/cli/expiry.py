"""When signed things begin and end: `90d` from now, a day, or a time; all UTC."""

from __future__ import annotations

import re
import time

from flyball.errors import UsageError

_DAY_S = 86_400
_DAYS = re.compile(r"([0-9]{1,5})d")


def moment_from_now(text: str, flag: str) -> int:
    """Parse the value of `flag` to Unix seconds."""
    from flyball.signing.strict import seconds

    if days := _DAYS.fullmatch(text):
        return int(time.time()) + int(days[1]) * _DAY_S
    try:
        return seconds(text if "T" in text else f"{text}T00:00:00Z")
    except ValueError as error:
        step = "write 90d, 2027-01-31 or 2027-01-31T12:00:00Z"
        raise UsageError(f"{flag}: {text!r} is not a time", next_step=step) from error
