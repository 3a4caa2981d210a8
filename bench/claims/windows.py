"""Windows of several sides, measured in turn. Those in which the host took too much CPU time are discarded, with the reason.

A discarded window is kept in the record: it measures the host, and anybody can look. Must not know what is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from flyball.bench.machine import HostWatch
from flyball.bench.statistics import STEAL_MAX
from flyball.native.load_documents import LoadResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_BULK = {"histogram", "service_histogram", "timeline"}


@dataclass(frozen=True, slots=True)
class Discarded:
    """A window that proves nothing, and why."""

    value: Any
    reason: str


@dataclass(slots=True)
class Windows:
    """Measurements of one side, taken in turn with the others'."""

    values: list[Any] = field(default_factory=list)
    discarded: list[Discarded] = field(default_factory=list)

    def keep(self, value: Any, steal_share: float) -> bool:
        """Take a window, or discard it because of the host; says which."""
        reason = steal_reason(steal_share)
        if reason is None:
            self.values.append(value)
        else:
            self.discarded.append(Discarded(value, reason))
        return reason is None


def steal_reason(steal_share: float) -> str | None:
    """Why a window proves nothing; None for one that may be kept."""
    if steal_share <= STEAL_MAX:
        return None
    return f"the host took {steal_share:.1%} of the CPU time, at most {STEAL_MAX:.0%} may be"


def interleave(sides: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, Windows]:
    """Measure the sides in turn, `repeats` times; a window that is discarded is repeated at the end.

    A side gets at most twice the repeats: a busy host yields few windows instead of no end.
    """
    found = {name: Windows() for name in sides}
    for turn in range(2 * repeats):
        wanting = [name for name, windows in found.items() if len(windows.values) < repeats]
        if not wanting or (turn >= repeats and not any(found[name].discarded for name in wanting)):
            break
        for name in wanting:
            with HostWatch() as host:
                value = sides[name]()
            found[name].keep(value, host.seen.steal_share)
    return found


def as_json(value: Any) -> Any:
    """A value as JSON has it, for records; loads without their histograms, of which no figure is computed."""
    if isinstance(value, LoadResult):
        return value.model_dump(exclude=_BULK)
    if isinstance(value, BaseModel):
        return value.model_dump()
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if hasattr(value, "item"):  # a number of NumPy's
        return value.item()
    return str(value)
