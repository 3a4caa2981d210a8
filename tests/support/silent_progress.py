"""A progress that shows nothing."""

from __future__ import annotations


class Silent:
    """A progress that nobody watches."""

    def begin(self, name: str, total: float) -> Silent:
        return self

    def update(self, completed: float, status: str) -> None:
        pass

    def end(self, status: str) -> None:
        pass
