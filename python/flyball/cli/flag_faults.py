"""The refusal of flags that break a rule of the document that they become: the flag as typed, its value, what is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.errors import Fault, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


class FlagFault(Fault):
    """A fault of a flag; its path is the flag."""

    __slots__ = ()

    def __str__(self) -> str:
        if self.found in (None, "null"):
            return f"{self.path} is missing: {self.allowed}"
        return f"{self.path}: {shown(self.found)} is not valid; allowed: {self.allowed}"


def refused(faults: Sequence[Fault], next_step: str) -> UsageError:
    """One message for one fault, else a line for each."""
    if len(faults) == 1:
        return UsageError(str(faults[0]), next_step=next_step)
    if all(fault.found in (None, "null") and fault.allowed == faults[0].allowed for fault in faults):
        return UsageError(
            f"{', '.join(fault.path for fault in faults)} are missing: {faults[0].allowed}", next_step=next_step
        )
    return UsageError(f"{len(faults)} flags are not valid", faults=list(faults), next_step=next_step)


def shown(value: object) -> str:
    """The value as typed: a text in quotes, and not too long."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
