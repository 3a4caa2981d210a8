"""Checks for a rollback whether servers would accept a version's release now.

Without this a rollback could choose an expired release, servers would refuse it, and the bad version would go on serving.
What cannot be checked here is left to the servers, so that a rollback depends on nothing else.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from flyball.errors import FlyballError, SignatureError
from flyball.registry.events.kinds import printable
from flyball.signing.release import check_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from flyball.registry.events.state import Version
    from flyball.registry.handle import RegistryHandle

_WORDS_MAX = 1024


def judge(opened: RegistryHandle, environment: str) -> Callable[[Version], str | None]:
    """A function that returns why the environment's servers would refuse a version now, or None."""
    trust, now = opened.trust_if_readable(), int(time.time())

    def unfit(version: Version) -> str | None:
        try:
            release = opened.release(version)
        except FlyballError:
            return None
        try:
            if trust is not None:
                trust.release(release, now, environment)
            elif release is not None:
                check_place(release, now, environment)
        except SignatureError as error:
            return "".join(letter if printable(letter) else "?" for letter in error.message)[:_WORDS_MAX]
        return None

    return unfit
