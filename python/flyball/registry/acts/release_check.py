"""Whether servers would take a version now that served before: by its release, and the trust policy where that can be read.

For who goes back: a version whose release has ended would be refused, and the bad one would go on. What cannot be found out
is left to servers, so that going back hangs on nothing. Must not know which versions are asked for.
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
    """Asks of a version why servers of the environment would refuse it now; none: nothing speaks against it."""
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
