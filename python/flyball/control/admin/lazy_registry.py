"""A registry that is opened by the first request: `flyball serve --admin-listen` starts while the database is away.

Must not know what is asked.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from flyball.registry.local import LocalRegistry


class LazyRegistry:
    """Everything that the registry has, once it can be opened; until then each request is told why it cannot."""

    def __init__(self, opening: Callable[[], LocalRegistry]) -> None:
        self._opening = opening
        self._found: LocalRegistry | None = None
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            if self._found is None:
                self._found = self._opening()
        return getattr(self._found, name)

    def close(self) -> None:
        """Give connections back, where there are any."""
        with self._lock:
            if self._found is not None:
                self._found.close()
