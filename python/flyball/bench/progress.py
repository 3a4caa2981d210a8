"""Progress of a long measurement; the command line decides how to show it."""

from __future__ import annotations

from typing import Protocol


class Step(Protocol):
    """One step of a command."""

    def update(self, completed: float, status: str) -> None:
        """Report how much is done, with a short status."""

    def end(self, status: str) -> None:
        """Finish the step with its final status."""


class Progress(Protocol):
    """Shows steps, one after another."""

    def begin(self, name: str, total: float) -> Step:
        """Begin a step; `total` is what `completed` will reach."""
