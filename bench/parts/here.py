"""Whether a third-party server is installed, and how long to wait for it.

Must not know what is done where it is missing: tests skip, or fail where it is required; claims say so.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.errors import FlyballError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

START_S = 20.0
_POLL_S = 0.01


class NotHereError(FlyballError):
    """A part that this machine does not have."""

    code = "part_missing"


def program(name: str, get: str, *, variable: str | None = None, places: Sequence[str] = ()) -> str:
    """Where a program is: what the variable says, on the path, or the newest of these places; `get` says how to get it."""
    found = (variable and os.environ.get(variable)) or shutil.which(name)
    further = [str(path) for place in places for path in sorted(Path(place).glob(f"*/bin/{name}"))]
    if not found and not further:
        raise NotHereError(f"{name} is missing; get it: {get}")
    return found or further[-1]


def until(what: str, probe: Callable[[], bool], timeout_s: float = START_S) -> None:
    """Asks again until it is so, with a deadline."""
    end = time.monotonic() + timeout_s
    while not probe():
        if time.monotonic() > end:
            raise FlyballError(f"waited {timeout_s:g} s in vain: {what}")
        time.sleep(_POLL_S)
