"""What a long measurement tells whoever watches it; how that is shown is the command line's business."""

from __future__ import annotations

from typing import Protocol


class Step(Protocol):
    """One step of a command."""

    def update(self, completed: float, told: str) -> None:
        """How much is done, and a few words on it."""

    def end(self, told: str) -> None:
        """The step is done; its last words."""


class Progress(Protocol):
    """Shows steps, one after another."""

    def begin(self, name: str, total: float) -> Step:
        """Begin a step; `total` is what `completed` will reach."""
