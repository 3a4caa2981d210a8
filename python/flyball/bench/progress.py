"""The progress interface of long measurements; the command line implements it."""

from __future__ import annotations

from typing import Protocol


class Step(Protocol):
    """One step of a command."""

    def update(self, completed: float, status: str) -> None:
        """Report the amount done, with a short text."""

    def end(self, status: str) -> None:
        """Finish the step with its final status."""


class Progress(Protocol):
    """Shows steps one after another."""

    def begin(self, name: str, total: float) -> Step:
        """Begin a step; `total` is the final value of `completed`."""
