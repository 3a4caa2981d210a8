"""A registry opened by the first request, so that `flyball serve --admin-listen` starts without its database.

Must not know what is requested.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from flyball.registry.local import LocalRegistry


class LazyRegistry:
    """Delegates to the registry once it can be opened; until then each request fails with the cause."""

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
        """Close the registry, if it was opened."""
        with self._lock:
            if self._found is not None:
                self._found.close()
